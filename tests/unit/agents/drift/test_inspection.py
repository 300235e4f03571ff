"""Machines that do not answer: progress names them, bounded and as data, and the report still comes."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermesops.agents.drift.inspection import Asked, RolesReport, inspect, waiting_line
from hermesops.model.check import Check
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, MachineId
from hermesops.vendor.channel import Channel
from tests.support.fakes.virtual_time import VirtualClock
from tests.support.fleets.in_memory import machine_for, ordered

SILENT = "hermes-node does not answer"


@dataclass(frozen=True)
class Slow:
    """Machines whose node says nothing, each after some seconds."""

    seconds: Mapping[str, float]

    def asked(self) -> Asked:
        return Asked(_no_channel, self.node, lambda _: "", _no_checks, _no_roles)

    async def node(self, machine_id: MachineId) -> None:
        await asyncio.sleep(self.seconds.get(machine_id, 0.0))  # noqa: TID251 - virtual time


def _no_channel(machine_id: MachineId) -> Channel:
    raise AssertionError(machine_id)


async def _no_checks(_: Instance) -> Sequence[Check]:
    return ()


async def _no_roles(_: Sequence[Instance]) -> Mapping[InstanceId, RolesReport]:
    return {}


def _narrated(seconds: Mapping[str, float], count: int) -> list[str]:
    lines: list[str] = []
    rows = [ordered(number) for number in range(count)]
    machines = [(row, machine_for(row, name=f"box-{row.instance.machine_id}")) for row in rows]
    snapshots = VirtualClock().run(inspect(Slow(seconds).asked(), machines, report=lines.append))
    assert {machine_snapshot.silence for machine_snapshot in snapshots.values()} <= {
        SILENT,
        "not done after 120 s, and given up",
    }
    assert len(snapshots) == count
    return lines


def test_who_is_waited_for_is_named_after_two_seconds_and_every_five_with_the_end() -> None:
    assert _narrated({"m-1": 9.0, "m-2": 3.0}, 3) == [
        "asking 3 machines",
        "waiting for 2 machines: “box-m-1”, “box-m-2” (2 of at most 120 s)",
        "waiting for 1 machine: “box-m-1” (7 of at most 120 s)",
    ]


def test_where_all_answer_at_once_nothing_is_waited_for() -> None:
    assert _narrated({}, 40) == ["asking 40 machines"]


def test_one_that_never_answers_ends_the_lines_with_its_time() -> None:
    lines = _narrated({"m-0": 1e6}, 1)
    assert lines[-1] == "waiting for 1 machine: “box-m-0” (117 of at most 120 s)"
    assert len(lines) == 1 + 24


def test_the_end_counts_those_that_wait_for_their_turn() -> None:
    lines = _narrated({f"m-{number}": 1e6 for number in range(40)}, 40)
    assert "(2 of at most 140 s)" in lines[1]
    assert "(137 of at most 140 s)" in lines[-1]


def test_a_line_is_bounded_and_names_are_data() -> None:
    line = waiting_line(["”\x1b[2Jdone", *("a" * 10_000 for _ in range(400))], waited_s=2, at_most_s=370)
    assert line.startswith('waiting for 401 machines: “"\\x1b[2Jdone”, “aaa')
    assert line.endswith(" and 396 more (2 of at most 370 s)")
    assert len(line) < 400
    assert "\x1b" not in line
