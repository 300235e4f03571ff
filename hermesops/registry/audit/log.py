"""Appends to the audit: the last thing a transaction does, so that its lock is never held while another is waited for.

Entries are chained in the order in which their transactions commit: SQLite's write lock or an advisory lock of
PostgreSQL's lets one append at a time. The new head is anchored after the commit; should this process die between, the
next head stands for both.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import sqlalchemy as sa

from hermesops.model.audit import AuditEntry, AuditHead
from hermesops.registry.audit.anchor import Anchor
from hermesops.registry.audit.hash_chain import link
from hermesops.registry.database import Database, ending_of
from hermesops.registry.meta import read_epoch
from hermesops.registry.schema.tables import audit

Warn = Callable[..., None]
"""Takes a warning, an event's name and fields, where the registry itself goes on without a copy or an anchor."""

_LOCK = 0x6865726D6574
"""Number of the advisory lock under which PostgreSQL appends once at a time."""


def no_warning(event: str, **fields: object) -> None:
    """Takes warnings and drops them: for callers without a log."""


class AuditLog:
    """Where audit entries go.

    Args:
        database: Holds them.
        actor: Says who acts; asked once, before the first write. May refuse.
        anchor: Takes the heads; ``None`` keeps them nowhere else.
        warn: Takes why a head was not anchored.
    """

    def __init__(
        self, database: Database, actor: Callable[[], str], anchor: Anchor | None = None, warn: Warn = no_warning
    ) -> None:
        self._database = database
        self._ask = actor
        self.anchor = anchor
        self._warn = warn

    @cached_property
    def actor(self) -> str:
        """Who acts."""
        return self._ask()

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
        at = self._database.now(connection)
        entry = AuditEntry(0, at, self.actor, action, subject, why, dict(before), dict(after))
        ending_of(connection).before_commit.append(partial(self._append, connection, entry))

    def anchor_head(self, head: AuditHead) -> None:
        """Keep a head outside the database. What was committed stays committed when that fails: it is said and logged.

        ``audit verify`` counts the entries that are anchored by none.
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
        ending_of(connection).after_commit["anchor"] = partial(self.anchor_head, head)


def newest(connection: sa.Connection) -> AuditHead | None:
    """The head, as the transaction sees it."""
    query = sa.select(audit.c.epoch, audit.c.id, audit.c.hash).order_by(audit.c.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return AuditHead(row.epoch, row.id, row.hash) if row else None
