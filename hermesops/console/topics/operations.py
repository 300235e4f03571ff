"""Recent operations, and each with its steps and audit entries."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
        "has_ended": row.status.has_ended,
    }
