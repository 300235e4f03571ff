"""Rows of ``freezes``: spans in which nothing is rolled out."""

import secrets
from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import Hint, UsageError
from hermesops.model.rollout import Freeze
from hermesops.model.unknown_name import find_by_id
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import freezes


class FreezeRepository(Repository):
    """Freezes, past ones too."""

    def set(self, *, begins_at: datetime | None, ends_at: datetime | None, reason: str) -> Freeze:
        """Let nothing be rolled out from ``begins_at`` (``None``: now) to ``ends_at`` (``None``: until lifted).

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
            made = Freeze(secrets.token_hex(4), begin, ends_at, reason, self._context.audit_log.actor)
            connection.execute(freezes.insert().values(vars(made)))
            after = {"begins_at": begin.isoformat(), "ends_at": ends_at.isoformat() if ends_at else None}
            self._note(connection, "freeze_set", f"freeze/{made.id}", after=after, why=reason)
        return made

    def lift(self, freeze_id: str, *, why: str) -> Freeze:
        """End a freeze now, by its id or an unambiguous beginning of it; safe to call twice.

        Args:
            freeze_id: Empty for the only one that holds or is to come.

        Raises:
            UsageError: There is none of that id, or more than one.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            rows = connection.execute(sa.select(freezes).with_for_update())
            every = {row.id: Freeze(**row._asdict()) for row in rows}
            meant = find_by_id("freeze", freeze_id, every) if freeze_id else _only(every, now)
            is_it = freezes.c.id == meant
            if every[meant].lifted_at is None:
                connection.execute(freezes.update().where(is_it).values(lifted_at=now))
                self._note(connection, "freeze_lifted", f"freeze/{meant}", why=why)
            return Freeze(**connection.execute(sa.select(freezes).where(is_it)).one()._asdict())

    def list(self, *, past: bool = False) -> tuple[Freeze, ...]:
        """Present and future freezes, with ``past`` also those before, the earliest first."""
        query = sa.select(freezes).order_by(freezes.c.begins_at, freezes.c.id)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            found = [Freeze(**row._asdict()) for row in connection.execute(query)]
        return tuple(one for one in found if past or not one.is_past(now))


def _only(every: Mapping[str, Freeze], now: datetime) -> str:
    """The id of the freeze that holds or is to come, where there is one such."""
    present = [freeze_id for freeze_id, one in every.items() if not one.is_past(now)]
    if len(present) != 1:
        several = f"{len(present)} freezes hold or are to come: name one"
        raise UsageError(
            several if present else "no freeze holds or is to come",
            hint=Hint(("rollout", "freezes"), "shows their ids"),
        )
    return present[0]
