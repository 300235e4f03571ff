"""What is asked of hermes-node about releases, and what is made of its answers."""

import json
from dataclasses import dataclass, field
from typing import cast

import pytest

from hermesops.channel import Channel, Completed
from hermesops.errors import RefusedError
from hermesops.lifecycle.slots import Slots
from hermesops.model.ids import MachineId

MACHINE = MachineId("m")


@dataclass
class Node:
    """Answers each command alike."""

    exit_code: int = 0
    answer: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        del timeout_s
        self.asked.append(command.partition("hermes-node ")[2])
        return Completed(self.exit_code, json.dumps(self.answer).encode(), b"hermes-node: no")

    def slots(self) -> Slots:
        return Slots(lambda _: cast("Channel", self))


async def test_a_machine_is_left_with_the_slots_that_somebody_may_go_back_to() -> None:
    node = Node()
    await node.slots().tidy(MACHINE)
    assert node.asked == ["release gc --keep 3"]


async def test_a_machine_that_does_not_tidy_says_why() -> None:
    with pytest.raises(RefusedError):
        await Node(exit_code=3, answer={"error": "no"}).slots().tidy(MACHINE)
