"""A gateway whose memory has grown is restarted while the agent is idle, and never otherwise."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.programs.node.instance import drain
from hermesops.programs.node.instance.relief import PAUSE_S, UPTIME_S, Figures, relieve, why_not
from hermesops.wire.errors import NotReadyError
from tests.support.fakes.machines.node_home import NodeHome, make
from tests.support.fakes.machines.node_system import FakeSystem

GROWN = Figures(memory=1600 << 20, limit=2048 << 20, uptime_s=7200.0, work=0, rested_s=None)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"rested_s": PAUSE_S}, ""),
        ({"uptime_s": UPTIME_S}, ""),
        ({"memory": 1536 << 20}, ""),
        ({"memory": (1536 << 20) - 1}, "of its limit"),
        ({"memory": None}, "not known"),
        ({"limit": None}, "not known"),
        ({"limit": 0}, "not known"),
        ({"uptime_s": UPTIME_S - 1}, "not run for an hour"),
        ({"uptime_s": None}, "not run for an hour"),
        ({"rested_s": PAUSE_S - 1}, "less than 6 h ago"),
        ({"work": 1}, "is working"),
        ({"work": None}, "does not report"),
    ],
)
def test_it_is_decided_by_figures_and_an_unknown_one_is_a_reason_to_wait(
    changed: dict[str, float | None], why: str
) -> None:
    reason = why_not(replace(GROWN, **changed))  # type: ignore[arg-type]  # as given
    assert (why in reason) == bool(reason) or reason == why
    assert bool(reason) == bool(why)


class Grown(FakeSystem):
    """systemd with a gateway that has grown."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 10_000.0
        self.unit = {
            "ActiveState": "active",
            "MemoryMax": str(2 << 30),
            "MemoryCurrent": str(1800 << 20),
            "ActiveEnterTimestampMonotonic": "1000000",
        }
        self.restarts: list[float] = []

    def control(self, *words: str) -> str:
        if words[0] == "restart":
            assert words == ("restart", "--no-block", "hermes-gateway.service")
            self.restarts.append(self.now_s)
        assert words[0] in {"restart", "show"}
        return "".join(f"{name}={value}\n" for name, value in self.unit.items())


@pytest.fixture
def system() -> Grown:
    return Grown()


@pytest.fixture
def machine(tmp_path: Path, system: Grown, monkeypatch: pytest.MonkeyPatch) -> NodeHome:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.identity.write_text("{}")
    machine.system = system
    monkeypatch.setattr(drain, "work", lambda _: {"runs": 0, "connections": 0})
    return machine


def test_an_idle_one_is_restarted_once_in_six_hours(machine: NodeHome, system: Grown) -> None:
    for _ in range(100):  # a day of its timer
        relieve(machine.node)
        system.now_s += 900
    assert system.restarts == [10_000, 31_600, 53_200, 74_800, 96_400]


@pytest.mark.parametrize("work", [{"runs": 1, "connections": 0}, {"runs": 0, "connections": 1}, None])
def test_a_turn_a_visitor_or_silence_keeps_it(
    machine: NodeHome, system: Grown, work: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "work", lambda _: work)
    assert relieve(machine.node)["restarted"] is False
    assert not system.restarts


@pytest.mark.parametrize("name", ["fence", "restoring", "activation"])
def test_nothing_is_restarted_while_something_else_is_done_to_the_machine(
    machine: NodeHome, system: Grown, name: str
) -> None:
    getattr(machine.layout, name).write_text("{}")
    assert relieve(machine.node)["restarted"] is False
    getattr(machine.layout, name).unlink()
    with machine.node.files.locked(machine.layout.lock):
        assert "another hermes-node" in relieve(machine.node)["why"]
    assert not system.restarts


@pytest.mark.parametrize("state", ["failed", "inactive", "activating", "deactivating", ""])
def test_one_that_does_not_run_is_left_to_others(machine: NodeHome, system: Grown, state: str) -> None:
    system.unit["ActiveState"] = state
    assert "the gateway is" in relieve(machine.node)["why"]
    assert not system.restarts


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": "x"}', '{"at": null}'])
def test_a_damaged_file_counts_as_no_restart(machine: NodeHome, system: Grown, text: str) -> None:
    machine.layout.relief.parent.mkdir(parents=True)
    machine.layout.relief.write_text(text)
    assert relieve(machine.node)["restarted"] is True
    assert relieve(machine.node)["restarted"] is False
    assert len(system.restarts) == 1


def test_it_is_noted_before_it_is_done(machine: NodeHome, system: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*words: str) -> str:
        if words[0] == "restart":
            raise NotReadyError("killed here")
        return Grown.control(system, *words)

    monkeypatch.setattr(system, "control", failing)
    assert relieve(machine.node)["why"] == "killed here"
    monkeypatch.undo()
    monkeypatch.setattr(drain, "work", lambda _: {"runs": 0, "connections": 0})
    assert "less than 6 h ago" in relieve(machine.node)["why"]
