"""The loop records, holds its lease, and stops when somebody else has it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.ids import OperationId
from hermesops.model.operation import (
    Finished,
    Impossible,
    Lease,
    LeaseHeldError,
    LeaseLostError,
    Operation,
    OperationKind,
    OperationStatus,
)
from hermesops.operation import lease as lease_module
from hermesops.operation.lease import LeaseKeeper
from hermesops.operation.loop import MOST_REPEATS, StoppedError, drive

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPERATION = Operation(
    id=OperationId("op"),
    kind=OperationKind.PROVISION,
    subject="instance/1",
    instance_id=None,
    intent={},
    status=OperationStatus.PENDING,
    step="",
    outcome="",
    created_at=NOW,
    updated_at=NOW,
)


class Rows:
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.problem = ""
        self.end: tuple[OperationStatus, str] | None = None

    def record_step(self, operation_id: OperationId, step: str, *, lease: Lease | None = None) -> None:
        assert operation_id == OPERATION.id
        assert lease
        self.steps.append(step)

    def record_problem(self, operation_id: OperationId, problem: str, *, lease: Lease | None = None) -> None:
        assert operation_id == OPERATION.id
        assert lease
        self.problem = problem

    def finish_operation(
        self, operation_id: OperationId, status: OperationStatus, outcome: str, *, lease: Lease | None = None
    ) -> None:
        assert operation_id == OPERATION.id
        assert lease
        self.end = (status, outcome)


class Leases:
    def __init__(self, *, holder: str = "", lost: bool = False) -> None:
        self.holder = holder
        self.lost = lost
        self.released = 0

    def take_lease(self, subject: str, holder: str) -> Lease:
        if self.holder:
            raise LeaseHeldError(f"{subject} is held by {self.holder}")
        self.holder = holder
        return Lease(subject, holder, 1, 1, NOW + timedelta(seconds=15))

    def renew_lease(self, lease: Lease) -> Lease:
        if self.lost:
            raise LeaseLostError("taken over")
        return lease

    def release_lease(self, lease: Lease) -> None:
        assert lease.holder == self.holder
        self.holder = ""
        self.released += 1


class Countdown:
    """Work that needs some steps."""

    def __init__(self, steps: int, error: Exception | None = None) -> None:
        self.left = steps
        self.error = error

    async def observe(self) -> int:
        return self.left

    def decide(self, seen: int) -> str | Finished | Impossible:
        return "count" if seen else Finished("counted")

    def describe(self, step: str, seen: int) -> str:
        return f"{step} {seen}"

    async def do(self, step: str, seen: int) -> None:
        assert (step, seen) == ("count", self.left)
        if self.error:
            raise self.error
        self.left -= 1


def made(work: Countdown) -> Callable[[Operation, Lease], Countdown]:
    return lambda _operation, _lease: work


async def test_steps_are_recorded_before_they_are_done_and_the_outcome_after() -> None:
    rows, leases, told = Rows(), Leases(), list[str]()
    assert await drive(OPERATION, made(Countdown(2)), rows, leases, told.append) == "counted"
    assert rows.steps == told == ["count 2", "count 1"]
    assert rows.end == (OperationStatus.DONE, "counted")
    assert leases.released == 1


async def test_a_second_runner_is_refused_by_name_and_touches_nothing() -> None:
    rows = Rows()
    with pytest.raises(RefusedError, match="host:7"):
        await drive(OPERATION, made(Countdown(2)), rows, Leases(holder="host:7"), lambda _: None)
    assert rows.steps == []
    assert rows.end is None


async def test_a_step_without_an_answer_leaves_the_row_open() -> None:
    rows, leases = Rows(), Leases()
    with pytest.raises(UnavailableError):
        await drive(OPERATION, made(Countdown(1, UnavailableError("no answer"))), rows, leases, lambda _: None)
    assert rows.end is None
    assert rows.problem == "no answer"
    assert leases.released == 1


async def test_who_lost_the_lease_closes_nothing() -> None:
    rows = Rows()
    with pytest.raises(UnavailableError, match="somebody took it"):
        await drive(OPERATION, made(Countdown(1, LeaseLostError("somebody took it"))), rows, Leases(), lambda _: None)
    assert rows.end is None
    assert rows.problem == ""


async def test_a_runner_that_is_told_to_stop_finishes_its_step_and_no_other() -> None:
    rows, leases, work = Rows(), Leases(), Countdown(3)
    with pytest.raises(StoppedError):
        await drive(OPERATION, made(work), rows, leases, lambda _: None, lambda: work.left == 2)
    assert rows.steps == ["count 3"]
    assert (rows.end, rows.problem, leases.released) == (None, "", 1)


async def test_a_refusal_closes_the_row_with_its_reason() -> None:
    rows = Rows()
    with pytest.raises(RefusedError):
        await drive(
            OPERATION, made(Countdown(1, RefusedError("would destroy a machine"))), rows, Leases(), lambda _: None
        )
    assert rows.end == (OperationStatus.FAILED, "would destroy a machine")


class Stubborn(Countdown):
    """Work whose step changes nothing."""

    async def do(self, step: str, seen: int) -> None:
        assert (step, seen) == ("count", self.left)


async def test_a_step_that_changes_nothing_is_not_done_for_ever() -> None:
    rows = Rows()
    with pytest.raises(UnavailableError, match="nothing has changed"):
        await drive(OPERATION, made(Stubborn(1)), rows, Leases(), lambda _: None)
    assert rows.steps == ["count 1"] * MOST_REPEATS
    assert rows.end is None


async def test_many_different_steps_are_fine() -> None:
    assert await drive(OPERATION, made(Countdown(100)), Rows(), Leases(), lambda _: None) == "counted"


async def test_a_lost_lease_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    leases = Leases(lost=True)
    async with LeaseKeeper(leases, "instance/1") as keeper:
        with pytest.raises(UnavailableError, match="lost the lease"):
            await keeper.guard(_forever())
    assert leases.released == 0


class Silent(Leases):
    """Leases that do not answer for some renewals."""

    def __init__(self, silences: int) -> None:
        super().__init__()
        self.silences = silences
        self.heard = asyncio.Event()

    def renew_lease(self, lease: Lease) -> Lease:
        self.silences -= 1
        if self.silences >= 0:
            raise UnavailableError("the registry does not answer")
        self.heard.set()
        return lease


async def test_a_registry_that_is_silent_for_less_than_a_lease_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    monkeypatch.setattr(lease_module, "RETRY_S", 0.01)
    leases = Silent(3)
    async with LeaseKeeper(leases, "instance/1") as keeper:
        assert await keeper.guard(leases.heard.wait())
    assert leases.released == 1


async def test_a_registry_that_is_silent_for_a_whole_lease_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    monkeypatch.setattr(lease_module, "RETRY_S", 0.01)
    monkeypatch.setattr(lease_module, "LEASE_S", 0.05)
    async with LeaseKeeper(Silent(10**9), "instance/1") as keeper:
        with pytest.raises(UnavailableError, match="lost the lease"):
            await keeper.guard(_forever())


async def _forever() -> None:
    await asyncio.Event().wait()
