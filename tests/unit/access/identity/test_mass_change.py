"""Beyond so many agents in 24 hours an end or a change of plan needs a second operator."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest

from hermesops.access.identity.mass_change import APPROVED, COUNTED, refuse_many
from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from tests.support.suite.cases import each_case

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ADA = InstanceId("ada")


def ended(
    number: int, kind: OperationKind = OperationKind.TERMINATE, intent: Mapping[str, object] = MappingProxyType({})
) -> Operation:
    return Operation(
        id=OperationId(f"o{number}"),
        kind=kind,
        subject=f"instance/{number}",
        status=OperationStatus.PENDING,
        step="",
        outcome="",
        instance_id=InstanceId(f"i{number}"),
        intent=intent,
        created_at=NOON - timedelta(hours=1),
        updated_at=NOON,
    )


def refuse(*operations: Operation) -> None:
    refuse_many(operations, ADA, NOON, limit=2, environment="production")


def test_few_may_end_and_many_may_not() -> None:
    refuse(ended(1), replace(ended(2), instance_id=ADA))
    with pytest.raises(RefusedError, match=r"2 other agents .* in production more than 2") as refused:
        refuse(ended(1), ended(2, OperationKind.RELOCATE, {COUNTED: True}))
    assert "approval request" in str(refused.value.hint)


@each_case(
    "other",
    [
        ended(1),
        ended(2, intent={APPROVED: {}}),
        ended(2, OperationKind.RELOCATE),
        replace(ended(2), status=OperationStatus.ABANDONED),
        replace(ended(2), created_at=NOON - timedelta(hours=24)),
        replace(ended(2), created_at=NOON + timedelta(seconds=1)),
    ],
)
def test_what_is_approved_undone_or_of_another_day_does_not_count(other: Operation) -> None:
    refuse(ended(1), other)
