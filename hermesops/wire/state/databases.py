"""SQLite files of the agent, read and copied as its own user and never as plain files.

A plain copy of a database in use is torn; SQLite's backup reads one moment of it while others write. Every byte of such
a file is the agent's choice: its schema may compute what it seems to hold, and its pages may form circles. So only
plain tables are read, and never more of them than a file of that size can hold.

Source: sqlite.org/fileformat2.html (cells, overflow pages), sqlite.org/security.html, sqlite.org/limits.html.
"""

import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote_from_bytes

_LOCKED_S = 10.0
"""How long somebody else's lock is waited for."""

_STEPS = 10_000
"""Steps of SQLite's machine, some 100 microseconds, after which the clock is checked."""

_LEAST_S = 30.0
_BYTES_PER_S = 1 << 20
"""The slowest reading in a second of processor time; a million messages take a tenth of what this allows."""

_CELL_BYTES = 4
"""A row takes no less of a file."""

_SWELLING = 8
"""How often a byte of a file counts at most: a character may be stored in two bytes and read in three, and a column
that was added later has its default in every row."""

_SCHEMA_ENTRIES = 2000

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 64 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""Far above what hermes-agent 0.19.0 has. A longer message or statement than that is none of its."""

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_TRANSACTION})

_TABLE_LIKE = re.compile(
    r"CREATE (?P<kind>TABLE|VIRTUAL TABLE|VIEW) "
    r"""(?:(?P<quote>["'`])(?P<quoted>(?:(?!(?P=quote)).|(?P=quote){2})*)(?P=quote)"""
    r"""|\[(?P<bracketed>[^\]]*)\]|(?P<plain>[^\s("'`\[]+))""",
    re.DOTALL,
)
"""How SQLite stores the statement that makes a table, up to its name."""


class ForeignSchemaError(sqlite3.DatabaseError):
    """The schema of a database is not an agent's: reading it could run code that the schema contains."""


@contextmanager
def opened(path: bytes, *, is_alone: bool = False) -> Iterator[sqlite3.Connection]:
    """A read-only connection with a time limit for statements.

    ``is_alone``: no other process has it open, so SQLite needs no files beside it.

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
        with damage_told():
            limit_work(connection, _LEAST_S)
            for limit, largest in _LIMITS.items():
                connection.setlimit(limit, largest)
            # Whatever an agent wrote into the schema does nothing but be read.
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON"):
                connection.execute(f"PRAGMA {pragma}")
            connection.set_authorizer(_authorized)
            limit_work(connection, _LEAST_S + _size(connection) / _BYTES_PER_S)
            yield connection
    finally:
        connection.close()


@contextmanager
def damage_told() -> Iterator[None]:
    """Raise ``sqlite3.DatabaseError`` for damage, also if SQLite's message repeats bytes that are no text.

    Python then raises UnicodeDecodeError in its place (``_pysqlite_seterror`` of CPython 3.11).
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError("it is damaged, and SQLite's message is no text") from error


def limit_work(connection: sqlite3.Connection, within_s: float) -> None:
    """Limit the processor time of a connection's statements; they end with ``sqlite3.OperationalError``.

    Only this process's processor time from now on counts, so a slow computer does not end a statement.
    """
    until = time.process_time() + within_s
    connection.set_progress_handler(lambda: time.process_time() > until, _STEPS)


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns of a table, all of them stored; none where there is no such table.

    Raises:
        ForeignSchemaError: It is a view or virtual, or computes some of its columns.
        sqlite3.DatabaseError: The schema is damaged.
    """
    if not _is_table(connection, table):
        return frozenset()
    entries = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
    names = {_text(row[1]): row[6] for row in entries}
    if any(names.values()):
        raise ForeignSchemaError(f"{table} has columns that are computed")
    if any(name.lower() == "rowid" for name in names):  # rows are read in this order; these would need a sort first
        raise ForeignSchemaError(f"{table} has a column rowid")
    return frozenset(names)


def rows(connection: sqlite3.Connection, table: str, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """The rows of a table in these columns; a missing column is ``None``, and a missing table has no rows.

    Raises:
        ForeignSchemaError: It is no plain table, or its pages hold more than a file of that size can.
        sqlite3.DatabaseError: It is damaged, or takes too long to read.
    """
    existing = columns(connection, table)
    if not existing:
        return
    chosen = ", ".join(name if name in existing else f"NULL AS {name}" for name in names)
    most, size = _size(connection), 0
    query = f"SELECT {chosen} FROM {table} NOT INDEXED ORDER BY rowid"  # noqa: S608 - our own names
    for count, row in enumerate(connection.execute(query)):
        for value in row:
            if isinstance(value, (bytes, str)):
                size += len(value)
        if count * _CELL_BYTES > most or size > _SWELLING * most:
            raise ForeignSchemaError(f"{table} holds more than its file")
        yield row


def _is_table(connection: sqlite3.Connection, table: str) -> bool:
    """Whether the database has a plain table of that name.

    SQLite uses the statement of an entry and ignores its kind and name, so these have to agree.
    """
    cursor = connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT ?", (_SCHEMA_ENTRIES + 1,))
    entries = cursor.fetchall()
    if len(entries) > _SCHEMA_ENTRIES:
        raise ForeignSchemaError(f"its schema has more than {_SCHEMA_ENTRIES} entries")
    kinds = [_kind_of(_text(kind), _text(name), _text(sql or ""), table) for kind, name, sql in entries]
    tables = [kind for kind in kinds if kind]
    if tables not in ([], ["TABLE"]):
        raise ForeignSchemaError(f"{table} is no table, but a {tables[0].lower()}")
    return bool(tables)


def _kind_of(kind: str, name: str, statement: str, table: str) -> str:
    """The kind of table that a schema entry makes under a name; empty for an entry about another table."""
    if not statement or statement.startswith(("CREATE INDEX ", "CREATE UNIQUE INDEX ", "CREATE TRIGGER ")):
        return ""
    match = _TABLE_LIKE.match(statement)
    if match is None:
        raise ForeignSchemaError("its schema holds a statement that SQLite has not written")
    called = (match["quoted"] or match["bracketed"] or match["plain"] or "").replace(
        (match["quote"] or "\0") * 2, match["quote"] or ""
    )
    if called.lower() != name.lower() or kind != match["kind"].rpartition(" ")[2].lower():
        raise ForeignSchemaError("its schema holds a statement under another name")
    return match["kind"] if called.lower() == table else ""


def _authorized(action: int, _one: str | None, name: str | None, _schema: str | None, within: str | None) -> int:
    """Allow reading and counting only: no other function, and no access by views or triggers.

    The full-text index counts its rows when it is checked; from SQLite 3.53 on a denied count ends the whole check.
    """
    is_allowed = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and name == "count")
    return sqlite3.SQLITE_OK if is_allowed and within is None else sqlite3.SQLITE_DENY


def _size(connection: sqlite3.Connection) -> int:
    """Bytes of a database as a connection sees it, including its log."""
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages) * int(size)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_NO_JUDGEMENT = b"unable to validate"
"""How SQLite from 3.44 on begins to say that it could not check a virtual table, as the agent's full-text index is one.

Source: ``fts5IntegrityMethod`` in ``ext/fts5/fts5_main.c``.
"""

_FINDINGS = 20


def is_intact(home: Path, name: bytes) -> bool | None:
    """Whether a database below a home is undamaged, by reading all its pages.

    ``None`` where there is no plain file of that name, and where it is locked or reading takes too long.
    """
    path = os.path.join(os.fsencode(home), name)  # noqa: PTH118 - a name of bytes
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with opened(path) as connection:
            connection.text_factory = bytes
            findings = connection.execute(f"PRAGMA quick_check({_FINDINGS})").fetchall()
    except OSError:
        return None
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        # Without a code it is damage whose description is no text.
        return False if code is None or code & 0xFF in _DAMAGED else None
    verdicts = {row[0] for row in findings if not row[0].startswith(_NO_JUDGEMENT)}
    return verdicts <= {b"ok"}


class LockedError(sqlite3.OperationalError):
    """Another process held a lock on a database for too long."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


def copy(source: bytes, target: Path) -> None:
    """Write one moment of a database into a new file.

    Raises:
        sqlite3.DatabaseError: It is no database, is locked, or the disk is full.
    """
    with opened(source) as source_connection:
        target_connection = sqlite3.connect(target)
        try:
            source_connection.backup(target_connection, progress=_give_up)
        finally:
            target_connection.close()


def _give_up(status: int, _remaining: int, _pages: int) -> None:
    """End a copy that waits for a lock: by itself it would retry for ever."""
    if status & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        raise LockedError("database is locked")


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another process held a lock on a database for too long."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_of_disk(error: sqlite3.Error) -> bool:
    """Whether a copy failed because the disk is full or broken."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
