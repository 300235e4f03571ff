"""Checking an agent's databases as the agent's user, and what the metrics say of them."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.instance import volume
from hermesops.programs.node.metrics import databases
from hermesops.programs.node.system import as_user
from hermesops.wire.errors import NotReadyError
from hermesops.wire.state.databases import is_intact
from tests.support.fakes.machines.node_home import NodeHome, make


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path)
    machine.layout.identity.write_text("{}")
    machine.layout.metrics.parent.mkdir(parents=True)
    return machine


def shown(machine: NodeHome) -> dict[str, float]:
    values = {}
    for sample in databases.read(machine.node, {}):
        values[f"{sample.name.removeprefix('hermes_database_')},{sample.labels['database']}"] = sample.value
    return values


def damage(path: Path) -> None:
    """Overwrite what is not the first page."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


def fill(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x TEXT)")
        database.executemany("INSERT INTO t VALUES (?)", [("y" * 500,)] * 200)
    database.close()


def test_a_check_says_which_are_good(machine: NodeHome) -> None:
    fill(machine.home / "kanban.db")
    damage(machine.home / "kanban.db")
    (machine.home / "projects.db").write_bytes(b"no database" * 1000)
    assert databases.check(machine.node) == {"intact": {"kanban.db": False, "projects.db": False, "state.db": True}}
    metrics = shown(machine)
    assert (metrics["integrity,state"], metrics["integrity,kanban"], metrics["integrity,projects"]) == (1, 0, 0)
    assert metrics["bytes,state"] >= 4096
    assert metrics["bytes,projects"] == 11_000


def test_sizes_count_the_log_and_need_no_check(machine: NodeHome) -> None:
    (machine.home / "state.db").write_bytes(b"x" * 100)
    (machine.home / "state.db-wal").write_bytes(b"x" * 23)
    (machine.home / "cron/executions.db").write_bytes(b"x" * 7)
    assert shown(machine) == {"bytes,state": 123, "bytes,cron_executions": 7}


def test_a_check_that_is_old_or_of_the_future_says_nothing(machine: NodeHome) -> None:
    now = machine.system.now()
    for at, expected in ((now - 10, 0), (now - 4 * 3600, None), (now + 60, None)):
        machine.layout.database_check.write_text(json.dumps({"at": at, "intact": {"state.db": False}}))
        assert shown(machine).get("integrity,state") == expected


def test_nothing_is_checked_while_the_state_changes(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (machine.layout.restoring, machine.layout.activation):
        path.write_text("{}")
        assert databases.check(machine.node) == {"intact": None}
        path.unlink()
    monkeypatch.setattr(volume, "is_closed", lambda _: True)
    assert databases.check(machine.node) == {"intact": None}
    assert shown(machine) == {}
    assert not machine.layout.database_check.exists()


def test_links_pipes_and_folders_are_no_databases(machine: NodeHome, tmp_path: Path) -> None:
    good = tmp_path / "good.db"
    fill(good)
    (machine.home / "kanban.db").symlink_to(good)
    os.mkfifo(machine.home / "projects.db")
    (machine.home / "memory_store.db").mkdir()
    (machine.home / "cron/executions.db").symlink_to(machine.home / "state.db")
    assert databases.check(machine.node) == {"intact": {"state.db": True}}
    assert {name for name in shown(machine) if name.startswith("bytes")} == {"bytes,state"}


def test_a_locked_database_is_neither_good_nor_bad(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.wire.state.databases._LOCKED_S", 0.1)
    fill(machine.home / "kanban.db")
    holder = sqlite3.connect(machine.home / "kanban.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert is_intact(machine.home, b"kanban.db") is None
    holder.close()
    assert is_intact(machine.home, b"kanban.db") is True


@pytest.mark.parametrize("intact", [{}, {"state.db": "yes", "/etc/shadow": True, "x\ny": False}, {"kanban.db": 1}])
def test_a_report_of_the_agents_making_holds_no_more_than_judgements(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch, intact: object
) -> None:
    monkeypatch.setattr(as_user, "run", lambda *_, **__: {"intact": intact})
    assert databases.check(machine.node) == {"intact": {}}


@pytest.mark.parametrize("report", [{}, {"intact": 7}, {"intact": []}])
def test_a_report_of_another_shape_is_refused(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]
) -> None:
    monkeypatch.setattr(as_user, "run", lambda *_, **__: report)
    with pytest.raises(NotReadyError, match="not understood"):
        databases.check(machine.node)


def test_a_damaged_result_fails_the_part(machine: NodeHome) -> None:
    machine.layout.database_check.write_text(json.dumps({"at": machine.system.now()}))
    with pytest.raises(KeyError):
        shown(machine)
