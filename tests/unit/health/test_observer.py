"""What nodes are asked, and that whoever gives no answer is not taken for well."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from hermesops.channel import AnswerLostError, Completed, MachineUnreachableError
from hermesops.errors import UnavailableError
from hermesops.health.observer import Observer, Question
from hermesops.model.ids import InstanceId
from hermesops.node.protocol import PROGRAM
from tests.support.probes import WELL

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


def observer(nodes: dict[InstanceId, Node]) -> Observer:
    async def channel_to(whose: InstanceId) -> Node:
        if whose not in nodes:
            raise UnavailableError("it has no machine")
        return nodes[whose]

    return Observer(channel_to, lambda: NOW)  # type: ignore[arg-type]


def well() -> Completed:
    return WELL


async def test_the_node_is_asked_for_what_is_wanted_and_told_our_own_time() -> None:
    ada, bob = Node(well()), Node(well())
    asked = {ADA: Question(), BOB: Question(since=NOW, turn_s=30)}
    read = await observer({ADA: ada, BOB: bob}).look(asked)
    assert [reading and reading.at for reading in read.values()] == [NOW, NOW]
    assert ada.ran == [(f"{PROGRAM} probe", 20)]
    assert bob.ran == [(f"{PROGRAM} probe --since {NOW.timestamp():.3f} --turn 30", 50)]


@pytest.mark.parametrize(
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
    read = await observer({ADA: Node(says), BOB: Node(well())}).look({ADA: Question(), BOB: Question()})
    assert read[ADA] is None
    assert read[BOB] is not None


async def test_who_has_no_machine_gives_no_answer() -> None:
    assert await observer({}).look({ADA: Question()}) == {ADA: None}
