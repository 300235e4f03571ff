"""Copies of an SQLite registry beside it: hourly, by hand, and before each change that could lose rows.

Before a migration, a restore, a rebuild over it and its move to a platform. How many stay is ``surplus``'s to say.

A copy is made by SQLite's backup, checked page by page, and only then given its name, so a file of that name can be
restored. The key of the secrets in it is stored elsewhere. PostgreSQL's backups are its own: decision 0076.
"""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hermesops.base.files.disk import sqlite_not_written, sync_file, sync_folder
from hermesops.base.files.private_file import make_private_folder
from hermesops.errors import BrokenInvariantError, Hint, UnavailableError
from hermesops.store.registry.database import RESTORE

HOURLY = "hourly"
BY_HAND = "by-hand"
_NAME = re.compile(r"registry-(\d{8}T\d{6}\.\d{6})Z-([a-z0-9-]+)\.db")
_MOMENT = "%Y%m%dT%H%M%S.%f"
_BUSY_S = 20.0


@dataclass(frozen=True)
class Copy:
    """A copy of the registry that was intact when it was taken.

    Attributes:
        reason: ``hourly``, ``by-hand``, or ``before-0002`` for a copy before the migration to that revision.
    """

    file: Path
    taken_at: datetime
    reason: str
    size_bytes: int


@dataclass(frozen=True)
class CopyContent:
    """Counts and ids in a copy.

    Attributes:
        instances: Number of instances that are not terminated.
        machines: Ids of all machines in its rows.
    """

    instances: int
    machines: frozenset[str]


def surplus(copies: Sequence[Copy], keep: int) -> list[Copy]:
    """Copies to delete. Pure.

    Of hourly ones the newest ``keep`` stay and the newest of each of ``keep`` days; of others the newest ``keep``.

    Args:
        copies: Newest first.
    """
    hourly = [copy for copy in copies if copy.reason == HOURLY]
    of_days = list({copy.taken_at.date(): copy for copy in reversed(hourly)}.values())[-keep:]
    others = [copy for copy in copies if copy.reason != HOURLY]
    files = {copy.file for copy in (*hourly[:keep], *of_days, *others[:keep])}
    return [copy for copy in copies if copy.file not in files]


class Copies:
    """The copies of the registry in ``file``, of each kind ``keep`` at most."""

    def __init__(self, file: Path, keep: int) -> None:
        self.file = file
        self.folder = file.parent / f"{file.stem}-copies"
        self._keep = keep

    def list(self) -> tuple[Copy, ...]:
        """Return the copies of this folder, newest first."""
        named = ((file, _NAME.fullmatch(file.name)) for file in sorted(self.folder.glob("registry-*.db"), reverse=True))
        return tuple(
            Copy(file, datetime.strptime(name[1], _MOMENT).replace(tzinfo=UTC), name[2], file.stat().st_size)
            for file, name in named
            if name
        )

    def take(self, reason: str) -> Copy:
        """Copy the registry while others read and write it.

        Raises:
            BrokenInvariantError: The registry is damaged; no copy was made or removed.
            UnavailableError: It is locked, or there is no room.
        """
        with self._locked(wait=True):
            return self._take(reason)

    def take_hourly(self) -> Copy | None:
        """Copy the registry unless there is a copy of this hour; ``None`` also while another process copies it.

        Raises:
            BrokenInvariantError, UnavailableError: As ``take``.
        """
        with self._locked(wait=False) as locked:
            if not locked or any(copy.reason == HOURLY and hour_of(copy.taken_at) == hour_of() for copy in self.list()):
                return None
            return self._take(HOURLY)

    def _take(self, reason: str) -> Copy:
        draft = self.folder / ".draft"
        draft.unlink(missing_ok=True)  # left by a process that was killed
        try:
            copy_database(self.file, draft)
            file = self.folder / f"registry-{datetime.now(UTC).strftime(_MOMENT)}Z-{reason}.db"
            draft.rename(file)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(self.folder)
        copies = self.list()
        for old in surplus(copies, self._keep):
            old.file.unlink(missing_ok=True)
        return copies[0]

    @contextmanager
    def _locked(self, *, wait: bool) -> Iterator[bool]:
        """Let one process copy at a time; yields whether it is this one."""
        make_private_folder(self.folder)
        descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)


def hour_of(at: datetime | None = None) -> datetime:
    """The hour of a time, or the present one."""
    return (at or datetime.now(UTC)).replace(minute=0, second=0, microsecond=0)


def content_of(file: Path) -> CopyContent:
    """Read the counts and ids in a copy of any revision; empty for a copy without such tables.

    Raises:
        BrokenInvariantError: It is damaged, or no database.
    """
    check_database(file)
    with _explained(file), closing(_opened(file)) as database:
        tables = {str(row[0]) for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "hermes_instances" not in tables:
            return CopyContent(0, frozenset())
        machines = {str(row[0]) for row in database.execute("SELECT vm_id FROM hermes_instances WHERE vm_id NOTNULL")}
        if "unassigned_machines" in tables:
            others = database.execute("SELECT machine_id FROM unassigned_machines WHERE machine_id NOTNULL")
            machines |= {str(row[0]) for row in others}
        living = "SELECT count(*) FROM hermes_instances WHERE status != 'terminated'"
        return CopyContent(int(database.execute(living).fetchone()[0]), frozenset(machines))


def taken_at(file: Path) -> datetime:
    """When a copy was taken, by its name; of another file when it was last written."""
    if name := _NAME.fullmatch(file.name):
        return datetime.strptime(name[1], _MOMENT).replace(tzinfo=UTC)
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def copy_database(source: Path, target: Path) -> None:
    """Make ``target`` (a new file of mode 0600, synced) a checked copy of a live database.

    Raises:
        BrokenInvariantError: ``source`` is damaged.
        UnavailableError: It is locked, or there is no room.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with _explained(source), closing(_opened(source)) as live, closing(_opened(target)) as copy:
        live.backup(copy)
        _check(copy)
    settle(target)


def settle(file: Path) -> None:
    """Make a closed database one synced file without a journal."""
    with _explained(file), closing(_opened(file)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    sync_file(file)


def overwrite_database(target: Path, source: Path) -> None:
    """Replace a live database's content in one transaction; other processes see all of it or nothing.

    Raises:
        UnavailableError: It is locked, or there is no room; nothing changed.
    """
    with _explained(target), closing(_opened(source)) as new, closing(_opened(target)) as live:
        new.backup(live)


def check_database(file: Path) -> None:
    """Read every page.

    Raises:
        BrokenInvariantError: It is damaged, or no database.
        UnavailableError: It is locked, or missing.
    """
    if not file.exists():
        raise UnavailableError(f"there is no file {file}", hint=Hint(("registry", "copies")))
    with _explained(file), closing(_opened(file)) as database:
        _check(database)


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _check(connection: sqlite3.Connection) -> None:
    lines = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
    if lines != ["ok"]:
        raise sqlite3.DatabaseError(lines[0].splitlines()[0])


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if refused := sqlite_not_written(file, error):
            raise refused from error
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith("SQLITE_CORRUPT"):
            raise BrokenInvariantError(f"the registry {file} is damaged: {error}", hint=RESTORE) from error
        raise UnavailableError(
            f"the registry {file} cannot be copied: {error}", hint="make room, or repeat the command"
        ) from error
    except (
        sqlite3.DatabaseError,
        UnicodeDecodeError,
    ) as error:  # the latter for damaged bytes in a message
        raise BrokenInvariantError(f"the registry {file} is damaged: {error}", hint=RESTORE) from error
