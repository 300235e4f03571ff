"""Shapes of operations; the rules of ``test_instances`` hold here too."""

from datetime import UTC, datetime

from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.views import operations as operation_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_an_operation() -> None:
    row = Operation(
        id=OperationId("o"),
        kind=OperationKind.PROVISION,
        subject="instance/i",
        instance_id=InstanceId("i"),
        intent={"user": "ada"},
        status=OperationStatus.RUNNING,
        step="waiting",
        outcome="",
        created_at=AT,
        updated_at=AT,
    )
    assert operation_shapes.operation(row) == {
        "id": "o",
        "kind": "provision",
        "subject": "instance/i",
        "status": "running",
        "step": "waiting",
        "outcome": "",
        "created_at": "2026-01-02T03:04:05+00:00",
        "updated_at": "2026-01-02T03:04:05+00:00",
    }
