"""No reader of ours takes the log from under an agent that writes it.

A process that closes any descriptor of a file drops all its locks on it (fcntl(2)), SQLite's included. The next one
that closes a connection then takes itself for the last, copies the log and removes it, while the writer goes on in a
file that has no name. A connection that cannot write cannot take the lock for that.
"""

import ast
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO, StringIO
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.programs.node.state import export, snapshots
from hermesops.wire.state import databases, tar_stream
from hermesops.wire.state.contents import DATABASE
from hermesops.wire.state.digest import digest_of
from tests.support.real import sqlite as sqlite_of_releases

HERMESOPS = Path(databases.__file__).resolve().parents[2]

OPENERS = {
    ("wire/state/databases.py", "opened"): "read-only, or immutable where no other process has it open",
    ("wire/state/databases.py", "copy"): "a new file of ours",
    ("programs/node/state/row_migration.py", "migrate_rows"): "writes, while no gateway runs",
}
"""Every function of hermes-node that opens an SQLite file, and how."""

DESCRIPTORS = {
    ("wire/state/digest.py", "digest_of"): "never the database",
    ("wire/state/tar_stream.py", "_readable"): "closed after the connection",
    ("programs/node/state/user_config.py", "_present"): "the user's configuration",
    ("programs/node/state/export.py", "_read"): "skills, memories, jobs, pairings",
    ("programs/node/state/snapshots.py", "copy_file"): "closed before the connection",
    ("programs/node/state/snapshots.py", "_is_plain"): "closed at once",
}
"""Every function that opens files of an agent's home by their names, and why no connection of its process suffers."""

_WRITES = """
import os, sqlite3, sys
path, loses_locks = sys.argv[1], sys.argv[2] == "loses"
db = sqlite3.connect(path, isolation_level=None, timeout=20)
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY, title TEXT)")
db.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, content TEXT)")
for line in sys.stdin:
    db.execute("INSERT INTO messages (content) VALUES (?)", (line,))
    if loses_locks:
        os.close(os.open(path, os.O_RDONLY))
    names = ["/proc/self/fd/" + fd for fd in os.listdir("/proc/self/fd")]
    logs = [name for name in names if os.path.lexists(name) and "-wal" in os.readlink(name)]
    print(*{os.stat(name).st_ino for name in logs}, flush=True)
"""


class Writer:
    """A process that keeps a database open and writes."""

    def __init__(self, home: Path, *, loses_locks: bool) -> None:
        self._log = home / "state.db-wal"
        words = [sys.executable, "-c", _WRITES, str(home / "state.db"), "loses" if loses_locks else "keeps"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def writes(self) -> bool:
        """Write a row; whether it went into the log that the path names."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("x\n")
        stdin.flush()
        held = stdout.readline().split()
        return held == [str(self._log.stat().st_ino)] if self._log.exists() else False

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def writer(home: Path, *, loses_locks: bool = True) -> Iterator[Writer]:
    started = Writer(home, loses_locks=loses_locks)
    try:
        assert started.writes()
        yield started
    finally:
        started.kill()


def _read_and_write(home: Path) -> None:
    with closing(sqlite3.connect(home / "state.db")) as connection:
        connection.execute("SELECT count(*) FROM messages").fetchone()


def _copied(home: Path) -> None:
    (home.parent / "copy").unlink(missing_ok=True)
    databases.copy(os.fsencode(home / "state.db"), home.parent / "copy")


READERS: dict[str, Callable[[Path], object]] = {
    "digest": digest_of,
    "check": lambda home: databases.is_intact(home, DATABASE),
    "copy": _copied,
    "backup": lambda home: tar_stream.pack(home, BytesIO()),
    "export": lambda home: export.write(home, StringIO()),
    "trial": lambda home: snapshots.make_trial_copy(home, 33),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_leaves_the_log_of_a_writer_that_lost_its_locks(home: Path, reader: str) -> None:
    with writer(home) as agent:
        READERS[reader](home)
        assert agent.writes(), "the log was replaced under its writer"


def test_a_connection_that_can_write_would_replace_it(home: Path) -> None:
    with writer(home) as agent:
        _read_and_write(home)
        assert not agent.writes()


def test_a_writer_that_is_killed_and_comes_again_among_readers_keeps_one_log(home: Path) -> None:
    for reader in READERS.values():
        with writer(home, loses_locks=False) as agent:
            reader(home)
            assert agent.writes()
            agent.kill()
            reader(home)
        with writer(home, loses_locks=False) as agent:
            reader(home)
            assert agent.writes()
    assert databases.is_intact(home, DATABASE)


def test_nothing_else_of_ours_on_a_machine_opens_a_database() -> None:
    assert set(_callers("sqlite3.connect")) == OPENERS.keys()
    assert set(_callers("contents.opened")) == DESCRIPTORS.keys()
    assert set(_callers("sqlite3.connect", below=assets.folder("roles"))) == set()


def test_the_agents_databases_are_opened_without_the_right_to_write(home: Path) -> None:
    with writer(home) as _, databases.opened(os.fsencode(home / "state.db")) as connection:
        writable = [path for path in Path("/proc/self/fd").iterdir() if _is_writable(path, home)]
        assert writable == []
        assert connection.execute("SELECT id FROM messages").fetchone()


_INDEXED = """
import ctypes, sys
library, home, source = sys.argv[1:]
ctypes.CDLL(library)
sys.path.insert(0, source)
import sqlite3
from pathlib import Path
from hermesops.wire.state.databases import is_intact
db = sqlite3.connect(home + "/state.db", isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT)")
db.execute("CREATE VIRTUAL TABLE words USING fts5(content, content=messages, content_rowid=id)")
db.execute("CREATE VIRTUAL TABLE parts USING fts5(content, tokenize='trigram')")
db.execute("INSERT INTO messages VALUES (1, 'a heron')")
db.execute("INSERT INTO words (rowid, content) VALUES (1, 'a heron')")
db.execute("INSERT INTO parts VALUES ('a heron')")
good = is_intact(Path(home), b"state.db")
db.execute("UPDATE parts_data SET block = zeroblob(200) WHERE id > 10")
db.close()
print(sqlite3.sqlite_version, good, is_intact(Path(home), b"state.db"))
"""


def test_the_check_judges_full_text_indexes_with_the_releases_sqlite(home: Path) -> None:
    library = sqlite_of_releases.library()
    words = ["/usr/bin/python3", "-I", "-c", _INDEXED, str(library), str(home), str(HERMESOPS.parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    version, good, damaged = done.stdout.split()
    assert version in library.name
    assert (good, damaged) == ("True", "False")


def _is_writable(descriptor: Path, home: Path) -> bool:
    """Whether a descriptor of this process may write the database."""
    try:
        target = descriptor.readlink()
        info = Path("/proc/self/fdinfo", descriptor.name).read_text()
    except OSError:
        return False
    mode = int(next(line.split()[1] for line in info.splitlines() if line.startswith("flags:")), 8)
    return target == home / "state.db" and mode & os.O_ACCMODE != os.O_RDONLY


def _callers(name: str, *, below: Path | None = None) -> Iterator[tuple[str, str]]:
    """Functions that call something, by module."""
    folders = [below] if below else [HERMESOPS / "programs" / "node", HERMESOPS / "wire"]
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
                if any(ast.unparse(call) == name for call in calls):
                    yield path.relative_to(below or HERMESOPS).as_posix(), function.name
