"""Rows of ``audit``: appended and read only. Triggers refuse other changes, a chain of hashes reveals them."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.model.access.audit import AuditEntry, ChainFinding, ChainReport
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.hash_chain import examine
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import audit

_BATCH = 1000
_TRIGGERS = {
    "sqlite": (
        """
        SELECT count(*) FROM sqlite_master
        WHERE type = 'trigger' AND tbl_name = 'audit' AND name IN ('audit_refuses_update', 'audit_refuses_delete')
        """,
        2,
    ),
    "postgresql": (
        """
        SELECT count(*) FROM pg_trigger
        WHERE tgrelid = 'audit'::regclass AND tgname = 'audit_refuses_changes' AND tgenabled != 'D'
        """,
        1,
    ),
}
"""How many triggers guard the table, and how many should."""


class AuditRepository(Repository):
    """Rows of ``audit``: each change with its actor and reason."""

    def append(
        self,
        action: str,
        subject: str,
        *,
        why: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        """Add an entry for something outside the registry (an ``exec``, a ``shell``, a chat).

        ``action`` is in the past tense, as ``command_run``; ``subject`` as ``instance/<id>``; ``before`` and ``after``
        are JSON without secrets and users' texts.
        """
        with self._database.writing() as connection:
            self._note(connection, action, subject, before=before, after=after, why=why)

    def list(
        self, *, subject: str = "", who: str = "", since: datetime | None = None, limit: int = 1000
    ) -> tuple[AuditEntry, ...]:
        """Return entries, newest first; as ``who``, the part of an identity before ``@`` is enough."""
        query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
        if subject:
            query = query.where(audit.c.subject == subject)
        if who:
            query = query.where(sa.or_(audit.c.who == who, audit.c.who.startswith(f"{who}@", autoescape=True)))
        if since:
            query = query.where(audit.c.at >= since)
        return tuple(map(_entry, self._rows(query)))

    def check(self, anchor: Anchor | None = None) -> ChainReport:
        """Check the chain of entries, the heads outside the database, and the triggers.

        ``anchor`` has heads to check instead of those of this environment.

        Raises:
            RefusedError: The anchor may not be read.
        """
        return check_chain(self._database, anchor or self._context.audit_log.anchor)


def check_chain(database: Database, anchor: Anchor | None) -> ChainReport:
    """Check the audit of a database that need not be open as a registry; see ``AuditRepository.check``."""
    # First the heads: an entry that is appended meanwhile must not count as missing.
    heads = list(anchor.heads()) if anchor else []
    with database.reading() as connection:
        rows = connection.execution_options(yield_per=_BATCH).execute(sa.select(audit).order_by(audit.c.id))
        report = examine(map(_entry, rows), heads)
        query, expected = _TRIGGERS[connection.dialect.name]
        is_guarded = connection.execute(sa.text(query)).scalar_one() == expected
    if is_guarded:
        return report
    gone = ChainFinding(0, "the triggers that refuse changes are gone from the database")
    return dataclasses.replace(report, findings=(gone, *report.findings))


def _entry(row: sa.Row[Any]) -> AuditEntry:
    return AuditEntry(*tuple(row))  # the columns have the order of the fields
