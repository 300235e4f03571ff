"""Machines are changed under a lease, also those whose hermes-node is of before leases."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from hermesops.channel import Completed
from hermesops.lifecycle.node_commands import admit, change
from hermesops.model.operation import Lease, LeaseLostError
from hermesops.node.protocol import PROGRAM

LEASE = Lease("instance/i-1", "host:7:ab", 3, 17, datetime(2026, 1, 1, tzinfo=UTC))
WITH = "--lease 3.17,instance/i-1,host:7:ab"
DONE = Completed(0, b"{}", b"")
OUTRANKED = Completed(9, b"{}", b"hermes-node: the lease 3.17 was taken over: worker:9:cd was here with 3.18\n")
OLD = Completed(2, b"", b"usage: hermes-node\nhermes-node: error: unrecognized arguments: " + WITH.encode() + b"\n")


@dataclass
class Node:
    """A channel to a machine that gives prepared answers."""

    answers: list[Completed]
    asked: list[str] = field(default_factory=list)

    async def run(self, command: str, **_options: object) -> Completed:
        self.asked.append(command)
        return self.answers.pop(0)


async def test_a_change_says_under_which_lease() -> None:
    node = Node([DONE])
    assert await change(node, "configure", LEASE, timeout_s=1) == DONE
    assert node.asked == [f"{PROGRAM} configure {WITH}"]


async def test_a_node_of_before_leases_is_asked_without() -> None:
    node = Node([OLD, DONE])
    assert await change(node, "configure", LEASE, timeout_s=1) == DONE
    assert node.asked == [f"{PROGRAM} configure {WITH}", f"{PROGRAM} configure"]


async def test_a_misuse_of_another_kind_is_not_repeated() -> None:
    misuse = Completed(2, b"", b"hermes-node: payload: lacks identity\n")
    node = Node([misuse, DONE])
    assert await change(node, "personalise x", LEASE, timeout_s=1) == misuse
    assert node.asked == [f"{PROGRAM} personalise x {WITH}"]


async def test_who_was_outranked_is_told_by_whom() -> None:
    with pytest.raises(LeaseLostError, match="worker:9:cd was here"):
        await change(Node([OUTRANKED]), "configure", LEASE, timeout_s=1)
    with pytest.raises(LeaseLostError, match="worker:9:cd was here"):
        await admit(Node([OUTRANKED]), LEASE)


@pytest.mark.parametrize("code", [0, 2, 126, 127])
async def test_a_machine_without_leases_is_changed_all_the_same(code: int) -> None:
    node = Node([Completed(code, b"", b"")])
    await admit(node, LEASE)
    assert node.asked == [f"{PROGRAM} admit {WITH}"]


async def test_without_a_lease_nothing_is_shown() -> None:
    await admit(Node([]), None)
    node = Node([DONE])
    await change(node, "configure", None, timeout_s=1)
    assert node.asked == [f"{PROGRAM} configure"]
