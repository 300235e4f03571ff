"""Recent operations, and each with its steps and audit entries."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermesops.console.actions import offers
from hermesops.console.actions.bulk import MOST
from hermesops.errors import UsageError
from hermesops.model.operation import OperationStatus
from hermesops.views import operations as shapes

if TYPE_CHECKING:
    from hermesops.app.container import Container

_LISTED = 200
"""Operations in the list of ended and running ones."""


def listed(container: "Container", _name: str) -> Mapping[str, Any]:
    """Recent operations, the newest first."""
    rows = container.operation_directory.recent(_LISTED)
    return {"operations": [{**shapes.operation(row), "about": shapes.whose(row)} for row in rows]}


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
        name: Ids of operations, then ``?`` and ids of instances that were refused, each with commas.

    Raises:
        UsageError: There is no operation of an id, or there are too many.
    """
    operations, _, refused = name.partition("?")
    ids = [text for text in operations.split(",") if text]
    if len(ids) > MOST:
        raise UsageError(f"a bulk action has {MOST} operations at most")
    rows = [container.operation_directory.get(operation_id) for operation_id in ids]
    return {
        "operations": [{**shapes.operation(row), "about": shapes.whose(row)} for row in rows],
        "failed": [row.instance_id for row in rows if row.status.has_ended and row.status is not OperationStatus.DONE],
        "refused": [text for text in refused.split(",") if text][:MOST],
    }
