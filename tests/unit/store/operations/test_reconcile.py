"""The loop records, holds its lease, and stops when somebody else has it."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.ids import OperationId
from hermesops.model.operation import (
    Done,
    Lease,
    LeaseHeldError,
    LeaseLostError,
    Operation,
    OperationKind,
    OperationStatus,
    Refused,
)
from hermesops.store.operations.leases import keeper as lease_module
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.reconcile import MOST_REPEATS, StoppedError, drive
from tests.support.fakes.registry import FakeRegistry

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


class Rows(FakeRegistry):
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.problem = ""
        self.end: tuple[OperationStatus, str] | None = None

    def operations_record_step(self, operation_id: OperationId, step: str, *, lease: Lease | None = None) -> None:
        assert operation_id == OPERATION.id
        assert lease
        self.steps.append(step)

    def operations_record_problem(self, operation_id: OperationId, problem: str, *, lease: Lease | None = None) -> None:
        assert operation_id == OPERATION.id
        assert lease
        self.problem = problem

    def operations_finish(
        self, operation_id: OperationId, status: OperationStatus, outcome: str, *, lease: Lease | None = None
    ) -> None:
        assert operation_id == OPERATION.id
        assert lease
        self.end = (status, outcome)


class Leases(FakeRegistry):
    def __init__(self, *, holder: str = "", lost: bool = False) -> None:
        self.holder = holder
        self.lost = lost
        self.released = 0

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        if self.holder not in {"", over}:
            raise LeaseHeldError(f"{subject} is held by {self.holder}", holder=self.holder)
        self.holder = holder
        return Lease(subject, holder, 1, 1, NOW + timedelta(seconds=15))

    def leases_renew(self, held: Sequence[Lease]) -> Collection[str]:
        return [lease.subject for lease in held] if self.lost else ()

    def leases_release(self, lease: Lease) -> None:
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

    def decide(self, count: int) -> str | Done | Refused:
        return "count" if count else Done("counted")

    def describe(self, step: str, count: int) -> str:
        return f"{step} {count}"

    async def do(self, step: str, count: int) -> None:
        assert (step, count) == ("count", self.left)
        if self.error:
            raise self.error
        self.left -= 1


def made(work: Countdown) -> Callable[[Operation, Lease], Countdown]:
    return lambda _operation, _lease: work


async def test_steps_are_recorded_before_they_are_done_and_the_outcome_after() -> None:
    rows, leases, reports = Rows(), Leases(), list[str]()
    assert await drive(OPERATION, made(Countdown(2)), rows, leases, reports.append) == "counted"
    assert rows.steps == reports == ["count 2", "count 1"]
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
    with pytest.raises(UnavailableError, match="no answer"):
        await drive(OPERATION, made(Countdown(1, UnavailableError("no answer"))), rows, leases, lambda _: None)
    assert rows.steps == ["count 1"], "recorded before it was done"
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
    with pytest.raises(StoppedError, match="stopped between two steps of operation op"):
        await drive(OPERATION, made(work), rows, leases, lambda _: None, lambda: work.left == 2)
    assert rows.steps == ["count 3"]
    assert (rows.end, rows.problem, leases.released) == (None, "", 1)


async def test_a_refusal_closes_the_row_with_its_reason() -> None:
    rows = Rows()
    with pytest.raises(RefusedError, match="would destroy a machine"):
        await drive(
            OPERATION, made(Countdown(1, RefusedError("would destroy a machine"))), rows, Leases(), lambda _: None
        )
    assert rows.end == (OperationStatus.FAILED, "would destroy a machine")


class Stubborn(Countdown):
    """Work whose step changes nothing."""

    async def do(self, step: str, count: int) -> None:
        assert (step, count) == ("count", self.left)


async def test_a_step_that_changes_nothing_is_not_done_for_ever() -> None:
    rows = Rows()
    with pytest.raises(UnavailableError, match="times without effect"):
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
        self.loop = asyncio.get_running_loop()

    def leases_renew(self, held: Sequence[Lease]) -> Collection[str]:  # noqa: ARG002 - it says nothing of any
        self.silences -= 1
        if self.silences >= 0:
            raise UnavailableError("the registry does not answer")
        self.loop.call_soon_threadsafe(self.heard.set)
        return ()


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


class Many(Leases, FakeRegistry):
    """Leases of many subjects; counts how often they are renewed, and of how many at once."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[set[str]] = []

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        assert not over
        return Lease(subject, holder, 1, 1, NOW + timedelta(seconds=15))

    def leases_renew(self, held: Sequence[Lease]) -> Collection[str]:
        self.renewed.append({lease.subject for lease in held})
        return {"instance/3"}

    def leases_release(self, lease: Lease) -> None:
        assert lease.subject != "instance/3"
        self.released += 1


async def test_all_leases_of_a_process_are_renewed_at_once_and_only_the_lost_one_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    leases, subjects = Many(), {f"instance/{number}" for number in range(10)}
    async with AsyncExitStack() as stack:
        keepers = {s: await stack.enter_async_context(LeaseKeeper(leases, s)) for s in subjects}
        await keepers["instance/3"]._held.lost.wait()
        assert leases.renewed[0] == subjects
        others = [keeper.guard(_twice(leases)) for subject, keeper in keepers.items() if subject != "instance/3"]
        await asyncio.gather(*others)
        assert leases.renewed[-1] == subjects - {"instance/3"}
    assert leases.released == 9


async def test_what_is_let_go_is_renewed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    leases = Many()
    async with LeaseKeeper(leases, "instance/1"):
        async with LeaseKeeper(leases, "instance/2"):
            await _twice(leases)
        before = len(leases.renewed)
        await _twice(leases)
    assert all(renewed == {"instance/1"} for renewed in leases.renewed[before + 1 :])


async def _twice(leases: Many) -> None:
    """Return after two more renewals."""
    until = len(leases.renewed) + 2
    while len(leases.renewed) < until:  # noqa: ASYNC110 - the registry's thread tells nobody
        await asyncio.sleep(0.001)  # noqa: TID251 - as above


async def _forever() -> None:
    await asyncio.Event().wait()
