"""Runs of runbooks in this process."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermesops.console.actions.runbooks import run_of

if TYPE_CHECKING:
    from hermesops.app.container import Container


def run(_container: "Container", run_id: str) -> Mapping[str, Any]:
    """A run with its lines so far; ``result`` is null while it runs.

    Raises:
        UsageError: This process has none of that id.
    """
    current = run_of(run_id)
    return {
        "title": current.title,
        "user": current.instance.title if current.instance else None,
        "instance_id": current.instance.id if current.instance else None,
        "lines": list(current.lines),
        "result": current.result,
    }
