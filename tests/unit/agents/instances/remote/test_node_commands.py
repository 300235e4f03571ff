"""Machines are changed under a lease, and not at all where nobody says that it counts there."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.remote.node_commands import admit, change
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.operation import Lease, LeaseLostError
from hermesops.vendor.channel import Completed
from hermesops.wire.protocol import PROGRAM
from tests.support.suite.cases import each_case

LEASE = Lease("instance/i-1", "host:7:ab", 3, 17, datetime(2026, 1, 1, tzinfo=UTC))
WITH = "--lease 3.17,instance/i-1,host:7:ab"
DONE = Completed(0, b"{}", b"")
OUTRANKED = Completed(9, b"{}", b"hermes-node: the lease 3.17 was taken over: worker:9:cd holds 3.18\n")


@dataclass
class Node:
    """A channel to a machine that gives prepared answers."""

    answers: list[Completed]
    asked: list[str] = field(default_factory=list)
    machine_id: str = "m1"

    async def run(self, command: str, **_options: object) -> Completed:
        self.asked.append(command)
        return self.answers.pop(0)


def node_with(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - what the code asks of a channel is less than one
    return Node(*args, **options)


async def test_a_change_says_under_which_lease() -> None:
    node = node_with([DONE])
    assert await change(node, "configure", LEASE, timeout_s=1) == DONE
    assert node.asked == [f"{PROGRAM} configure {WITH}"]


@pytest.mark.parametrize(
    "message", [b"unrecognized arguments: " + WITH.encode(), b"the agent says: unrecognized arguments: --lease"]
)
async def test_no_word_of_a_machine_has_it_changed_without(message: str) -> None:
    misuse = Completed(2, b"", f"hermes-node: error: {message}\n".encode())
    node = node_with([misuse, DONE])
    assert await change(node, "configure", LEASE, timeout_s=1) == misuse
    assert node.asked == [f"{PROGRAM} configure {WITH}"]


async def test_a_misuse_of_another_kind_is_not_repeated() -> None:
    misuse = Completed(2, b"", b"hermes-node: payload: lacks identity\n")
    node = node_with([misuse, DONE])
    assert await change(node, "personalise x", LEASE, timeout_s=1) == misuse
    assert node.asked == [f"{PROGRAM} personalise x {WITH}"]


async def test_who_was_outranked_is_told_by_whom() -> None:
    with pytest.raises(LeaseLostError, match="worker:9:cd holds"):
        await change(node_with([OUTRANKED]), "configure", LEASE, timeout_s=1)
    with pytest.raises(LeaseLostError, match="worker:9:cd holds"):
        await admit(node_with([OUTRANKED]), LEASE)


@each_case(
    ("code", "error"),
    [(2, RefusedError), (3, RefusedError), (4, UnavailableError), (126, UnavailableError), (127, UnavailableError)],
)
async def test_a_machine_that_does_not_admit_a_lease_is_not_changed(code: int, error: type[HermesError]) -> None:
    node = node_with([Completed(code, b"", b"hermes-node: this machine is instance/i-2's")])
    with pytest.raises(error, match="admit: this machine is instance/i-2's"):
        await admit(node, LEASE)


async def test_a_machine_that_admits_a_lease_may_be_changed() -> None:
    node = node_with([DONE])
    await admit(node, LEASE)
    assert node.asked == [f"{PROGRAM} admit {WITH}"]


async def test_without_a_lease_nothing_is_shown() -> None:
    await admit(node_with([]), None)
    node = node_with([DONE])
    await change(node, "configure", None, timeout_s=1)
    assert node.asked == [f"{PROGRAM} configure"]
