"""A state that is put back, and what was written since: in the older databases, or on the list."""

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from hermesops.programs.node.state import snapshots
from hermesops.programs.node.state.swap import forget
from hermesops.wire.errors import BadRequestError, RefusedError
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.machines.node_home import furnish

NAME = "1795000000-0.20.0-000000000000"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    furnish(home)
    (home / "config.yaml").write_text("_config_version: 33\n")
    write(home, "CREATE VIRTUAL TABLE messages_fts USING fts5(content, content=messages, content_rowid=id)")
    write(
        home,
        "CREATE TRIGGER indexed AFTER INSERT ON messages BEGIN "
        "INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content); END",
    )
    write(home, "CREATE TABLE schema_version (version INTEGER NOT NULL)", "INSERT INTO schema_version VALUES (22)")
    say(home, "of before")
    return home


def write(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / "state.db")) as held, held:
        for statement in statements:
            held.execute(statement)


def say(home: Path, text: str, session: str = "s1") -> None:
    with closing(sqlite3.connect(home / "state.db")) as held, held:
        held.execute("INSERT INTO messages (session_id, role, content) VALUES (?, 'user', ?)", (session, text))


def rows(home: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / "state.db")) as held:
        return held.execute(query).fetchall()


def migrate(home: Path) -> None:
    """What a newer release does: another column, another table, and every old row written anew."""
    write(
        home,
        "ALTER TABLE messages ADD COLUMN mood TEXT",
        "CREATE TABLE dreams (id INTEGER PRIMARY KEY, text TEXT)",
        "UPDATE messages SET content = upper(content)",
        "UPDATE schema_version SET version = 99",
    )
    (home / "config.yaml").write_text("_config_version: 34\n")


def listed(home: Path, restore_result: snapshots.RestoreResult) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / restore_result.kept / "not-migrated.jsonl").read_text().splitlines()]


