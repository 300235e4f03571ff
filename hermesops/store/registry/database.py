"""Connects to SQLite or PostgreSQL: transactions that are safe between processes, database errors as ours.

It must not know tables or rows.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakValueDictionary

import sqlalchemy as sa

from hermesops.base.files import disk
from hermesops.base.files.disk import sync_folder
from hermesops.base.files.private_file import make_private_folder
from hermesops.base.files.sqlite_wal import enable_wal
from hermesops.base.network.web_address import with_verified_tls
from hermesops.errors import (
    BrokenInvariantError,
    HermesError,
    Hint,
    NotWrittenError,
    RefusedError,
    UnavailableError,
    UsageError,
)
from hermesops.store.registry.error_texts import hide_rows

RESTORE = Hint(
    ("registry", "restore", "--latest"), "restores the newest good copy;", ("registry", "copies"), "lists all"
)
"""Hint for a registry that is damaged or gone. The damaged file is set aside, never overwritten."""

_BUSY_MS = 20_000
_ENDING = "hermesops_ending"
_FILE = "hermesops_file"
_DOCTOR = Hint(("doctor",), "checks it;", ("settings", "show"), "shows the configured registry")

_WRITERS: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
"""For each file, the lock of this process's threads that write to it."""

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class TransactionEnd:
    """Callbacks of a transaction, and values that are valid until it ends.

    Attributes:
        before_commit: Called in order, in the transaction.
        after_commit: Called once it is committed; by purpose, so that the last one counts.
        values: Values that are valid until the end, by name.
    """

    before_commit: list[Callable[[], None]] = field(default_factory=list)
    after_commit: dict[str, Callable[[], None]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)


def ending_of(connection: sa.Connection) -> TransactionEnd:
    """Return the callbacks of a transaction of ``Database.writing``; callers add to it."""
    ending: TransactionEnd = connection.get_execution_options()[_ENDING]
    return ending


_SHOWN = frozenset({"host", "port", "dbname", "user", "sslmode"})
"""Parameters of a URL's query that may be shown; others may hold a password. Source: libpq, 34.1.2."""


def _shown(url: sa.URL) -> str:
    """Return a URL without its secrets, for messages."""
    shown = url.difference_update_query([key for key in url.query if key not in _SHOWN])
    return shown.render_as_string(hide_password=True)


