"""Moves a registry from SQLite to PostgreSQL: every row, counted, in one transaction, without concurrent writes.

Nothing of the SQLite file is changed but a mark that it has been moved: it refuses writes from then on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, Hint, RefusedError
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance.write_guard import MOVED_TO
from hermesops.store.registry.meta import read_epoch, read_meta
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema import schema_version
from hermesops.store.registry.schema.calling_tables import metadata
from hermesops.store.registry.schema.tables import cells, hermes_instances, meta, operations, users

MOVED_FROM = "moved_from"
"""Name of the row of ``meta`` that holds which registry the rows came from."""

_USED = (users, cells, hermes_instances, operations)
_ENDED = ("done", "failed", "abandoned")
_BATCH = 1000
_LISTED = 3
"""Open operations that an error names."""


@dataclass(frozen=True)
class Transferred:
    """Counts of a transfer.

    Attributes:
        rows: Number of rows, by table.
        epoch: Epoch of the source.
    """

    rows: Mapping[str, int]
    epoch: int

    @property
    def total(self) -> int:
        """Number of rows of all tables."""
        return sum(self.rows.values())


def moved_to(source: Database) -> str:
    """Read the mark of ``transfer`` in an SQLite file: its new place; empty if not moved, or for a missing file."""
    if source.is_missing() or schema_version.current(source) is None:
        return ""
    with source.reading() as connection:
        return read_meta(connection, MOVED_TO) or ""


def transfer(source: Database, target: Database) -> Transferred:
    """Copy every row of ``source``, which is SQLite, into ``target``, which is PostgreSQL at this code's revision.

    Both are locked against other writers meanwhile, and the source is marked as moved, so that it refuses later
    writes. Killed anywhere before that, the transfer starts from the beginning when it is repeated.

    Raises:
        RefusedError: An operation is open, or the target has rows of its own.
        BrokenInvariantError: A table has not the same number of rows afterwards; nothing was copied.
    """
    schema_version.require(source)
    schema_version.require(target)
    with source.writing(guarded=False) as read:
        _refuse_open(read)
        with target.writing(guarded=False) as write:
            names = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
            write.execute(sa.text(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"))
            if read_meta(write, MOVED_FROM) is None:
                _refuse_used(write, target)
            # A transfer that was killed may have left entries, which the audit's own trigger would keep.
            write.execute(sa.text("ALTER TABLE audit DISABLE TRIGGER USER"))
            for table in reversed(metadata.sorted_tables):
                write.execute(table.delete())
            write.execute(sa.text("ALTER TABLE audit ENABLE TRIGGER USER"))
            rows = {table.name: _copy(table, read, write) for table in metadata.sorted_tables}
            insert_if_absent(write, meta, {"name": MOVED_FROM, "value": source.title})
        insert_if_absent(read, meta, {"name": MOVED_TO, "value": target.title})
        return Transferred(rows, read_epoch(read))


def refuse_open(database: Database) -> None:
    """Return where no operation of a registry is open.

    Raises:
        RefusedError: One is.
        UnavailableError: The database does not answer.
    """
    with database.reading() as connection:
        _refuse_open(connection)


def epoch_of(database: Database) -> int:
    """Read the present epoch of a registry."""
    with database.reading() as connection:
        return read_epoch(connection)


def unmark_moved(source: Database) -> None:
    """Remove the mark of ``transfer``, so that the SQLite registry accepts writes again."""
    with source.writing(guarded=False) as connection:
        connection.execute(meta.delete().where(meta.c.name == MOVED_TO))


def _refuse_open(connection: sa.Connection) -> None:
    query = sa.select(operations.c.id, operations.c.kind).where(operations.c.status.not_in(_ENDED))
    if rows := connection.execute(query.order_by(operations.c.id)).all():
        listed = ", ".join(f"{row.kind} {row.id}" for row in rows[:_LISTED])
        more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
        raise RefusedError(
            f"open operations: {listed}{more}; a registry can be moved only without open operations",
            hint=Hint(("operation", "continue", "OPERATION"), ", or", ("operation", "abandon", "OPERATION")),
        )


def _refuse_used(connection: sa.Connection, target: Database) -> None:
    used = [table.name for table in _USED if connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()]
    if used:
        raise RefusedError(
            f"the registry {target.title} has {', '.join(used)} of its own; rows of two registries are not mixed",
            hint=Hint(("registry", "check")),
        )


def _copy(table: sa.Table, read: sa.Connection, write: sa.Connection) -> int:
    """Copy one table; returns the number of rows."""
    rows = read.execute(sa.select(table)).mappings()
    count = 0
    while batch := rows.fetchmany(_BATCH):
        write.execute(table.insert(), [dict(row) for row in batch])
        count += len(batch)
    copied = write.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
    if copied != count:
        raise BrokenInvariantError(f"table {table.name}: {count} rows were read and {copied} are there")
    for column in table.primary_key.columns:
        if isinstance(column.type, sa.Integer) and column.autoincrement is not False and len(table.primary_key) == 1:
            _advance(table, column, write)
    return count


def _advance(table: sa.Table, column: sa.Column[int], write: sa.Connection) -> None:
    """Have the database number new rows after those that were copied."""
    sequence = write.execute(sa.select(sa.func.pg_get_serial_sequence(table.name, column.name))).scalar()
    highest = write.execute(sa.select(sa.func.max(column))).scalar()
    if sequence and highest:
        write.execute(sa.select(sa.func.setval(sequence, highest)))
