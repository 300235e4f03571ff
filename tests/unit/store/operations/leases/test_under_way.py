"""Whoever finds something being worked on reads by whom, on what and since when; repeating helps, and follows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.errors import RefusedError
from hermesops.model.ids import OperationId
from hermesops.model.operation import LeaseHeldError, Operation, OperationKind, OperationStatus, OperationStep
from hermesops.store.operations.leases.under_way import held_by, in_words
from hermesops.store.operations.runner import Operations
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part

AT = datetime(2026, 1, 2, 4, 46, tzinfo=UTC)
HOLDER = "vm:25827:36deb0a6.261894.add78717"
SUBJECT = f"instance/{ADA.id}"
BACKUP = Operation(
    OperationId("o1"), OperationKind.BACKUP, SUBJECT, ADA.id, {}, OperationStatus.RUNNING, "backing up", "", AT, AT
)
SUSPEND = replace(BACKUP, id=OperationId("o2"), kind=OperationKind.SUSPEND)


def words(holders: dict[str, str], subject: str = SUBJECT) -> str:
    """The refusal, where each unfinished operation had a step of that holder; empty for one without a step."""
    rows = [replace(operation, subject=subject) for operation in (BACKUP, SUSPEND) if operation.id in holders]

    def steps(operation_id: str) -> list[OperationStep]:
        return [OperationStep(AT, "s", holders[operation_id], "")] if holders[operation_id] else []

    registry: Any = part(
        operations=part(unfinished=lambda: rows, steps=steps), instances=part(get=lambda _id: replace(ADA))
    )
    return held_by(registry, LeaseHeldError("held", holder=HOLDER), subject).message


def test_the_refusal_names_the_operation_of_the_process_that_holds_the_lease() -> None:
    who = f"{ADA.title} is being worked on by process 25827 on vm"
    of_backup, of_suspend = (f"{who}: {what} since 2026-01-02 04:46 UTC" for what in ("backup", "suspend"))
    cases = {
        "of two the holder's": ({"o1": "another", "o2": HOLDER}, of_suspend),
        "one that was opened just now": ({"o1": ""}, of_backup),
        "none of the holder's": ({"o1": "another"}, who),
        "none at all": ({}, who),
    }
    for name, (holders, expected) in cases.items():
        assert words(holders) == expected, name
    assert words({"o1": HOLDER}, "pool/cell1").startswith(
        "pool/cell1 is being worked on by process 25827 on vm: backup"
    )
    assert in_words("ada", None, "") == "ada is being worked on by another process"


def test_repeating_helps_where_another_process_works_on_it() -> None:
    assert (LeaseHeldError("held").exit_code, RefusedError("no").exit_code) == (4, 3)


async def test_a_followed_operation_tells_once_who_has_it_and_then_each_of_its_steps() -> None:
    ends = replace(BACKUP, status=OperationStatus.DONE, outcome="made", step="counting")
    rows = iter([BACKUP, BACKUP, replace(BACKUP, step="counting"), ends])
    reports: list[str] = []
    registry: Any = part(operations=part(get=lambda _id: next(rows)))

    class Elsewhere(Operations):
        async def run(self, operation: Operation, **_: object) -> str:
            raise LeaseHeldError(f"{operation.id} is being worked on")

    operations = Elsewhere(registry, {}, reports.append)
    assert await operations.resume(BACKUP, wait_s=60) == "made"
    assert reports == ["follows: o1 is being worked on", "backing up", "counting"]
    rows = iter([BACKUP])
    with pytest.raises(LeaseHeldError, match="o1 is being worked on"):
        await operations.resume(BACKUP)
