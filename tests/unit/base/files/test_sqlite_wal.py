"""Several processes that open one new file at once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest

from hermesops.base.files.sqlite_wal import enable_wal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new.db"


@pytest.fixture
def reader(file: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection that holds the file as one does that is about to switch it."""
    with closing(_connection(file, busy_ms=0)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchall()
        yield reader


def test_a_file_is_switched_once_a_reader_lets_go(file: Path, reader: sqlite3.Connection) -> None:
    with closing(_connection(file, busy_ms=20_000)) as connection:
        release = Timer(0.3, reader.execute, ["COMMIT"])
        release.start()
        enable_wal(connection.execute)
        release.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.usefixtures("reader")
def test_who_waits_longer_than_the_timeout_is_told_that_it_is_locked(file: Path) -> None:
    with (
        closing(_connection(file, busy_ms=50)) as connection,
        pytest.raises(sqlite3.OperationalError, match="database is locked"),
    ):
        enable_wal(connection.execute)


def _connection(file: Path, *, busy_ms: int) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False)
