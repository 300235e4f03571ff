"""A worker brings what it is given to its end, and says what it could not."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.ids import OperationId
from hermesops.model.operation import (
    Done,
    Lease,
    LeaseHeldError,
    Operation,
    OperationKind,
    OperationStatus,
)
from hermesops.store.operations.dispatch import Task
from hermesops.store.operations.leases.holder import this_process
from hermesops.store.operations.queue import DbosQueue
from hermesops.store.operations.runner import Operations
from hermesops.store.operations.worker import Worker
from tests.support.fakes.registry import FakeRegistry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(name: str) -> Operation:
    return Operation(
        OperationId(name),
        OperationKind.RESTART,
        f"instance/{name}",
        None,
        {},
        OperationStatus.RUNNING,
        "",
        "",
        NOW,
        NOW,
    )


class Registry(FakeRegistry):
    """Rows and leases in memory."""

    def __init__(self, *names: str) -> None:
        self.open = {OperationId(name): row(name) for name in names}
        self.ended: dict[OperationId, OperationStatus] = {}
        self.held: dict[str, Lease] = {}

    def operations_get(self, operation_id: str) -> Operation:
        return self.open[OperationId(operation_id)]

    def operations_unfinished(self) -> tuple[Operation, ...]:
        return tuple(self.open.values())

    def leases_list(self) -> tuple[Lease, ...]:
        return tuple(self.held.values())

    def now(self) -> datetime:
        return NOW + timedelta(hours=1)

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        if subject in self.held and self.held[subject].holder != over:
            holder = self.held[subject].holder
            raise LeaseHeldError(f"{subject} is being worked on by {holder}", holder=holder)
        self.held[subject] = Lease(subject, holder, 1, 1, NOW)
        return self.held[subject]

    def leases_renew(self, held: Sequence[Lease]) -> Collection[str]:  # noqa: ARG002 - all are still held
        return ()

    def leases_release(self, lease: Lease) -> None:
        self.held.pop(lease.subject)

    def operations_record_step(self, operation_id: OperationId, step: str, *, lease: Lease | None = None) -> None:
        """Steps are not looked at here."""

    def operations_record_problem(self, operation_id: OperationId, problem: str, *, lease: Lease | None = None) -> None:
        """Nor are problems."""

    def operations_finish(
        self, operation_id: OperationId, status: OperationStatus, outcome: str, *, lease: Lease | None = None
    ) -> None:
        assert lease
        assert outcome
        del self.open[operation_id]
        self.ended[operation_id] = status


class Queue(DbosQueue):
    """Takes each turn at once."""

    def __init__(self, registry: Registry, turn: Callable[[OperationId], Awaitable[bool]]) -> None:
        self.registry = registry
        self.turn = turn
        self.again: list[OperationId] = []
        self.events: list[str] = []
        self.held: list[Task] = []
        self.revived: list[str] = []

    async def open(self) -> None:
        self.events.append("open")

    async def close(self) -> None:
        self.events.append("close")

    async def tasks(self) -> list[Task]:
        return self.held

    async def enqueue(self, operation_id: OperationId) -> None:
        if await self.turn(operation_id):
            self.again.append(operation_id)

    async def revive(self, task_ids: Sequence[str]) -> None:
        self.revived += task_ids
        self.held = []

    async def prune(self) -> None:
        self.events.append("prune")


class Ends:
    """Work that ends at once, with an error or well."""

    def __init__(self, error: HermesError | None) -> None:
        self.error = error

    async def observe(self) -> None:
        """There is nothing to see."""

    def decide(self, _seen: None) -> Done:
        if self.error:
            raise self.error
        return Done("done")

    def describe(self, step: None, observation: None) -> str:
        raise AssertionError((step, observation))

    async def do(self, step: None, observation: None) -> None:
        raise AssertionError((step, observation))


def worker_over(registry: Registry, errors: dict[str, HermesError]) -> tuple[Worker, list[Queue]]:
    queues: list[Queue] = []

    def make_queue(turn: Callable[[OperationId], Awaitable[bool]]) -> Queue:
        queues.append(Queue(registry, turn))
        return queues[0]

    operations = Operations(
        registry, {OperationKind.RESTART: lambda row, _lease: Ends(errors.get(row.id))}, lambda _: None
    )
    return Worker("w1", registry, operations, make_queue, grace_s=1), queues


async def test_it_ends_when_everything_has_ended_or_been_tried() -> None:
    registry = Registry("well", "impossible", "silent", "taken")
    worker, queues = worker_over(
        registry, {"impossible": RefusedError("never"), "silent": UnavailableError("no answer")}
    )
    original = registry.leases_take

    def take_lease(subject: str, holder: str, *, over: str = "") -> Lease:
        if subject == "instance/taken":
            raise LeaseHeldError("somebody is at it")
        return original(subject, holder, over=over)

    registry.leases_take = take_lease  # type: ignore[method-assign]
    tally = await asyncio.wait_for(worker.run(once=True), 20)
    assert (tally.done, tally.failed) == (1, 1)
    assert tally.left == {"silent": "no answer", "taken": "somebody is at it"}
    assert registry.ended == {"well": OperationStatus.DONE, "impossible": OperationStatus.FAILED}
    assert queues[0].events == ["open", "prune", "close"]
    assert registry.held == {}


async def test_what_got_no_answer_is_tried_again_later() -> None:
    registry = Registry("silent")
    worker, queues = worker_over(registry, {"silent": UnavailableError("no answer")})
    running = asyncio.create_task(worker.run())
    while not queues[0].again:
        assert not running.done()
        await asyncio.wait({running}, timeout=0.01)
    worker.stop()
    tally = await asyncio.wait_for(running, 20)
    assert queues[0].again[0] == "silent"
    assert tally.left == {}


async def test_after_it_was_told_to_stop_no_turn_begins() -> None:
    registry = Registry("well")
    worker, queues = worker_over(registry, {})
    worker.stop()
    await asyncio.wait_for(worker.run(), 20)
    assert await queues[0].turn(OperationId("well")) is False
    assert registry.ended == {}


async def test_a_task_of_ours_that_nobody_runs_is_not_ours_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.store.operations.worker._TICK_S", 0.01)
    registry = Registry("well")
    worker, queues = worker_over(registry, {})
    queues[0].held = [Task("well:1", OperationId("well"), "w1")]
    tally = await asyncio.wait_for(worker.run(once=True), 20)
    assert queues[0].revived == ["well:1"]
    assert tally.done == 1


def gone() -> str:
    """A process of this computer that has ended."""
    host, pid, where = this_process().split(":")
    place, start, part = where.split(".")
    return f"{host}:{pid}:{place}.{int(start) + 1}.{part}"


async def test_the_task_of_a_worker_that_is_seen_to_be_gone_is_given_away_at_once() -> None:
    registry = Registry("well")
    worker, queues = worker_over(registry, {})
    registry.held["instance/well"] = Lease("instance/well", gone(), 1, 1, NOW)
    queues[0].held = [Task("well:1", OperationId("well"), gone())]
    await worker._tick()
    assert queues[0].revived == ["well:1"]


@pytest.mark.parametrize(("was_leased", "looks"), [(True, 3), (False, 7)])
async def test_the_task_of_a_worker_elsewhere_is_given_away_once_nobody_leases_its_operation(
    was_leased: bool,  # noqa: FBT001 - a parameter of pytest
    looks: int,
) -> None:
    registry = Registry("well")
    worker, queues = worker_over(registry, {})
    queues[0].held = [Task("well:1", OperationId("well"), "elsewhere")]
    if was_leased:
        registry.held["instance/well"] = Lease("instance/well", "elsewhere", 1, 1, NOW)
        for _ in range(10):
            await worker._tick()
        del registry.held["instance/well"]
    for _ in range(looks - 1):
        await worker._tick()
    assert queues[0].revived == []
    await worker._tick()
    assert queues[0].revived == ["well:1"]


async def test_an_operation_whose_command_is_seen_to_be_gone_is_continued_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermesops.store.operations.leases.keeper.SETTLE_S", 0.0)
    registry = Registry("well")
    worker, _ = worker_over(registry, {})
    registry.held["instance/well"] = Lease("instance/well", gone(), 1, 1, NOW)
    await worker._tick()
    assert registry.ended == {"well": OperationStatus.DONE}
