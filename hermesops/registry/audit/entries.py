"""Rows of ``audit``: appended to and read; the database itself refuses anything else, and a chain of hashes tells."""

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.model.audit import AuditEntry, ChainFinding, ChainReport
from hermesops.registry.audit.anchor import Anchor
from hermesops.registry.audit.hash_chain import examine
from hermesops.registry.repositories.base import Repository
from hermesops.registry.schema.tables import audit

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
    """Who changed what, and why."""

    def append(
        self,
        action: str,
        subject: str,
        *,
        why: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        """Add an entry for something that happened outside the registry (an ``exec``, a ``shell``, a chat).

        Args:
            action: Past tense, as ``command_run``.
            subject: As ``instance/<id>``.
            why: The reason the operator gave.
            before: JSON, no secrets and nothing a user said.
            after: The same.
        """
        with self._database.writing() as connection:
            self._note(connection, action, subject, before=before, after=after, why=why)

    def list(
        self, *, subject: str = "", who: str = "", since: datetime | None = None, limit: int = 1000
    ) -> tuple[AuditEntry, ...]:
        """Entries, newest first.

        Args:
            subject: Only of that subject.
            who: Only of that operator, pipeline or program; the part before ``@`` is enough.
            since: Only those written at that moment or later.
            limit: How many at most.
        """
        query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
        if subject:
            query = query.where(audit.c.subject == subject)
        if who:
            query = query.where(sa.or_(audit.c.who == who, audit.c.who.startswith(f"{who}@", autoescape=True)))
        if since:
            query = query.where(audit.c.at >= since)
        with self._database.reading() as connection:
            return tuple(_entry(row) for row in connection.execute(query))

    def check(self, anchor: Anchor | None = None) -> ChainReport:
        """Hold every entry against the one before, the heads that stand outside the database, and the triggers.

        Args:
            anchor: Heads to hold them against instead of those of this environment.

        Raises:
            RefusedError: The anchor may not be read.
        """
        anchor = anchor or self._context.audit_log.anchor
        # First the heads: an entry that is appended meanwhile is then one more, and none that is missing.
        heads = list(anchor.heads()) if anchor else []
        with self._database.reading() as connection:
            report = examine(_entries(connection), heads)
            unguarded = _unguarded(connection)
        return dataclasses.replace(report, findings=(*unguarded, *report.findings))


def _entries(connection: sa.Connection) -> Iterator[AuditEntry]:
    found = connection.execution_options(yield_per=_BATCH).execute(sa.select(audit).order_by(audit.c.id))
    return (_entry(row) for row in found)


def _unguarded(connection: sa.Connection) -> tuple[ChainFinding, ...]:
    query, wanted = _TRIGGERS[connection.dialect.name]
    if connection.execute(sa.text(query)).scalar_one() == wanted:
        return ()
    return (ChainFinding(0, "the triggers that refuse changes are gone from the database"),)


def _entry(row: sa.Row[Any]) -> AuditEntry:
    return AuditEntry(*tuple(row))  # the columns stand in the order of the fields
