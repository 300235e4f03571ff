"""What a database amounts to, counted by a process of its own."""

import os
import signal
import sqlite3
from pathlib import Path

import pytest

from hermesops.node.errors import NotReadyError
from hermesops.node.state import databases
from hermesops.node.state.digest import Counting, tables_of


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    made = sqlite3.connect(path)
    made.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, content TEXT)")
    made.executemany("INSERT INTO messages VALUES (?, 'one', ?)", [(n, f"sentence {n}") for n in range(1000)])
    made.commit()
    made.close()
    return path


def test_it_counts_what_is_counted_here(database: Path) -> None:
    with databases.opened(os.fsencode(database)) as held:
        here = tables_of(held)
    with Counting(database) as counting:
        assert counting.tables() == here
    assert here["messages"].count == 1000


def test_a_damaged_one_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + bytes(4096))
    with Counting(tmp_path / "state.db") as counting, pytest.raises(sqlite3.DatabaseError):
        counting.tables()


def test_one_that_was_killed_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.node.state.digest._count", lambda _copied, _answer: signal.pause())
    with Counting(tmp_path / "state.db") as counting:
        counting._process.kill()
        with pytest.raises(NotReadyError, match="cut short"):
            counting.tables()


def test_nothing_is_left_of_it(database: Path) -> None:
    with Counting(database) as counting:
        process = counting._process.pid or 0
    with pytest.raises(ProcessLookupError):
        os.kill(process, signal.SIG_DFL)
