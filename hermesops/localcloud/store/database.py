"""The server's database: one SQLite file, a table per dataclass of ``rows``.

Written before anything is asked of a driver, so that a killed server finds what it had begun.
It must not decide; it also never sees an API key or a proxy token in clear.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from hermesops.base.files.disk import sqlite_not_written
from hermesops.errors import BrokenInvariantError, Hint, UnavailableError
from hermesops.localcloud.store.rows import MachineRow, MachineStatus, Row, Wanted

R = TypeVar("R", bound=Row)
_TYPES: Mapping[object, str] = {
    str: "TEXT",
    int: "INTEGER",
    bool: "INTEGER",
    float: "REAL",
    str | None: "TEXT",
    int | None: "INTEGER",
}
_BOOLEANS = {
    kind: [index for index, column in enumerate(fields(kind)) if get_type_hints(kind)[column.name] is bool]
    for kind in Row.__subclasses__()
}
"""Positions of boolean columns; SQLite has only numbers."""

_SHAPE = 1
_INDEXES = {
    "machines_slug": "machines (slug)",
    "machines_status": "machines (status)",
    "tokens_sha256": "tokens (sha256)",
    "tokens_machine": "tokens (machine_id)",
    "tokens_expires_at": "tokens (expires_at)",
    "backups_machine": "backups (machine_id)",
}
"""For searches by something else than the id, which would read all rows."""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file of the world, created if missing; statements belong inside the block.

    Raises:
        BrokenInvariantError: The file is damaged.
        UnavailableError: The disk is full or the file may not be written.
    """
    try:
        db = sqlite3.connect(path, isolation_level=None)
        # WAL with NORMAL loses nothing when the process dies, only when the computer does.
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        path.chmod(0o600)
        yield db
    except sqlite3.DatabaseError as error:
        if refused := sqlite_not_written(path, error):
            raise refused from error
        if error.sqlite_errorname.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
            # Nothing is wrong with the file; purging the world for this would be in vain.
            raise UnavailableError(
                f"the local world's file {path} cannot be used: {error}",
                hint="make room, see that it may be written, and repeat the command",
            ) from error
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> BrokenInvariantError:
    return BrokenInvariantError(
        f"the local world's file {path} is damaged ({why})",
        hint=Hint(("local", "down", "--purge"), ", then", ("local", "up"), ", starts an empty one"),
    )


class Store:
    """Opens the file; raises as ``opened``, and ``BrokenInvariantError`` for a newer shape.

    One process at a time: the server holds the world's lock while it has this open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened(path) as self._db:
            self._migrate()

    def close(self) -> None:
        """Close the file; the store is of no use afterwards."""
        self._db.close()

    def add(self, row: Row) -> None:
        """Insert a row into its table."""
        marks = ",".join("?" * len(fields(row)))
        self._db.execute(
            f"INSERT INTO {row.table} ({_columns(type(row))}) VALUES ({marks})",  # noqa: S608 - our own names
            astuple(row),
        )

    def get(self, kind: type[R], row_id: str) -> R | None:
        """The row of an id; ``None`` if there is none."""
        matching = self.find(kind, id=row_id)
        return matching[0] if matching else None

    def find(self, kind: type[R], /, **equal: str | int) -> list[R]:
        """The rows with these values in their columns, oldest first."""
        where = " AND ".join(f"{column} = ?" for column in equal) or "1"
        rows = self._db.execute(
            f"SELECT {_columns(kind)} FROM {kind.table} WHERE {where} ORDER BY rowid",  # noqa: S608 - our own names
            tuple(equal.values()),
        )
        booleans = _BOOLEANS[kind]
        return [kind(*_with_booleans(row, booleans)) for row in rows]

    def update(self, kind: type[R], row_id: str, /, **changes: str | float | None) -> None:
        """Change columns of one row; no such row is no error."""
        columns = ", ".join(f"{column} = ?" for column in changes)
        self._db.execute(
            f"UPDATE {kind.table} SET {columns} WHERE id = ?",  # noqa: S608 - our own names
            (*changes.values(), row_id),
        )

    def remove(self, kind: type[R], row_id: str) -> None:
        """Remove one row; absent is success."""
        self._db.execute(f"DELETE FROM {kind.table} WHERE id = ?", (row_id,))  # noqa: S608 - our own names

    def keep_newest(self, kind: type[R], count: int) -> None:
        """Remove all rows but the newest ``count``."""
        table = kind.table
        self._db.execute(
            f"DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?",  # noqa: S608 - our own table names
            (count,),
        )

    def remove_expired_tokens(self, timestamp: str) -> None:
        """Remove the tokens that are not good any more at that moment."""
        self._db.execute("DELETE FROM tokens WHERE expires_at <= ?", (timestamp,))

    def machines(self) -> list[MachineRow]:
        """The machines their owner still has."""
        return [row for row in self.find(MachineRow) if row.wanted != Wanted.DELETED]

    def ready_ids(self) -> list[str]:
        """Ids of the machines that are ready and that their owner still has."""
        cursor = self._db.execute(
            "SELECT id FROM machines WHERE status = ? AND wanted != ?", (MachineStatus.READY, Wanted.DELETED)
        )
        return [row[0] for row in cursor]

    def coming(self) -> int:
        """The number of machines that are ordered and not made yet."""
        cursor = self._db.execute("SELECT count(*) FROM machines WHERE NOT made AND wanted != ?", (Wanted.DELETED,))
        return int(cursor.fetchone()[0])

    def free_number(self) -> int:
        """The smallest machine number that no machine has, not even one that is being removed."""
        taken = {number for (number,) in self._db.execute("SELECT number FROM machines")}
        return next(number for number in range(1, len(taken) + 2) if number not in taken)

    def remembered(self, key: str) -> str:
        """A setting of this world; empty when never set."""
        row = self._db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""

    def remember(self, key: str, value: str) -> None:
        """Set a setting of this world."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, value))

    def _migrate(self) -> None:
        (shape,) = self._db.execute("PRAGMA user_version").fetchone()
        if shape > _SHAPE:
            raise BrokenInvariantError(f"{self.path} was written by a newer hermesops", hint="upgrade hermesops")
        for kind in Row.__subclasses__():
            hints = get_type_hints(kind)
            columns = ", ".join(f"{column.name} {_TYPES[hints[column.name]]}" for column in fields(kind))
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {kind.table} ({columns}, PRIMARY KEY (id))")
        for name, columns in _INDEXES.items():
            self._db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")
        self._db.execute("CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT)")
        self._db.execute(f"PRAGMA user_version = {_SHAPE}")
        (verdict,) = self._db.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise _damaged(self.path, str(verdict))


def _columns(kind: type[Row]) -> str:
    return ", ".join(column.name for column in fields(kind))


def _with_booleans(row: tuple[Any, ...], booleans: list[int]) -> list[Any]:
    values = list(row)
    for index in booleans:
        values[index] = bool(values[index])
    return values
