"""Judging a machine in a folder by what its gateway answers."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.instance import drain
from hermesops.programs.node.instance import status as observe
from hermesops.programs.node.instance.agent import readiness
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.system import systemd
from hermesops.programs.node.system.files import Access
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Identity, Payload, Secrets
from hermesops.wire.settings import Settings

_PAYLOAD = Payload(
    Identity("i-1", "u-1", "light", "c1", 3),
    Secrets("k" * 64, "hm1.i-1.1." + "a" * 40),
    "http://10.0.0.1:18080/v1",
    Settings(messengers={"TELEGRAM_BOT_TOKEN": "1:x"}, mcp_servers={"notes": {"url": "http://x"}}),
)
_WELL: dict[str, Any] = {
    "status": "ok",
    "gateway_state": "running",
    "platforms": {"telegram": {"state": "connected"}},
    "readiness": {"checks": {"state_db": {"status": "ok"}}},
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for folder in ("etc/hermes-node", "var/lib/hermes/logs", "opt/hermes/releases/r1"):
        (tmp_path / folder).mkdir(parents=True)
    layout = Layout(tmp_path)
    base = {"unit": "u", "user": "hermes", "home": "/var/lib/hermes", "port": 1, "routes": [], "adapters": []}
    layout.base.write_text(json.dumps({**base, "config": {}, "environment": {}, "user_config": {}}))
    layout.payload.write_bytes(_PAYLOAD.to_json())
    layout.identity.write_text("{}")
    layout.current.symlink_to("releases/r1")
    return Machine(layout, slots=DiskSlots(layout))


_UNIT = "ActiveState=active\nType=notify\nWatchdogUSec=30s"


def judged(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    *,
    alive: int = 200,
    status: int = 200,
    unit: str = _UNIT,
    **body: object,
) -> tuple[int, set[str]]:
    """The exit code, and the names of the checks that failed."""
    answers = {"/health": Answer(alive, "refused"), "/health/detailed": Answer(status, {**_WELL, **body})}
    monkeypatch.setattr(systemd, "systemctl", lambda *_: unit)
    monkeypatch.setattr(systemd, "ask", lambda _port, path, **_: answers[path])
    health = observe.health(machine)
    return health.exit_code, {check.name for check in health.checks if not check.ok}


def test_an_agent_that_is_well(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(machine, monkeypatch) == (0, set())


def test_a_unit_that_tells_systemd_nothing_cannot_be_watched(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, failed in (("simple", set()), ("notify", {"watchdog"})):
        assert judged(machine, monkeypatch, unit=f"ActiveState=active\nType={kind}\nWatchdogUSec=0")[1] == failed


def test_no_answer_is_told_from_a_bad_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(machine, monkeypatch, alive=0) == (4, {"api"})
    assert judged(machine, monkeypatch, status=401) == (8, {"key"})


def test_a_degraded_part_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"checks": {"state_db": {"status": "degraded", "detail": "DatabaseError"}}}
    monkeypatch.setattr(systemd, "systemctl", lambda *_: _UNIT)
    broken = Answer(200, {**_WELL, "status": "degraded", "readiness": parts})
    monkeypatch.setattr(systemd, "ask", lambda _port, path, **_: Answer(200, {}) if path == "/health" else broken)
    (failed,) = [check for check in observe.health(machine).checks if not check.ok]
    assert failed.name == "ready"
    assert "DatabaseError" in failed.detail


def test_a_draining_gateway_is_not_well(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(machine, monkeypatch, gateway_state="draining") == (8, {"accepting"})


def test_a_messenger_that_is_not_connected_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    platforms = {"telegram": {"state": "retrying"}}
    assert judged(machine, monkeypatch, platforms=platforms) == (8, {"messenger:telegram"})


def test_a_server_that_is_not_connected_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.layout.root / "var/lib/hermes/logs/agent.log").write_text("Failed to connect to MCP server 'notes': x\n")
    assert judged(machine, monkeypatch) == (8, {"mcp:notes"})


def test_a_machine_without_a_slot_is_not_well(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.layout.current.unlink()
    assert judged(machine, monkeypatch) == (8, {"release"})


_JUNK = [None, 0, "text", [], [1], {"": 1}]


@pytest.mark.parametrize("junk", _JUNK)
@pytest.mark.parametrize(
    "path",
    [
        (),
        ("readiness",),
        ("readiness", "checks"),
        ("readiness", "checks", "state_db"),
        ("readiness", "checks", "background_queues"),
        ("readiness", "checks", "background_queues", "active_api_runs"),
        ("platforms",),
        ("platforms", "telegram"),
        ("active_agents",),
        ("data",),
        ("jobs",),
    ],
)
def test_an_agent_whose_api_answers_nonsense_is_judged_and_breaks_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], junk: object
) -> None:
    body = junk
    for name in reversed(path):
        body = {name: body}
    if isinstance(body, dict):
        body = {"status": "ok", **body}
    monkeypatch.setattr(systemd, "account", lambda _: Access(0o600))
    monkeypatch.setattr(systemd, "systemctl", lambda *_: _UNIT)
    monkeypatch.setattr(systemd, "ask", lambda *_, **__: Answer(200, body))
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(systemd, "monotonic", lambda: next(clock))
    monkeypatch.setattr(systemd, "sleep", lambda _: None)
    assert observe.health(machine).exit_code == 8
    assert not all(check.ok for check in readiness.ask_all(systemd, 1, "k", unit="u", takes_turns=True))
    assert readiness.remove_left_sessions(systemd, 1, "k") == 0
    assert (drain.work(machine) is not None) == isinstance(body, dict)


def test_nobodys_machine_is_said_to_be_so(machine: Machine) -> None:
    machine.layout.identity.unlink()
    health = observe.health(machine)
    assert (health.exit_code, health.checks[0].name) == (4, "instance")
