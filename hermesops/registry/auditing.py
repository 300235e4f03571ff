"""Rows of ``audit``: appended to and read; the database itself refuses anything else."""

from collections.abc import Mapping

import sqlalchemy as sa

from hermesops.model.audit import AuditEntry
from hermesops.registry.rows import Rows
from hermesops.registry.schema import audit


class AuditRows(Rows):
    """Who changed what, and why."""

    def append_audit(
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

    def list_audit(self, *, subject: str = "", limit: int = 1000) -> tuple[AuditEntry, ...]:
        """Entries, newest first."""
        query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
        if subject:
            query = query.where(audit.c.subject == subject)
        with self._database.reading() as connection:
            return tuple(
                AuditEntry(row.id, row.at, row.who, row.action, row.subject, row.why, row.before, row.after)
                for row in connection.execute(query)
            )
