"""Draining an agent, and fencing it: decided on a machine in a folder, on a clock of its own."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.programs.node import __main__ as node
from hermesops.programs.node.instance import drain, fencing, status
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.personalise import configure, personalise
from hermesops.wire.errors import NotReadyError, OutrankedError, RefusedError
from hermesops.wire.protocol import FencingToken
from tests.support.crash.death import KilledError
from tests.support.fakes.machines.node_home import NodeHome, make


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path)
    personalise(machine.node, machine.personalised(), wait_s=5)
    assert machine.system.running
    return machine


def _marker(machine: NodeHome) -> Path:
    return machine.home / ".drain_request.json"


def test_an_agent_that_is_at_nothing_is_drained_at_once(machine: NodeHome) -> None:
    answer, drained = drain.drain(machine.node, deadline_s=30, lease=None)
    assert drained
    assert answer["busy"] == {"runs": 0, "connections": 0, "cron_due": 0}
    assert json.loads(_marker(machine).read_text()) == {"action": "drain"}


@pytest.mark.parametrize("what", ["work", "open_connections"])
def test_it_waits_for_runs_and_for_connections(machine: NodeHome, what: str) -> None:
    setattr(machine.system, what, [1, 1, 1, 0])
    answer, drained = drain.drain(machine.node, deadline_s=30, lease=None)
    assert drained
    assert answer["busy"]["runs"] == answer["busy"]["connections"] == 0


def test_what_is_still_under_way_at_the_deadline_is_counted_and_the_marker_stays(machine: NodeHome) -> None:
    machine.system.work, machine.system.open_connections = [2], [3]
    out, err = io.StringIO(), io.StringIO()
    words = ["--root", str(machine.layout.root), "drain", "--deadline", "10"]
    assert node.run(words, lambda _: machine.node, out, err) == 7
    answer = json.loads(out.getvalue())
    assert (answer["drained"], answer["busy"]["runs"], answer["busy"]["connections"]) == (False, 2, 3)
    assert _marker(machine).exists()
    assert drain.undrain(machine.node, lease=None) == {"drained": False}
    assert not _marker(machine).exists()


def test_a_job_that_is_due_may_begin_before_the_door_closes(machine: NodeHome) -> None:
    due = datetime.fromtimestamp(machine.system.now() - 1, UTC).isoformat()
    machine.system.jobs = [{"id": "j", "enabled": True, "next_run_at": due}]
    flags: list[bool] = []
    real = machine.system.sleep

    def slept(seconds: float) -> None:
        flags.append(_marker(machine).exists())
        if len(flags) == 3:
            machine.system.jobs = []
        real(seconds)

    machine.system.sleep = slept  # type: ignore[method-assign]
    assert drain.drain(machine.node, deadline_s=300, lease=None)[1]
    assert flags[:3] == [False, False, False]
    assert flags[3]


@pytest.mark.parametrize(("deadline_s", "at_most_s"), [(20, 11), (1000, 76)])
def test_a_job_that_stays_due_leaves_time_to_finish_what_is_under_way(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch, deadline_s: float, at_most_s: float
) -> None:
    due = datetime.fromtimestamp(machine.system.now() - 1, UTC).isoformat()
    machine.system.jobs = [{"id": "j", "enabled": True, "next_run_at": due}]
    real, closed = machine.system.sleep, []

    def slept(seconds: float) -> None:
        if _marker(machine).exists():
            closed.append(machine.system.now_s)
        real(seconds)

    monkeypatch.setattr(machine.system, "sleep", slept)
    drain.drain(machine.node, deadline_s=deadline_s, lease=None)
    assert 0 < closed[0] <= at_most_s


def test_a_job_that_stays_due_does_not_hold_a_drain_for_ever(machine: NodeHome) -> None:
    due = datetime.fromtimestamp(machine.system.now() - 1, UTC).isoformat()
    machine.system.jobs = [{"id": "j", "enabled": True, "next_run_at": due}, {"next_run_at": None}, {"enabled": False}]
    answer, drained = drain.drain(machine.node, deadline_s=30, lease=None)
    assert drained
    assert answer["busy"]["cron_due"] == 1


def test_a_look_says_what_the_agent_is_at_and_changes_nothing(machine: NodeHome) -> None:
    machine.system.work, machine.system.open_connections = [2], [3]
    assert status.status(machine.node)["busy"] == {"runs": 2, "connections": 3}
    assert not _marker(machine).exists()
    assert machine.system.running


def test_nothing_is_known_of_a_gateway_that_is_down_or_says_nothing(machine: NodeHome) -> None:
    machine.layout.payload.unlink()
    assert status.status(machine.node)["busy"] is None
    machine.system.running = False
    assert status.status(machine.node)["busy"] is None


def test_a_gateway_that_is_only_starting_is_drained_once_it_answers(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.system.fixed_answer = Answer(0, "Connection refused")
    real, begun = machine.system.sleep, machine.system.now_s

    def slept(seconds: float) -> None:
        real(seconds)
        if machine.system.now_s > begun + 5:
            machine.system.fixed_answer = None

    monkeypatch.setattr(machine.system, "sleep", slept)
    answer, drained = drain.drain(machine.node, deadline_s=30, lease=None)
    assert drained
    assert 5 < answer["seconds"] < 10


def test_a_gateway_that_never_says_what_it_is_at_is_not_taken_for_idle(machine: NodeHome) -> None:
    machine.system.fixed_answer, begun = Answer(0, "Connection refused"), machine.system.now_s
    with pytest.raises(NotReadyError, match="does not report its work"):
        drain.drain(machine.node, deadline_s=30, lease=None)
    assert machine.system.now_s >= begun + 30
    assert _marker(machine).exists()


def test_a_stopped_gateway_is_drained(machine: NodeHome) -> None:
    machine.system.running = False
    assert drain.drain(machine.node, deadline_s=30, lease=None)[1]
    assert not _marker(machine).exists()


def test_a_marker_planted_as_a_link_is_replaced(machine: NodeHome) -> None:
    outside = machine.layout.root / "precious"
    outside.write_text("mine")
    _marker(machine).symlink_to(outside)
    assert drain.drain(machine.node, deadline_s=30, lease=None)[1]
    assert outside.read_text() == "mine"
    drain.undrain(machine.node, lease=None)
    assert outside.read_text() == "mine"


def test_a_fence_stops_the_gateway_once_and_stays(machine: NodeHome) -> None:
    assert fencing.fence(machine.node, lease=None) == {"fenced": True}
    assert fencing.fence(machine.node, lease=None) == {"fenced": True}
    assert machine.system.stopped == 1
    assert not machine.system.running
    assert configure(machine.node, wait_s=5).gateway == "fenced"
    assert not machine.system.running


def test_a_fence_is_written_before_the_gateway_is_stopped(machine: NodeHome) -> None:
    machine.system.killed_at = "stop"
    with pytest.raises(KilledError):
        fencing.fence(machine.node, lease=None)
    assert fencing.is_fenced(machine.node)


@pytest.mark.parametrize(
    ("instance", "epoch", "named"),
    [("i-1", 1, "is fenced"), ("i-1", 0, "epoch 0 is older than this machine's 1"), ("i-2", 9, "is fenced")],
)
def test_a_fenced_machine_is_personalised_by_nobody_else(
    machine: NodeHome, instance: str, epoch: int, named: str
) -> None:
    fencing.fence(machine.node, lease=None)
    with pytest.raises(RefusedError, match=named):
        personalise(
            machine.node, machine.personalised(epoch=epoch, instance=instance), wait_s=5, replace_instance="i-1"
        )
    assert fencing.is_fenced(machine.node)
    assert not machine.system.running


def test_an_instance_that_comes_back_with_a_higher_epoch_lifts_the_fence(machine: NodeHome) -> None:
    fencing.fence(machine.node, lease=None)
    personalise(machine.node, machine.personalised(epoch=2), wait_s=5)
    assert not fencing.is_fenced(machine.node)
    assert machine.system.running


def test_a_lifting_that_was_killed_is_repeated(machine: NodeHome) -> None:
    """The identity is written before the fence goes: the epoch that counts is the one at the time of fencing."""
    fencing.fence(machine.node, lease=None)
    kept = machine.layout.fence.read_bytes()
    personalise(machine.node, machine.personalised(epoch=2), wait_s=0)
    machine.layout.fence.write_bytes(kept)
    personalise(machine.node, machine.personalised(epoch=2), wait_s=5)
    assert machine.system.running


def test_who_was_outranked_neither_drains_nor_fences_nor_lifts(machine: NodeHome) -> None:
    newer, older = FencingToken("instance/i-1", 1, 2, "b:2:b"), FencingToken("instance/i-1", 1, 1, "a:1:a")
    fencing.unfence(machine.node, lease=newer)
    for work in (
        lambda: drain.drain(machine.node, deadline_s=1, lease=older),
        lambda: drain.undrain(machine.node, lease=older),
        lambda: fencing.fence(machine.node, lease=older),
        lambda: fencing.unfence(machine.node, lease=older),
    ):
        with pytest.raises(OutrankedError, match=r"the lease 1\.1 was taken over"):
            work()
    assert machine.system.running
