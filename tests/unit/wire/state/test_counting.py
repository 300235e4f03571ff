"""What a database amounts to, counted by a process of its own."""

import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from hermesops.wire.errors import NotReadyError
from hermesops.wire.state import databases
from hermesops.wire.state.digest import counting, tables_of


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, content TEXT)")
    connection.executemany("INSERT INTO messages VALUES (?, 'one', ?)", [(n, f"sentence {n}") for n in range(1000)])
    connection.commit()
    connection.close()
    return path


def test_it_counts_what_is_counted_here(database: Path) -> None:
    with databases.opened(os.fsencode(database)) as held:
        here = tables_of(held)
    with counting(database) as tables:
        assert tables() == here
    assert here["messages"].count == 1000


def test_a_damaged_one_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + bytes(4096))
    with counting(tmp_path / "state.db") as tables, pytest.raises(sqlite3.DatabaseError):
        tables()


def test_one_that_was_killed_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.wire.state.digest._count", lambda _copied, _answer: signal.pause())
    with counting(tmp_path / "state.db") as tables:
        (process,) = multiprocessing.active_children()
        process.kill()
        with pytest.raises(NotReadyError, match="cut short"):
            tables()


def test_nothing_is_left_of_it(database: Path) -> None:
    with counting(database):
        (process,) = (each.pid or 0 for each in multiprocessing.active_children())
    with pytest.raises(ProcessLookupError):
        os.kill(process, signal.SIG_DFL)
