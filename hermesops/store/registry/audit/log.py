"""Appends to the audit log as the last part of a transaction, so that its lock is never held while waiting for another.

Entries are chained in the order of commits: SQLite's write lock or an advisory lock of PostgreSQL's lets one append at
a time. The new head is anchored after the commit; if the process dies before, the next head covers both entries.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any

import sqlalchemy as sa

from hermesops.model.access.audit import AuditEntry, AuditHead
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.hash_chain import link
from hermesops.store.registry.database import Database, ending_of
from hermesops.store.registry.meta import read_epoch
from hermesops.store.registry.schema.tables import audit

Warn = Callable[..., None]
"""Takes the name and fields of a warning, as that a copy or an anchor failed while the registry works."""

_LOCK = 0x6865726D6574
"""Number of the advisory lock under which PostgreSQL appends once at a time."""


_acting: ContextVar[tuple[str, str]] = ContextVar("acting", default=("", ""))
"""The actor in the place of the process's own, and the same with the face."""


@contextmanager
def acting_as(actor: str, *, face: str = "") -> Iterator[None]:
    """Name another actor in the entries of this block, as ``user:ID`` while a worker carries out a user's request.

    The process must be allowed to act by itself all the same.

    Args:
        face: By which they act; entries name it, as ``ada via console``.
    """
    token = _acting.set((actor, f"{actor} via {face}" if face else actor))
    try:
        yield
    finally:
        _acting.reset(token)


def acting_via(actor: str, face: str) -> AbstractContextManager[None]:
    """Name an actor with the face by which they act in the entries of this block, as ``ada via console``."""
    return acting_as(actor, face=face)


def no_warning(event: str, **fields: object) -> None:
    """Drop a warning: for callers without a log."""


class AuditLog:
    """Appends audit entries.

    Args:
        actor: Returns the actor's name; called once, before the first write. May refuse.
        anchor: Stores the heads; ``None`` stores them nowhere else.
        warn: Called with the reason when a head was not anchored.
    """

    def __init__(
        self, database: Database, actor: Callable[[], str], anchor: Anchor | None = None, warn: Warn = no_warning
    ) -> None:
        self._database = database
        self._actor = actor
        self.anchor = anchor
        self._warn = warn

    @property
    def actor(self) -> str:
        """Name of the actor, as entries have it without the face."""
        own = self._own
        return _acting.get()[0] or own

    @cached_property
    def _own(self) -> str:
        """Name of the process's own actor; resolved once."""
        return self._actor()

    def note(
        self,
        connection: sa.Connection,
        action: str,
        subject: str,
        *,
        before: Mapping[str, object],
        after: Mapping[str, object],
        why: str,
    ) -> None:
        """Append an entry when the transaction is about to commit; none when it does not."""
        at, own = self._database.now(connection), self._own
        entry = AuditEntry(0, at, _acting.get()[1] or own, action, subject, why, dict(before), dict(after))
        ending_of(connection).before_commit.append(partial(self._append, connection, entry))

    def _anchor_head(self, head: AuditHead) -> None:
        """Store a head outside the database. A failure is only logged: the entry is committed already.

        ``audit verify`` counts the entries without an anchor.
        """
        if self.anchor is None:
            return
        try:
            self.anchor.append(head)
        except OSError as error:
            self._warn("audit_not_anchored", entry=head.id, anchor=str(self.anchor.path), error=error.strerror)

    def _append(self, connection: sa.Connection, entry: AuditEntry) -> None:
        if not self._database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        before = newest(connection)
        values: dict[str, Any] = vars(entry) | {"id": before.id + 1 if before else 1, "epoch": read_epoch(connection)}
        chained = link(AuditEntry(**values), before.hash if before else "")
        connection.execute(audit.insert().values(vars(chained)))
        head = AuditHead(chained.epoch, chained.id, chained.hash)
        ending_of(connection).after_commit["anchor"] = partial(self._anchor_head, head)


def newest(connection: sa.Connection) -> AuditHead | None:
    """The head, as the transaction sees it."""
    query = sa.select(audit.c.epoch, audit.c.id, audit.c.hash).order_by(audit.c.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return AuditHead(row.epoch, row.id, row.hash) if row else None
