"""Rows of ``instance_policies``: when and in which order rollouts may change an instance."""

from collections.abc import Mapping
from datetime import time
from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstancePolicy, QuietHours
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.store.registry.repositories.base import Repository, insert_or_update
from hermesops.store.registry.schema.tables import instance_policies


class InstancePolicyRepository(Repository):
    """Rows of instances' policies: opt-in, protection and quiet hours."""

    def get(self, instance_id: InstanceId) -> InstancePolicy:
        """An instance's policy, the default one where it has none."""
        return self.list().get(instance_id, InstancePolicy())

    def list(self) -> Mapping[InstanceId, InstancePolicy]:
        """The policies of the instances that have one."""
        return {InstanceId(row.instance_id): _policy(row) for row in self._rows(sa.select(instance_policies))}

    def set(self, instance_id: InstanceId, policy: InstancePolicy, *, why: str = "") -> None:
        """Replace an instance's policy, with an audit entry."""
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
    if not row.quiet_from:
        return InstancePolicy(row.opted_in, row.protected)
    hours = QuietHours(time.fromisoformat(row.quiet_from), time.fromisoformat(row.quiet_until), row.timezone)
    return InstancePolicy(row.opted_in, row.protected, hours)
