"""What of an agent's database is read, and how long."""

import os
import sqlite3
from pathlib import Path

import pytest

from hermesops.wire.state import databases
from tests.support.hostile.databases import of_no_text
from tests.support.suite.cases import each_case


@each_case(
    ("kind", "name", "statement", "text"),
    [
        ("table", "sessions", "CREATE TABLE sessions (id)", "TABLE"),
        ("table", "sessions", 'CREATE TABLE "sessions"(id)', "TABLE"),
        ("table", "Sessions", "CREATE TABLE [Sessions](id)", "TABLE"),
        ("view", "sessions", "CREATE VIEW `sessions` AS SELECT 1", "VIEW"),
        ("table", "sessions", "CREATE VIRTUAL TABLE 'sessions' USING fts5(id)", "VIRTUAL TABLE"),
        ("table", 'a"b', 'CREATE TABLE "a""b"(id)', ""),
        ("table", "others", "CREATE TABLE others(id)", ""),
        ("index", "sqlite_autoindex_sessions_1", "", ""),
        ("index", "one", "CREATE UNIQUE INDEX one ON sessions (id)", ""),
        ("trigger", "one", "CREATE TRIGGER one AFTER INSERT ON sessions BEGIN SELECT 1; END", ""),
    ],
)
def test_an_entry_of_a_schema_is_what_its_statement_makes(kind: str, name: str, statement: str, text: str) -> None:
    assert databases._kind_of(kind, name, statement, "sessions") == text


@each_case(
    ("kind", "name", "statement"),
    [
        ("table", "sessions", "CREATE VIEW sessions AS SELECT 1"),
        ("view", "harmless", "CREATE VIEW sessions AS SELECT 1"),
        ("index", "sessions", "CREATE VIEW sessions AS SELECT 1"),
        ("table", "sessions", "CREATE/**/VIEW sessions AS SELECT 1"),
        ("table", "sessions", "create view sessions as select 1"),
        ("table", "sessions", 'CREATE TABLE "sessions'),
    ],
)
def test_an_entry_that_says_one_thing_and_makes_another_is_refused(kind: str, name: str, statement: str) -> None:
    with pytest.raises(databases.ForeignSchemaError, match="its schema holds a statement"):
        databases._kind_of(kind, name, statement, "sessions")


@pytest.fixture
def database(tmp_path: Path) -> bytes:
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("CREATE TABLE sessions (id)")
    connection.close()
    return os.fsencode(tmp_path / "state.db")


@pytest.mark.parametrize(
    "statement", ["SELECT hex(id) FROM sessions", "DELETE FROM sessions", "ATTACH ':memory:' AS a"]
)
def test_a_connection_runs_no_function_and_changes_nothing(database: bytes, statement: str) -> None:
    with databases.opened(database) as held, pytest.raises(sqlite3.DatabaseError):
        held.execute(statement)


def test_a_statement_without_an_end_ends(database: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_LEAST_S", 0.05)
    monkeypatch.setattr(databases, "_BYTES_PER_S", 1e12)
    with databases.opened(database) as held:
        held.set_authorizer(None)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            held.execute(
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n WHERE x > 1"
            ).fetchall()


def test_damage_of_which_sqlite_says_what_is_no_text_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    of_no_text(file)
    with pytest.raises(sqlite3.DatabaseError, match="it is damaged"), databases.opened(os.fsencode(file)):
        pass
