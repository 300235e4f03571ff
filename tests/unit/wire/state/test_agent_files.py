"""The table of an agent's files: each is classed once, and backup, digest, export and rollback follow the classes."""

import json
import sqlite3
from io import StringIO
from pathlib import Path

import pytest

from hermesops.programs.node.state import export
from hermesops.wire.state import digest
from hermesops.wire.state.agent_files import AGENT_FILES, DATABASES, FileClass, is_copied, row_of
from hermesops.wire.state.contents import Walk
from tests.support.fakes.machines.node_home import furnish

NEWER = {
    "gateway.sock.lock": FileClass.LOCK,
    "runs_idempotency.db": FileClass.DATABASE,
    "state.db.auto-maintenance.lock": FileClass.LOCK,
    "state.db.repair.lock": FileClass.LOCK,
    "cron/executions.db": FileClass.DATABASE,
    "a2a_conversations/grace.jsonl": FileClass.STATE,
    "a2a_audit.jsonl": FileClass.LOG,
    "logs/update_receipts/latest.json": FileClass.DIAGNOSIS,
    "logs/agent.log.1": FileClass.LOG,
    "sessions/request_dump_s1_20261129_014726_012092.json": FileClass.DIAGNOSIS,
    "cache/scratch/hermes-snap-51a6aaeb71fe.sh": FileClass.SCRATCH,
    "cache/scratch/report/deep/inside.bin": FileClass.SCRATCH,
    "cache/terminal/hermes_bg_1.log": FileClass.SCRATCH,
    "cache/schema_columns.json": FileClass.CACHE,
    "state/gateway.lifecycle.json": FileClass.PROCESS,
    ".local/state/hermes/gateway-locks/host-gateway.json": FileClass.PROCESS,
    "plugin-update-checks/last-run": FileClass.PROCESS,
}
"""What an agent of a later tree wrote into a home of 0.19.0, by the class of each."""

USERS = ("documents/scratch/mine.txt", "scratch/plan.md", "cache/documents/letter.pdf", "pending_messages/1.json")
"""Names that look like an agent's own, and are the user's."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    furnish(tmp_path)
    for name in (*NEWER, *USERS):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.name.endswith(".db"):
            path.write_text("of a newer agent")
            continue
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE runs (id TEXT)")
        database.close()
    return tmp_path


def copied(home: Path) -> set[str]:
    return {item.name.decode() for item in Walk(home).items() if not item.is_folder}


def test_what_a_newer_agent_writes_is_backed_up_by_its_class_and_scratch_is_not(home: Path) -> None:
    assert {name for name in NEWER if name in copied(home)} == {
        name for name, file_class in NEWER.items() if file_class.is_copied
    }
    assert set(USERS) < copied(home)


@pytest.mark.parametrize("name", NEWER)
def test_each_of_them_has_a_row(name: str) -> None:
    row = row_of(name.encode())
    if NEWER[name] is FileClass.LOCK:
        assert not is_copied(name.encode())
    else:
        assert row is not None
        assert row.file_class is NEWER[name]


def test_scratch_neither_swells_a_backup_nor_hides_from_the_disks_figure(home: Path) -> None:
    before = Walk(home)
    size = sum(item.size for item in before.items())
    (home / "cache/scratch/huge").write_bytes(b"x" * (8 << 20))
    after = Walk(home)
    assert sum(item.size for item in after.items()) == size
    assert after.used - before.used >= 8 << 20


def test_none_of_it_changes_the_digest(home: Path) -> None:
    expected = home.parent / f"{home.name}-before"
    expected.mkdir()
    furnish(expected)
    assert digest.digest_of(home)[0] == digest.digest_of(expected)[0]


def test_conversations_with_other_agents_are_exported_and_no_scratch(home: Path) -> None:
    out = StringIO()
    export.write(home, out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    a2a = {"table": "a2a_conversations", "path": "a2a_conversations/grace.jsonl", "content": "of a newer agent"}
    assert a2a in rows
    assert rows[-1]["counts"]["a2a_conversations"] == 1
    assert "hermes-snap" not in out.getvalue()


def test_every_row_is_there_once_and_says_when_it_came() -> None:
    names = [file.name for file in AGENT_FILES]
    assert len(names) == len(set(names))
    assert {file.since for file in AGENT_FILES} <= {"0.19", "0.20", "0.21", "0.22"}
    assert all(file.name.count(b"*") == file.name.endswith(b"*") for file in AGENT_FILES)
    assert {file.digest for file in AGENT_FILES} - {""} == {
        *(kind for kind in digest.KINDS if kind not in {"sessions", "messages"}),
        "sessions, messages",
    }
    assert b"state.db" in DATABASES


def test_what_the_digest_and_the_export_read_is_backed_up() -> None:
    assert all(is_copied(file.name) for file in AGENT_FILES if file.digest or file.export)
