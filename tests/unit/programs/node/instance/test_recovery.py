"""A gateway that systemd has given up is started again with growing pauses, and only where nobody wants it down."""

import json
from pathlib import Path

import pytest

from hermesops.programs.node.instance import volume
from hermesops.programs.node.instance.recovery import MOST, WINDOW_S, attempts, pause_s, recover
from hermesops.wire.errors import NotReadyError
from tests.support.fakes.machines.node_home import NodeHome, make
from tests.support.fakes.machines.node_system import FakeSystem

_GIVEN_UP = {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "1", "UnitFileState": "enabled"}


class GivenUp(FakeSystem):
    """systemd with a gateway that stays failed.

    Attributes:
        unit: What it shows of it.
        starts: When it was started.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unit = dict(_GIVEN_UP)
        self.starts: list[float] = []

    def control(self, *words: str) -> str:
        if words[0] == "start":
            self.starts.append(self.now_s)
        return "".join(f"{name}={value}\n" for name, value in self.unit.items())


@pytest.fixture
def system() -> GivenUp:
    return GivenUp()


@pytest.fixture
def machine(tmp_path: Path, system: GivenUp) -> NodeHome:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.identity.write_text("{}")
    machine.system = system
    return machine


def test_it_is_started_at_once_and_then_after_growing_pauses(machine: NodeHome, system: GivenUp) -> None:
    for _ in range(360):  # an hour of its timer
        recover(machine.node)
        system.now_s += 10
    assert system.starts == [0, 30, 90, 210, 450, 930]


def test_after_so_many_within_an_hour_it_stays_down(machine: NodeHome, system: GivenUp) -> None:
    for _ in range(3 * 360):
        recover(machine.node)
        system.now_s += 10
    hours = [sum(begin <= at < begin + WINDOW_S for at in system.starts) for begin in range(0, 3 * 3600, 600)]
    assert max(hours) == MOST
    assert len(system.starts) > MOST, "what broke it may have passed"


@pytest.mark.parametrize(
    ("unit", "why"),
    [
        ({"ActiveState": "active"}, "is active"),
        ({"ActiveState": "activating"}, "is activating"),
        ({"ActiveState": "inactive"}, "is inactive"),
        ({"ActiveState": ""}, "the gateway is"),
        ({"UnitFileState": "disabled"}, "not enabled"),
        ({"UnitFileState": "masked"}, "not enabled"),
    ],
)
def test_a_gateway_in_another_state_is_left_alone(
    machine: NodeHome, system: GivenUp, unit: dict[str, str], why: str
) -> None:
    system.unit |= unit
    answer = recover(machine.node)
    assert (answer["started"], system.starts) == (False, [])
    assert why in answer["why"]


@pytest.mark.parametrize(("name", "why"), [("fence", "fenced"), ("restoring", "state"), ("activation", "release")])
def test_what_somebody_wants_down_stays_down(machine: NodeHome, system: GivenUp, name: str, why: str) -> None:
    getattr(machine.layout, name).write_text("{}")
    answer = recover(machine.node)
    assert (answer["started"], system.starts) == (False, [])
    assert why in answer["why"]
    assert not machine.layout.recoveries.exists()


def test_a_machine_without_a_user_is_left_alone(machine: NodeHome, system: GivenUp) -> None:
    machine.layout.identity.unlink()
    assert "no instance" in recover(machine.node)["why"]
    machine.layout.warm.write_text("{}")
    assert "no instance" in recover(machine.node)["why"]
    assert not system.starts


def test_nothing_is_started_beside_another_change(machine: NodeHome, system: GivenUp) -> None:
    with machine.node.files.locked(machine.layout.lock):
        assert "another hermes-node" in recover(machine.node)["why"]
    assert not system.starts
    assert recover(machine.node)["started"] is True


def test_nothing_is_started_over_a_closed_volume(
    machine: NodeHome, system: GivenUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "is_closed", lambda _: True)
    assert "volume" in recover(machine.node)["why"]
    assert not system.starts


def test_an_attempt_is_noted_before_it_is_made(
    machine: NodeHome, system: GivenUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*words: str) -> str:
        if words[0] == "start":
            raise NotReadyError("killed here")
        return GivenUp.control(system, *words)

    monkeypatch.setattr(system, "control", failing)
    assert recover(machine.node) == {"started": False, "why": "killed here"}
    assert attempts(machine.node).total == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": 1}', '{"at": ["x"]}', '{"at": [], "total": "x"}'])
def test_a_damaged_file_counts_as_no_attempts(machine: NodeHome, text: str) -> None:
    machine.layout.recoveries.parent.mkdir(parents=True)
    machine.layout.recoveries.write_text(text)
    assert recover(machine.node)["started"] is True
    assert attempts(machine.node).total == 1
    assert json.loads(machine.layout.recoveries.read_text())["total"] == 1


def test_pauses() -> None:
    assert pause_s([], 100) == 0
    assert pause_s([100], 100) == 30
    assert pause_s([100], 131) == 0
    assert pause_s([0, 40], 50) == 50
    assert pause_s([0, 1, 2, 3, 4, 5], 3000) == 600
    assert pause_s([0, 1, 2, 3, 4, 5], 3601) == 0, "the first two are an hour ago"