def test_what_was_said_since_is_carried_over_and_found_by_searching(home: Path) -> None:
    snapshots.keep(home, NAME)
    migrate(home)
    say(home, "said since")
    write(home, "INSERT INTO sessions (id, source, title) VALUES ('s2', 'telegram', 'Later')")
    restore_result = snapshots.restore(home, NAME)
    assert rows(home, "SELECT content FROM messages ORDER BY id") == [("of before",), ("said since",)]
    assert rows(home, "SELECT id FROM sessions ORDER BY id") == [("s1",), ("s2",)]
    assert rows(home, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'since'") == [(2,)]
    assert rows(home, "SELECT version FROM schema_version") == [(22,)]
    assert rows(home, "PRAGMA integrity_check") == [("ok",)]
    assert restore_result.migrated == 2
    assert (home / "config.yaml").read_text() == "_config_version: 33\n"


def test_what_has_no_place_is_listed_and_the_newer_state_stays(home: Path) -> None:
    snapshots.keep(home, NAME)
    migrate(home)
    write(
        home,
        "INSERT INTO dreams VALUES (1, 'of sheep')",
        "INSERT INTO messages (session_id, role, content, mood) VALUES ('s1', 'user', 'since', 'glad')",
    )
    restore_result = snapshots.restore(home, NAME)
    documents = listed(home, restore_result)
    assert restore_result.listed == len(documents)
    assert {"database": "state.db", "table": "dreams", "row": {"id": 1, "text": "of sheep"}} in documents
    assert [line["row"]["mood"] for line in documents if line["row"].get("content") == "since"] == ["glad"]  # type: ignore[index,attr-defined]  # as read
    newer = home / restore_result.kept / "state.db"
    with closing(sqlite3.connect(newer)) as held:
        assert held.execute("SELECT text FROM dreams").fetchall() == [("of sheep",)]


def test_what_a_killed_gateway_left_in_its_journal_is_carried_over_too(home: Path) -> None:
    snapshots.keep(home, NAME)
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as gateway:
        gateway.execute("INSERT INTO messages (session_id, role, content) VALUES ('s1', 'user', 'in the journal')")
        assert (home / "state.db-wal").stat().st_size > 0
        assert snapshots.restore(home, NAME).migrated == 1
    assert ("in the journal",) in rows(home, "SELECT content FROM messages")


def test_a_row_that_the_older_database_has_no_room_for_takes_no_other_ones_place(home: Path) -> None:
    write(home, "CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT UNIQUE)", "INSERT INTO names VALUES (1, 'a')")
    snapshots.keep(home, NAME)
    write(home, "UPDATE names SET name = 'b'", "INSERT INTO names VALUES (2, 'a')")
    restore_result = snapshots.restore(home, NAME)
    assert rows(home, "SELECT id, name FROM names") == [(1, "b")]
    assert [row["row"] for row in listed(home, restore_result)] == [{"id": 2, "name": "a"}]


def test_what_it_would_come_to_can_be_told_before_and_changes_nothing(home: Path) -> None:
    snapshots.keep(home, NAME)
    say(home, "since")
    write(home, "UPDATE sessions SET title = 'Kin' WHERE id = 's1'")
    weighed = snapshots.preview(home, NAME)
    assert (weighed.migrated, weighed.listed, weighed.kept) == (2, 0, f".hermes-node/kept/{NAME}")
    assert snapshots.preview(home, NAME) == weighed
    restore_result = snapshots.restore(home, NAME)
    assert (restore_result.migrated, restore_result.listed) == (2, 0)
    assert rows(home, "SELECT title FROM sessions") == [("Kin",)]
    assert snapshots.preview(home, NAME) == snapshots.RestoreResult()


def test_a_database_that_the_older_release_never_had_is_out_of_its_way(home: Path) -> None:
    snapshots.keep(home, NAME)
    shutil.copyfile(home / "state.db", home / "memory_store.db")
    restore_result = snapshots.restore(home, NAME)
    assert not (home / "memory_store.db").exists()
    assert (home / restore_result.kept / "memory_store.db").exists()


def test_a_damaged_newer_database_costs_only_what_was_written_since(home: Path) -> None:
    snapshots.keep(home, NAME)
    (home / "state.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    for ending in ("-wal", "-shm"):
        (home / f"state.db{ending}").unlink(missing_ok=True)
    restore_result = snapshots.restore(home, NAME)
    assert (restore_result.migrated, restore_result.listed) == (0, 1)
    assert rows(home, "SELECT content FROM messages") == [("of before",)]


def test_killed_anywhere_it_goes_on_and_nothing_is_lost_or_there_twice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots.keep(home, NAME)
    migrate(home)
    say(home, "since")
    as_begun = home.with_name("begun")
    shutil.copytree(home, as_begun)
    rename, dies_at, ends = Path.rename, 0, False
    while not ends:
        dies_at += 1
        shutil.rmtree(home)
        shutil.copytree(as_begun, home)
        monkeypatch.setattr(Path, "rename", Death.before(dies_at).around(rename))
        try:
            snapshots.restore(home, NAME)
            ends = True
        except KilledError:
            monkeypatch.setattr(Path, "rename", rename)
            snapshots.restore(home, NAME)
        monkeypatch.setattr(Path, "rename", rename)
        assert rows(home, "SELECT content FROM messages ORDER BY id") == [("of before",), ("since",)]
        again = snapshots.restore(home, NAME)
        assert again.migrated == 1
    assert dies_at > 3


def test_what_was_kept_outlives_a_restore_and_ends_after_its_time(home: Path) -> None:
    snapshots.keep(home, NAME)
    restore_result = snapshots.restore(home, NAME)
    forget(home)
    assert (home / restore_result.kept).exists()
    assert snapshots.prune(home, 3600) == 0
    os.utime(home / restore_result.kept, (time.time() - 7200,) * 2)
    assert snapshots.prune(home, 3600) == 1
    assert not (home / restore_result.kept).exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", "9" * 120])
def test_a_name_leads_nowhere_else(home: Path, name: str) -> None:
    with pytest.raises(BadRequestError, match="name: not of the expected form"):
        snapshots.keep(home, name)


def test_a_copy_to_try_on_has_databases_and_configuration_and_nothing_that_acts(home: Path) -> None:
    (home / ".env").write_text("TELEGRAM_BOT_TOKEN=1")
    snapshots.make_trial_copy(home, 33)
    trial_folder = snapshots.trial_folder(home)
    paths = {str(path.relative_to(trial_folder)) for path in trial_folder.rglob("*") if path.is_file()}
    assert paths == {"state.db", "config.yaml", ".no-bundled-skills"}
    before = snapshots.trial_schemas(home)
    write(trial_folder, "INSERT INTO messages (session_id, role, content) VALUES ('s1', 'user', 'tried')")
    assert snapshots.trial_schemas(home) == before
    migrate(trial_folder)
    assert snapshots.trial_schemas(home).keys() == before.keys()
    assert all(digest != before[name] for name, digest in snapshots.trial_schemas(home).items())
    snapshots.remove_trial_copy(home)
    assert not trial_folder.exists()
    assert rows(home, "SELECT content FROM messages") == [("of before",)]


def test_a_copy_that_does_not_fit_is_refused_with_the_figures(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(home)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(RefusedError, match="64 MiB to spare, 1 MiB free"):
        snapshots.make_trial_copy(home, 33)
