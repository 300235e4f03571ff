"""0.19.0, a later agent and 0.19.0 again on one state, in the shapes that were seen by hand: nothing said is lost."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermesops.programs.node.state import snapshots, user_config
from hermesops.wire.state import digest
from hermesops.wire.state.contents import Walk
from tests.support.fakes.machines.node_home import furnish

NAME = "1795000000-0.22.2-000000000000"
OLD = "_config_version: 33\n# mine\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    furnish(home)
    (home / "config.yaml").write_text(OLD)
    write(home, "CREATE TABLE schema_version (version INTEGER NOT NULL)", "INSERT INTO schema_version VALUES (22)")
    say(home, "taught before")
    return home


def write(home: Path, *statements: str, name: str = "state.db") -> None:
    with closing(sqlite3.connect(home / name)) as held, held:
        for statement in statements:
            held.execute(statement)


def say(home: Path, text: str, session: str = "s1", **columns: object) -> None:
    names = ", ".join(("session_id", "role", "content", "timestamp", *columns))
    values = (session, "user", text, 1.0, *columns.values())
    with closing(sqlite3.connect(home / "state.db")) as held, held:
        held.execute(f"INSERT INTO messages ({names}) VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608 - ours


def later(home: Path) -> None:
    """A later agent migrates the state, and works on it for a while."""
    user_config.keep(home)
    (home / "config.yaml").write_text("_config_version: 50\nproviders: {}\n")
    write(
        home,
        "ALTER TABLE sessions ADD COLUMN created_source TEXT",
        "ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN message_uid TEXT",
        "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT)",
        "INSERT INTO system_prompts VALUES ('h', 'Be brief.')",
        "UPDATE messages SET message_uid = 'u' || id",
        "UPDATE schema_version SET version = 31",
        "INSERT INTO sessions (id, source, title, created_source) VALUES ('s2', 'api_server', 'Later', 'api')",
    )
    say(home, "taught meanwhile", message_uid="u-17")
    say(home, "in a new session", session="s2", message_uid="u-18")
    write(home, "CREATE TABLE runs (key TEXT)", "INSERT INTO runs VALUES ('k-1')", name="runs_idempotency.db")
    (home / "memories/MEMORY.md").write_text("Learned meanwhile.")
    jobs = json.loads((home / "cron/jobs.json").read_text())
    jobs["jobs"].append({**jobs["jobs"][0], "id": "j2", "monitor_url": None, "failure_streak": 0})
    (home / "cron/jobs.json").write_text(json.dumps(jobs))
    (home / "cache/scratch").mkdir(parents=True)
    (home / "cache/scratch/hermes-snap-1.sh").write_text("export TOKEN=x")
    (home / "state.db.auto-maintenance.lock").touch()


def said(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "state.db")) as held:
        return [row[0] for row in held.execute("SELECT content FROM messages ORDER BY id")]


EVERYTHING = ["taught before", "taught meanwhile", "in a new session"]


def counts(home: Path) -> dict[str, int]:
    return {kind: part["count"] for kind, part in digest.digest_of(home, is_alone=True)[0].items()}


def test_back_on_the_copy_of_the_stop_it_knows_everything_that_was_said_since(home: Path) -> None:
    snapshots.keep(home, NAME)
    later(home)
    between = counts(home)
    preview = snapshots.preview(home, NAME)
    result = snapshots.restore(home, NAME)
    assert (result.migrated, result.listed) == (preview.migrated, preview.listed)
    assert said(home) == EVERYTHING
    assert counts(home) == between
    assert (home / "config.yaml").read_text() == OLD
    assert (home / "memories/MEMORY.md").read_text() == "Learned meanwhile."
    with closing(sqlite3.connect(home / "state.db")) as held:
        assert held.execute("SELECT version FROM schema_version").fetchall() == [(22,)]
        assert held.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert (home / result.kept / "runs_idempotency.db").is_file(), "it is the newer agent's alone"


def test_back_without_a_copy_it_runs_on_the_newer_state_with_its_own_configuration(home: Path) -> None:
    later(home)
    assert user_config.take_back(home, 33) is not None
    assert (home / "config.yaml").read_text() == OLD
    assert said(home) == EVERYTHING


def test_there_and_back_and_there_again(home: Path) -> None:
    snapshots.keep(home, NAME)
    later(home)
    snapshots.restore(home, NAME)
    say(home, "back on the older one")
    again = NAME.replace("1795", "1796")
    snapshots.keep(home, again)
    user_config.keep(home)
    (home / "config.yaml").write_text("_config_version: 50\n")
    write(home, "ALTER TABLE messages ADD COLUMN message_uid TEXT")
    say(home, "and on the newer one", message_uid="u-19")
    snapshots.restore(home, again)
    assert said(home) == [*EVERYTHING, "back on the older one", "and on the newer one"]
    assert (home / "config.yaml").read_text() == OLD


def test_a_backup_of_the_newer_state_has_its_rows_and_none_of_its_scratch(home: Path) -> None:
    later(home)
    names = {item.name.decode() for item in Walk(home).items()}
    assert {"state.db", "runs_idempotency.db", "memories/MEMORY.md", "cron/jobs.json"} < names
    assert not {name for name in names if "scratch" in name or name.endswith(".lock")}
    assert counts(home)["cron"] == 2
