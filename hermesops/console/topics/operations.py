"""Recent operations, and each with its steps and audit entries."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermesops.console.actions import offers
from hermesops.console.actions.bulk import MOST
from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import OperationStatus
from hermesops.views import operations as shapes

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.model.operation import Operation

_LISTED = 200
"""Operations in the list of ended ones, and in that of running ones."""


def listed(container: "Container", _name: str) -> Mapping[str, Any]:
    """Operations that have not ended, however old, and recent ones that have; the newest first."""
    unfinished = container.operation_directory.list()
    ended = [row for row in container.operation_directory.recent(_LISTED) if row.status.has_ended]
    return {
        "unfinished": [_listed(row) for row in unfinished[:_LISTED]],
        "unfinished_count": len(unfinished),
        "ended": [_listed(row) for row in ended],
    }


def _listed(row: "Operation") -> Mapping[str, Any]:
    return {**shapes.operation(row), "about": shapes.whose(row)}


def shown(container: "Container", operation_id: str) -> Mapping[str, Any]:
    """One operation with its steps.

    Raises:
        UsageError: There is none of that id.
    """
    history = container.operation_directory.history(operation_id)
    row = history.operation
    return {
        **shapes.history(history),
        "about": shapes.whose(row),
        "instance_id": row.instance_id,
        "offered": offers.of_operation(history),
    }


def batch(container: "Container", name: str) -> Mapping[str, Any]:
    """The operations of a bulk action; of those that failed and were refused, the instances.

    Args:
        name: Ids of operations, then ``?`` and ids of instances that were refused, then ``?`` and ids of those of
            which nothing is known; each with commas.

    Raises:
        UsageError: There is no operation of an id, or there are too many.
    """
    ids, refused, undecided = (_texts(part) for part in (*name.split("?"), "", "")[:3])
    if len(ids) > MOST:
        raise UsageError(f"a bulk action can have at most {MOST} operations")
    rows = [container.operation_directory.get(operation_id) for operation_id in ids]
    return {
        "operations": [_listed(row) for row in rows],
        "failed": [row.instance_id for row in rows if row.status.has_ended and row.status is not OperationStatus.DONE],
        "refused": [_named(container, text) for text in refused[:MOST]],
        "undecided": [_named(container, text) for text in undecided[:MOST]],
    }


def _texts(part: str) -> Sequence[str]:
    return [text for text in part.split(",") if text]


def _named(container: "Container", instance_id: str) -> Mapping[str, str]:
    """An instance by its id and its user. Raises ``UsageError`` where there is none."""
    return {"id": instance_id, "user": container.instances.get(InstanceId(instance_id)).title}
