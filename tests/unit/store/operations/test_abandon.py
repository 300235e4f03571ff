"""Giving an operation up closes its row and says what stays behind; one that somebody is at is not given up."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.model.ids import OperationId
from hermesops.model.operation import Lease, LeaseHeldError, Operation, OperationKind, OperationStatus
from hermesops.store.operations.kinds.table import abandon_note
from hermesops.store.operations.runner import abandon
from tests.support.fakes.registry import FakeRegistry
from tests.support.suite.cases import each_case

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = Operation(
    id=OperationId("op"),
    kind=OperationKind.PROVISION,
    subject="instance/1",
    instance_id=None,
    intent={"user": "ada", "plan": "heavy"},
    status=OperationStatus.RUNNING,
    step="waiting for the gateway",
    outcome="",
    created_at=NOW,
    updated_at=NOW,
)


class Rows(FakeRegistry):
    def __init__(self, holder: str = "") -> None:
        self.holder = holder
        self.ends: list[tuple[OperationStatus, str, bool]] = []

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        if self.holder not in {"", over}:
            raise LeaseHeldError(f"{subject} is being worked on by {self.holder}")
        return Lease(subject, holder, 1, 1, NOW + timedelta(seconds=15))

    def leases_renew(self, held: Sequence[Lease]) -> Collection[str]:  # noqa: ARG002 - all are still held
        return ()

    def leases_release(self, lease: Lease) -> None:
        assert lease.subject == ROW.subject

    def operations_finish(
        self, operation_id: OperationId, status: OperationStatus, outcome: str, *, lease: Lease | None = None
    ) -> None:
        assert operation_id == ROW.id
        self.ends.append((status, outcome, lease is not None))


async def test_it_is_closed_with_its_reason_under_its_lease() -> None:
    rows = Rows()
    left = await abandon(ROW, rows, reason=" the user left ")
    assert rows.ends == [(OperationStatus.ABANDONED, "abandoned: the user left", True)]
    assert "stays provisioning" in left.what
    assert str(left.next).startswith("hermesops provision ada --plan heavy")


async def test_it_wants_a_reason() -> None:
    rows = Rows()
    with pytest.raises(UsageError, match="missing: state why"):
        await abandon(ROW, rows, reason="  ")
    assert rows.ends == []


async def test_what_somebody_is_at_is_not_given_up() -> None:
    rows = Rows("worker:9:cd")
    with pytest.raises(LeaseHeldError, match="worker:9:cd"):
        await abandon(ROW, rows, reason="x")
    assert rows.ends == []


@pytest.mark.parametrize("status", [OperationStatus.DONE, OperationStatus.FAILED, OperationStatus.ABANDONED])
async def test_what_has_ended_is_not_given_up(status: OperationStatus) -> None:
    with pytest.raises(RefusedError, match="has ended"):
        await abandon(replace(ROW, status=status), Rows(), reason="x")


@each_case("kind", OperationKind)
def test_every_kind_says_what_it_leaves_and_what_to_do(kind: OperationKind) -> None:
    left = abandon_note(replace(ROW, kind=kind))
    assert left.what
    assert "hermesops " in str(left.next)