class Database:
    """One registry database.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``; the server's certificate is verified unless the
            URL has another ``sslmode``.
        clock: By default the database server's clock, which all computers share; for SQLite this computer's.
        statement_s: Seconds after which the server ends a statement, its waits for locks included; 0 for never. SQLite
            has no such limit, and waits for no statement of others.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, statement_s: float = 0) -> None:
        self._url = _parsed(url)
        self._clock = clock
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.title = self._url.database or "" if self.is_sqlite else _shown(self._url)
        self.before_write: Callable[[], None] | None = None
        """Called before each guarded write; may refuse it."""
        self.in_write: Callable[[sa.Connection], None] | None = None
        """Called in each guarded transaction that writes, first; may refuse it."""
        self._writers = _WRITERS.setdefault(self.title, threading.Lock()) if self.is_sqlite else None
        self._engine = _sqlite_engine(self._url) if self.is_sqlite else _postgresql_engine(self._url, statement_s)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a read transaction: one consistent view of the database.

        Raises:
            UnavailableError: It does not answer, or is locked for too long.
            BrokenInvariantError: The file is damaged.
        """
        with self._translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, guarded: bool = True) -> Iterator[sa.Connection]:
        """Open a short write transaction; committed when the block ends, rolled back when it raises.

        On SQLite it takes the write lock at its start, so that its reads stay valid until the commit.
        ``guarded=False`` skips ``before_write``, for repairs of the registry.

        Raises:
            UnavailableError: As ``reading``. Nothing changed.
            NotWrittenError: The disk is full or read-only. Nothing changed.
            BrokenInvariantError: The file is damaged.
        """
        if self.is_sqlite:
            with self._translated():
                _make_private(Path(self.title))
        if guarded and self.before_write:
            self.before_write()
        ending = TransactionEnd()
        options = {"hermesops_writes": True, _ENDING: ending}
        with (
            self._translated(),
            self._turn_to_write(),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            if guarded and self.in_write:
                self.in_write(connection)
            yield connection
            for work in ending.before_commit:
                work()
        for work in ending.after_commit.values():
            work()

    def now(self, connection: sa.Connection) -> datetime:
        """The present moment, aware and in UTC."""
        if self._clock:
            return self._clock()
        if self.is_sqlite:
            return datetime.now(UTC)
        timestamp: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return timestamp.astimezone(UTC)

    def is_missing(self) -> bool:
        """True if there is no SQLite file yet."""
        return self.is_sqlite and not Path(self.title).exists()

    def is_empty(self) -> bool:
        """True if there is no SQLite file, or an empty one without a journal."""
        if not self.is_sqlite:
            return False
        sizes = [file.stat().st_size for file in map(Path, (self.title, f"{self.title}-wal")) if file.exists()]
        return self.is_missing() or not any(sizes)

    def close(self) -> None:
        """Close every connection of the pool."""
        self._engine.dispose()

    @contextmanager
    def _turn_to_write(self) -> Iterator[None]:
        """Wait until no other thread of this process writes; PostgreSQL has no such need.

        SQLite has one writer, and the others look again ever more seldom: in turn, 32 threads committed twice as often,
        and their slowest commit took a third of the time.
        """
        if self._writers is None:
            yield
            return
        if not self._writers.acquire(timeout=_BUSY_MS / 1000):
            raise _locked(self.title)
        try:
            yield
        finally:
            self._writers.release()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except HermesError:
            raise
        except sa.exc.DBAPIError as error:
            raise _as_ours(self.title, error) from error
        except sa.exc.TimeoutError as error:  # of the pool: every connection waits, as for a server that stands still
            raise UnavailableError(f"the registry {self.title} has no free connection", hint=_DOCTOR) from error
        except UnicodeDecodeError as error:  # SQLite's message repeats damaged bytes
            raise BrokenInvariantError(f"the registry {self.title} is damaged", hint=RESTORE) from error
        except PermissionError as error:
            raise RefusedError(f"the registry {self.title} may not be opened by this user", hint=_DOCTOR) from error
        except OSError as error:
            if disk.is_refusal(error):
                raise disk.not_written(self.title, error) from error
            raise UnavailableError(
                f"the registry {self.title} cannot be opened: {error.strerror}", hint=_DOCTOR
            ) from error


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(with_verified_tls(url))
    except sa.exc.ArgumentError as error:
        raise UsageError("the registry's URL is malformed; the form is sqlite:///FILE or postgresql://…") from error
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        return parsed
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise UsageError(
        f"a registry cannot be kept in {parsed.drivername}; the form of its URL is sqlite:///FILE or postgresql://…"
    )


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    # Values of rows are in no traceback: users' names and words are among them.
    engine = sa.create_engine(url, hide_parameters=True, connect_args={"timeout": _BUSY_MS / 1000})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: "sa.engine.interfaces.DBAPIConnection", record: "sa.pool.ConnectionPoolEntry") -> None:
        # The driver would begin transactions too late; ``begin`` below does it.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        enable_wal(cursor.execute)
        # Commits are synced to the disk: a lost lease or intent would order a machine twice.
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()
        record.info[_FILE] = _identity(url)

    @sa.event.listens_for(engine, "checkout")
    def refuse_replaced(
        _connection: "sa.engine.interfaces.DBAPIConnection", record: "sa.pool.ConnectionPoolEntry", _proxy: object
    ) -> None:
        # A restored registry is another file of the same name: what is written to the old one is lost.
        if _identity(url) not in {None, record.info.get(_FILE)}:
            raise sa.exc.DisconnectionError("the file was replaced")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("hermesops_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _identity(url: sa.URL) -> tuple[int, int] | None:
    """What tells a file from another one of its name; ``None`` where there is none."""
    try:
        status = Path(url.database or "").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _postgresql_engine(url: sa.URL, statement_s: float) -> sa.Engine:
    engine = sa.create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    hide_rows(engine)

    @sa.event.listens_for(engine, "connect")
    def bound(connection: "sa.engine.interfaces.DBAPIConnection", _record: object) -> None:
        if statement_s:
            cursor = connection.cursor()
            cursor.execute(f"SET statement_timeout = {round(statement_s * 1000)}")
            cursor.close()
            connection.commit()  # else the transaction's end would take it back

    return engine


def _make_private(file: Path) -> None:
    """Make the file, readable by its owner only, before SQLite does; its journals inherit the mode."""
    if file.exists():
        return
    make_private_folder(file.parent)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    sync_folder(file.parent)


def _as_ours(title: str, error: sa.exc.DBAPIError) -> HermesError:
    message = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
    code = getattr(error.orig, "sqlite_errorname", "") or ""
    if refused := disk.sqlite_not_written(title, error.orig) or _not_written_by_server(title, error):
        return refused
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return BrokenInvariantError(f"the registry {title} is damaged: {message}", hint=RESTORE)
    if code.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return RefusedError(f"the registry {title} may not be written by this user", hint=_DOCTOR)
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _locked(title)
    if code.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")) or isinstance(
        error, sa.exc.OperationalError
    ):
        return UnavailableError(f"the registry {title} does not answer: {message}", hint=_DOCTOR)
    # A broken constraint or a missing table is our own mistake: it keeps its traceback.
    return BrokenInvariantError(f"the registry {title} refused a write: {message}")


def _locked(title: str) -> UnavailableError:
    return UnavailableError(
        f"the registry {title} is locked by another process for more than {_BUSY_MS // 1000} s",
        hint=Hint(("operation", "list"), ", then repeat the command"),
    )


def _not_written_by_server(title: str, error: sa.exc.DBAPIError) -> NotWrittenError | None:
    """Return the error for a write that PostgreSQL refused, or ``None``. Source: its manual, appendix A."""
    match getattr(error.orig, "sqlstate", ""):
        case "53100":
            return NotWrittenError(
                f"the registry {title} cannot be written: its server's disk is full",
                hint="make room on the database's server, then run the same command again",
            )
        case "25006":
            return NotWrittenError(
                f"the registry {title} cannot be written: its server is read-only, as a standby is",
                hint=Hint(
                    "set registry.url to the server that takes writes;", ("settings", "show"), "shows the present one"
                ),
            )
    return None
