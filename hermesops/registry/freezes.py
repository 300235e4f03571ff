"""Rows of ``freezes`` and ``instance_policies``: what operators and users want to be minded when many are changed."""

import secrets
from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

import sqlalchemy as sa

from hermesops.errors import UsageError
from hermesops.model.freeze import Freeze
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.instance_policy import InstancePolicy, QuietHours
from hermesops.registry.rollout_schema import freezes, instance_policies
from hermesops.registry.rows import Rows, insert_or_update


class FreezeRows(Rows):
    """Freezes, and policies of instances."""

    def set_freeze(self, *, begins_at: datetime | None, ends_at: datetime | None, reason: str) -> Freeze:
        """Let nothing be rolled out for a while.

        Args:
            begins_at: ``None`` begins now.
            ends_at: ``None`` lasts until it is lifted.
            reason: For everybody who is held up by it.

        Raises:
            UsageError: It ends before it begins, or has ended already.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            begin = begins_at or now
            if ends_at is not None and ends_at <= max(begin, now):
                raise UsageError(
                    f"a freeze from {begin:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC holds nothing up"
                )
            made = Freeze(secrets.token_hex(4), begin, ends_at, reason, self._desk.trail.actor)
            connection.execute(freezes.insert().values(vars(made)))
            after = {"begins_at": begin.isoformat(), "ends_at": ends_at.isoformat() if ends_at else None}
            self._note(connection, "freeze_set", f"freeze/{made.id}", after=after, why=reason)
        return made

    def lift_freeze(self, freeze_id: str, *, why: str) -> Freeze:
        """End a freeze now, by its id or the beginning of it; safe to call twice.

        Raises:
            UsageError: There is none of that id, or more than one.
        """
        with self._database.writing() as connection:
            every = [_freeze(row) for row in connection.execute(sa.select(freezes).with_for_update())]
            found = [one for one in every if freeze_id and one.id.startswith(freeze_id)]
            if len(found) != 1:
                what = "no freeze has" if not found else f"{len(found)} freezes have"
                raise UsageError(f"{what} the id {freeze_id!r}", hint="hermesops freeze list")
            is_it = freezes.c.id == found[0].id
            if found[0].lifted_at is None:
                connection.execute(freezes.update().where(is_it).values(lifted_at=self._database.now(connection)))
                self._note(connection, "freeze_lifted", f"freeze/{found[0].id}", why=why)
            return _freeze(connection.execute(sa.select(freezes).where(is_it)).one())

    def list_freezes(self, *, past: bool = False) -> tuple[Freeze, ...]:
        """Freezes that hold or will, the earliest first; those of the past as well if asked for."""
        query = sa.select(freezes).order_by(freezes.c.begins_at, freezes.c.id)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            found = [_freeze(row) for row in connection.execute(query)]
        return tuple(one for one in found if past or not one.is_past(now))

    def instance_policy(self, instance_id: InstanceId) -> InstancePolicy:
        """What is to be minded of an instance."""
        return self.instance_policies().get(instance_id, InstancePolicy())

    def instance_policies(self) -> Mapping[InstanceId, InstancePolicy]:
        """What is to be minded of those of whom anything is."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(instance_policies))
            return {InstanceId(row.instance_id): _policy(row) for row in rows}

    def set_instance_policy(self, instance_id: InstanceId, policy: InstancePolicy, *, why: str = "") -> None:
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


def _freeze(row: sa.Row[Any]) -> Freeze:
    return Freeze(row.id, row.begins_at, row.ends_at, row.reason, row.who, row.lifted_at)


def _policy(row: sa.Row[Any]) -> InstancePolicy:
    return InstancePolicy(row.opted_in, row.protected, _hours(row))


def _hours(row: sa.Row[Any]) -> QuietHours | None:
    if not row.quiet_from:
        return None
    return QuietHours(time.fromisoformat(row.quiet_from), time.fromisoformat(row.quiet_until), row.timezone)
