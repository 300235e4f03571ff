"""Rows of ``list``: what is to be minded of an instance when many are changed."""

from collections.abc import Mapping
from datetime import time
from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.instance_policy import InstancePolicy, QuietHours
from hermesops.registry.repositories.base import Repository, insert_or_update
from hermesops.registry.schema.tables import instance_policies


class InstancePolicyRepository(Repository):
    """Policies of instances."""

    def get(self, instance_id: InstanceId) -> InstancePolicy:
        """What is to be minded of an instance."""
        return self.list().get(instance_id, InstancePolicy())

    def list(self) -> Mapping[InstanceId, InstancePolicy]:
        """What is to be minded of those of whom anything is."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(instance_policies))
            return {InstanceId(row.instance_id): _policy(row) for row in rows}

    def set(self, instance_id: InstanceId, policy: InstancePolicy, *, why: str = "") -> None:
        """Write what is to be minded of an instance."""
        quiet = policy.quiet
        values = {
            "opted_in": policy.opted_in,
            "protected": policy.protected,
            "quiet_from": f"{quiet.begin:%H:%M}" if quiet else "",
            "quiet_until": f"{quiet.end:%H:%M}" if quiet else "",
            "timezone": quiet.timezone if quiet else "",
        }
        is_it = instance_policies.c.instance_id == instance_id
        with self._database.writing() as connection:
            row = connection.execute(sa.select(instance_policies).where(is_it)).one_or_none()
            before = {name: getattr(row, name) for name in values} if row else {}
            if before != values:
                insert_or_update(connection, instance_policies, {"instance_id": instance_id, **values})
                subject = instance_subject(instance_id)
                self._note(connection, "instance_policy_set", subject, before=before, after=values, why=why)


def _policy(row: sa.Row[Any]) -> InstancePolicy:
    return InstancePolicy(row.opted_in, row.protected, _hours(row))


def _hours(row: sa.Row[Any]) -> QuietHours | None:
    if not row.quiet_from:
        return None
    return QuietHours(time.fromisoformat(row.quiet_from), time.fromisoformat(row.quiet_until), row.timezone)
