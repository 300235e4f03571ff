"""Rows of ``freezes``: spans in which nothing is rolled out."""

import secrets
from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import Hint, UsageError
from hermesops.model.rollout.records import Freeze
from hermesops.model.unknown_name import find_by_id
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import freezes


class FreezeRepository(Repository):
    """Rows of ``freezes``: present, future and past."""

    def set(self, *, begins_at: datetime | None, ends_at: datetime | None, reason: str) -> Freeze:
        """Let nothing be rolled out from ``begins_at`` (``None``: now) to ``ends_at`` (``None``: until lifted).

        Raises:
            UsageError: It ends before it begins, or has ended already.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            begin = begins_at or now
            refuse_without_effect(begin, ends_at, now)
            freeze = Freeze(secrets.token_hex(4), begin, ends_at, reason, self._context.audit_log.actor)
            connection.execute(freezes.insert().values(vars(freeze)))
            after = {"begins_at": begin.isoformat(), "ends_at": ends_at.isoformat() if ends_at else None}
            self._note(connection, "freeze_set", f"freeze/{freeze.id}", after=after, why=reason)
        return freeze

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
            meant = meant_by(freeze_id, every, now)
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
            every = [Freeze(**row._asdict()) for row in connection.execute(query)]
        return tuple(freeze for freeze in every if past or not freeze.is_past(now))


def refuse_without_effect(begin: datetime, ends_at: datetime | None, now: datetime) -> None:
    """Refuse a freeze that would hold at no time. Pure.

    Raises:
        UsageError: It ends before it begins, or has ended already.
    """
    if ends_at is not None and ends_at <= max(begin, now):
        raise UsageError(f"a freeze from {begin:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC has no effect")


def meant_by(freeze_id: str, every: Mapping[str, Freeze], now: datetime) -> str:
    """The id of the freeze that an operator names; empty for the only present or future one. Pure.

    Raises:
        UsageError: There is none of that id, or more than one.
    """
    return find_by_id("freeze", freeze_id, every) if freeze_id else _only(every, now)


def _only(every: Mapping[str, Freeze], now: datetime) -> str:
    """Return the id of the only present or future freeze."""
    present = [freeze_id for freeze_id, freeze in every.items() if not freeze.is_past(now)]
    if len(present) != 1:
        several = f"{len(present)} freezes are active or planned: name one"
        raise UsageError(
            several if present else "no freeze is active or planned",
            hint=Hint(("rollout", "freezes"), "shows their ids"),
        )
    return present[0]
