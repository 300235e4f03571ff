"""What nodes are asked, and that whoever gives no answer is not taken for well."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from hermesops.agents.health.samples.sample import Question
from hermesops.agents.health.samples.sampler import Sampler
from hermesops.base.waiting import pause
from hermesops.errors import UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.vendor.channel import AnswerLostError, Completed, MachineUnreachableError
from hermesops.wire.protocol import PROGRAM
from tests.support.fakes.machines.probes import WELL
from tests.support.suite.cases import each_case

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
ADA, BOB = InstanceId("ada"), InstanceId("bob")


@dataclass
class Node:
    """A channel to a machine whose hermes-node says one thing, or nothing."""

    says: Completed | Exception
    ran: list[tuple[str, float]] = field(default_factory=list)

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        self.ran.append((command, timeout_s))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@dataclass
class Slow(Node):
    """One that answers when it is told to."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        completed = await super().run(command, timeout_s=timeout_s)
        await self.answers.wait()
        return completed


def sampler(nodes: Mapping[InstanceId, Node]) -> Sampler:
    async def open_channel(whose: InstanceId) -> Node:
        if whose not in nodes:
            raise UnavailableError("it has no machine")
        return nodes[whose]

    return Sampler(open_channel, lambda: NOW)  # type: ignore[arg-type]


def well() -> Completed:
    return WELL


async def test_the_node_is_asked_for_what_is_wanted_and_told_our_own_time() -> None:
    ada, bob = Node(well()), Node(well())
    request = {ADA: Question(), BOB: Question(since=NOW, turn_s=30)}
    read = await sampler({ADA: ada, BOB: bob}).sample(request)
    assert [reading and reading.at for reading in read.values()] == [NOW, NOW]
    assert ada.ran == [(f"{PROGRAM} probe", 20)]
    assert bob.ran == [(f"{PROGRAM} probe --since {NOW.timestamp():.3f} --turn 30", 50)]


@each_case(
    "says",
    [
        Completed(4, b"", b"hermes-node: this machine belongs to nobody yet"),
        Completed(2, b"", b"invalid choice: 'probe'"),
        Completed(0, b"<html>", b""),
        MachineUnreachableError("no route"),
        AnswerLostError("lost"),
    ],
)
async def test_no_answer_is_no_reading(says: Completed | Exception) -> None:
    read = await sampler({ADA: Node(says), BOB: Node(well())}).sample({ADA: Question(), BOB: Question()})
    assert read[ADA] is None
    assert read[BOB] is not None


async def test_nobody_waits_for_a_node_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.agents.health.samples.sampler._GLANCE_S", 0.05)
    ada = Slow(well())
    observing = sampler({ADA: ada, BOB: Node(well())})
    assert (await observing.sample({ADA: Question(), BOB: Question()})).keys() == {BOB}
    assert (observing.is_asking(ADA), observing.is_asking(BOB)) == (True, False)
    assert await observing.sample({ADA: Question()}) == {}
    assert len(ada.ran) == 1, "it was asked again while it was being asked"
    ada.answers.set()
    read = {}
    while ADA not in read:
        read = await observing.sample({BOB: Question()})
    assert read[ADA] is not None
    assert not observing.is_asking(ADA)


async def test_however_many_never_answer_the_others_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.agents.health.samples.sampler._GLANCE_S", 0.05)
    silent = {InstanceId(f"silent-{number}"): Slow(WELL) for number in range(200)}
    asking = sampler({**silent, ADA: Node(WELL)})
    answered = await asking.sample(dict.fromkeys([*silent, ADA], Question()))
    async with asyncio.timeout(10):
        while not answered:
            await pause(0.05)
            answered = await asking.sample({})
    await asking.stop()
    assert list(answered) == [ADA]


async def test_a_node_that_never_answers_gave_no_reading_and_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.agents.health.samples.sampler._ANSWER_S", 0.05)
    ada = Slow(well())
    observing = sampler({ADA: ada})
    assert await observing.sample({ADA: Question()}) == {ADA: None}
    assert await observing.sample({ADA: Question()}) == {ADA: None}
    assert len(ada.ran) == 2


async def test_who_stops_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.agents.health.samples.sampler._GLANCE_S", 0.05)
    observing = sampler({ADA: Slow(well())})
    await observing.sample({ADA: Question()})
    await observing.stop()
    assert not observing.is_asking(ADA)
    assert await observing.sample({}) == {}


async def test_who_has_no_machine_gives_no_answer() -> None:
    assert await sampler({}).sample({ADA: Question()}) == {ADA: None}
