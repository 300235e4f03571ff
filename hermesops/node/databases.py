"""SQLite files of the agent's, read and copied as its own user and never as plain files.

A plain copy of a database in use is torn; SQLite's backup reads one moment of it while others write.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote_from_bytes

_LOCKED_S = 10.0
"""How long somebody else's lock is waited for."""


@contextmanager
def opened(path: bytes, *, is_alone: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection that only reads.

    Args:
        path: Of the file.
        is_alone: Nobody else has it open, so nothing has to be made beside it.

    Raises:
        sqlite3.DatabaseError: It is no database.
    """
    connection = sqlite3.connect(
        f"file:{quote_from_bytes(path)}?{'immutable=1' if is_alone else 'mode=ro'}",
        uri=True,
        timeout=_LOCKED_S,
        isolation_level=None,
    )
    try:
        # Whatever an agent wrote into the schema does nothing but be read.
        connection.execute("PRAGMA trusted_schema=OFF")
        yield connection
    finally:
        connection.close()


class LockedError(sqlite3.OperationalError):
    """Somebody else held on to a database for longer than is waited."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


def copy(source: bytes, target: Path) -> None:
    """Write one moment of a database into a new file.

    Raises:
        sqlite3.DatabaseError: It is no database, is locked, or the disk is full.
    """
    with opened(source) as held:
        made = sqlite3.connect(target)
        try:
            held.backup(made, progress=_give_up)
        finally:
            made.close()


def _give_up(status: int, _remaining: int, _pages: int) -> None:
    """End a copy that waits for a lock: by itself it would try again for ever, each time for as long as is waited."""
    if status & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        raise LockedError("database is locked")


def is_locked(error: sqlite3.Error) -> bool:
    """Whether somebody held on to a database for longer than is waited."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_of_disk(error: sqlite3.Error) -> bool:
    """Whether a copy failed for want of room, or of a disk that works."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def path_of(home: Path, name: bytes) -> bytes:
    """Where a file of a home is."""
    return os.path.join(os.fsencode(home), name)  # noqa: PTH118 - bytes
