"""Base of every repository: reading, sealing, audit entries, and writing rows that may exist."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.store.registry.audit.log import AuditLog
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, key_in

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_LOCK = 0x6865726D657475
"""Seed of the advisory locks of owners of rows."""


@dataclass(frozen=True)
class WriteContext:
    """Parts that repositories share: database, audit log, sealer.

    Attributes:
        environment: Name of the environment; part of machine names.
    """

    database: Database
    environment: str
    audit_log: AuditLog
    sealer: Sealer = field(repr=False)


class Repository:
    """Base of each group of rows."""

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._database = context.database

    def _rows(self, query: sa.Executable) -> Sequence[Any]:
        """All rows that a query finds, in a transaction of its own."""
        with self._database.reading() as connection:
            return connection.execute(query).all()

    def _row(self, query: sa.Executable) -> sa.Row[Any] | None:
        """The only row that a query finds, in a transaction of its own; ``None`` where it finds none."""
        with self._database.reading() as connection:
            return connection.execute(query).one_or_none()

    def _note(
        self,
        connection: sa.Connection,
        action: str,
        subject: str,
        *,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
        why: str = "",
    ) -> None:
        """Append an audit entry in the transaction of the change."""
        self._context.audit_log.note(connection, action, subject, before=before or {}, after=after or {}, why=why)

    def _seal_in(self, connection: sa.Connection, plain: str, where: str) -> str:
        """Encrypt a value that the transaction writes at that place."""
        sealer = self._context.sealer
        return sealer.seal(plain, place=where, key=key_in(self._database, connection, sealer))


def new_id() -> str:
    """Return a fresh UUID as text."""
    return str(uuid4())


def lock_rows(database: Database, connection: sa.Connection, table: sa.Table, owner: str) -> None:
    """Let one transaction at a time add rows of an owner to a table, so that each counts those before it.

    SQLite has one transaction that writes at a time, and PostgreSQL an advisory lock until the transaction's end.

    Args:
        owner: Of the rows, as the id of a user.
    """
    if not database.is_sqlite:
        name = sa.func.hashtextextended(f"{table.name}/{owner}", _LOCK)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(name)))


def insert_if_absent(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> bool:
    """Insert a row unless a row with the same unique values exists; whether it was inserted."""
    # RETURNING, not rowcount: PostgreSQL's driver does not always know how many rows an INSERT made.
    inserting = _insert(connection, table).values(values).on_conflict_do_nothing()
    return connection.execute(inserting.returning(*table.primary_key)).first() is not None


def insert_or_update(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> None:
    """Insert a row, or overwrite the one with the same primary key."""
    insert_or_update_all(connection, table, [values])


def insert_or_update_all(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """``insert_or_update`` for many rows of the same columns, at once."""
    if not rows:
        return
    key = [column.name for column in table.primary_key]
    inserting = _insert(connection, table)
    rest = {name: inserting.excluded[name] for name in rows[0] if name not in key}
    connection.execute(inserting.on_conflict_do_update(index_elements=key, set_=rest), list(rows))


def _insert(connection: sa.Connection, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
    # Either costs some hundredths of a second to import, and a command needs one at most.
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - as above

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - as above

    return postgresql.insert(table)
