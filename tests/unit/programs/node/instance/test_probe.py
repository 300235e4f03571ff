"""The figures that ``hermes-node probe`` takes, and those that it cannot."""

import io
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node import __main__ as node
from hermesops.programs.node.instance.agent import readiness
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.personalise import personalise
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.settings import Settings
from tests.support.fakes.machines.node_home import NodeHome, make


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path)
    personalise(machine.node, machine.personalised(), wait_s=5)
    return machine


def probed(machine: NodeHome, *words: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    code = node.run(["--root", str(machine.layout.root), "probe", *words], lambda _: machine.node, out, err)
    assert code == 0, err.getvalue()
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_an_agent_that_is_well(machine: NodeHome) -> None:
    probe = probed(machine)
    assert (probe["gateway"], probe["unit"], probe["restarts"], probe["queue_age_s"]) == ("ok", "active", 0, 0)
    assert probe["turn"] is None
    assert probe["errors"] is None
    assert probe["memory_bytes"] is None, "this unit has no group"


def test_errors_are_counted_from_a_moment_on(machine: NodeHome) -> None:
    log = machine.home / "logs" / "errors.log"
    log.parent.mkdir(exist_ok=True)
    since = 1_800_000_000
    lines = [(since - 5, "ERROR"), (since + 1, "ERROR [s1]"), (since + 2, "WARNING"), (since + 3, "CRITICAL")]
    stamped = [f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))},123 {word} x: y" for at, word in lines]
    log.write_text("\n".join([*stamped, "Traceback (most recent call last):", "  ERROR"]))
    assert probed(machine, "--since", str(since))["errors"] == {"count": 2, "complete": True}


def test_a_log_that_begins_too_late_says_so(machine: NodeHome) -> None:
    log = machine.home / "logs" / "errors.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("2027-01-15 09:00:00,000 ERROR x: y\n" * 20_000)
    assert probed(machine, "--since", "0")["errors"]["complete"] is False


def test_the_oldest_job_that_waits(machine: NodeHome) -> None:
    due = [datetime.fromtimestamp(machine.system.now() - age, UTC).isoformat() for age in (-60, 30, 90)]
    machine.system.jobs = [{"next_run_at": each} for each in due] + [{"next_run_at": due[2], "enabled": False}]
    assert probed(machine)["queue_age_s"] == 90


@pytest.mark.parametrize("answer", [Answer(0, "refused"), Answer(200, "<html>")])
def test_a_silent_gateway_has_no_queue_and_takes_no_turn(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(machine.system, "ask", lambda *_, **__: answer)
    probe = probed(machine, "--turn", "5")
    assert (probe["gateway"], probe["queue_age_s"], probe["turn"]) == ("silent", None, None)


def test_a_turn_is_taken_where_it_is_asked_for(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "take_turn", lambda *_, timeout_s: readiness.AgentTurn(timeout_s == 7, 1.5))
    assert probed(machine, "--turn", "7")["turn"] == {"ok": True, "seconds": 1.5, "detail": ""}


def test_memory_is_that_of_the_group_without_caches(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    group = machine.layout.root / "sys/fs/cgroup/system.slice/g"
    group.mkdir(parents=True)
    (group / "memory.stat").write_text("anon 1234\nfile 99\n")
    shown = "ActiveState=active\nControlGroup=/system.slice/g\nMemoryCurrent=5678\n"
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: shown)
    assert probed(machine)["memory_bytes"] == 1234
    (group / "memory.stat").unlink()
    assert probed(machine)["memory_bytes"] == 5678


def test_memory_is_that_of_the_process_where_no_unit_is_counted(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "ActiveState=active\nControlGroup=/system.slice/g\nMemoryCurrent=[not set]\nMainPID=77\n"
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: shown)
    assert probed(machine)["memory_bytes"] is None
    process = machine.layout.root / "proc/77"
    process.mkdir(parents=True)
    (process / "status").write_text("Name:\tpython\nRssAnon:\t  117952 kB\n")
    assert probed(machine)["memory_bytes"] == 117952 * 1024


def test_where_no_unit_is_counted_the_memory_of_its_processes_is_added_up(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "ActiveState=active\nControlGroup=/system.slice/g\nMemoryCurrent=[not set]\nMainPID=77\n"
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: shown)
    for number, kilobytes in ((77, 1000), (78, 24)):
        (machine.layout.root / f"proc/{number}").mkdir(parents=True)
        (machine.layout.root / f"proc/{number}/status").write_text(f"Name:\tpython\nRssAnon:\t {kilobytes} kB\n")
    group = machine.layout.root / "sys/fs/cgroup/systemd/system.slice/g"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("77\n78\n79\n../../etc/passwd\n")
    assert probed(machine)["memory_bytes"] == 1024 * 1024, "one has ended meanwhile"


def test_an_agent_with_its_users_own_provider_takes_no_turn_that_the_user_would_pay(tmp_path: Path) -> None:
    machine = make(tmp_path)
    endpoint = ModelEndpoint("openai", "https://api.openai.com/v1", "codex_responses", "gpt-5.2", "sk-proj-0123456789")
    personalise(machine.node, machine.personalised(settings=Settings(endpoint=endpoint)), wait_s=5)
    probe = probed(machine, "--turn", "5")
    assert (probe["gateway"], probe["turn"], probe["takes_turns"]) == ("ok", None, False)
    assert not machine.node.files.read(machine.layout.last_turn)
