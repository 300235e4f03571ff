"""What became of several cells: one table, one JSON, one exit code."""

from collections import Counter
from typing import TYPE_CHECKING

from hermesops.cli.console import complain, failure_data, say, table
from hermesops.cli.views import shapes
from hermesops.errors import CHANGES_REMAIN
from hermesops.model.stack import Change, ChangeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.cells.bulk import CellRun
    from hermesops.cells.changes.guard import Cost


def report(kind: str, runs: "Sequence[CellRun]", *, remaining: bool = False, cost: "Cost | None" = None) -> int:
    """Print every change of every cell, and say what failed.

    Args:
        kind: Name of the JSON shape.
        runs: The end of each cell.
        remaining: Whether changes are to be told by the exit code.
        cost: What everything costs before and after.

    Returns:
        The exit code: the failure's, else 7 where changes are to be told, else 0.

    Raises:
        HermesError: It is about one cell, and that failed.
    """
    from hermesops.cells.bulk import failure_of

    failure = failure_of(runs)
    if failure and len(runs) == 1:
        raise failure
    changes = [{"cell": run.cell, **shapes.change(one)} for run in runs for one in _changed(run)]
    cells = [_cell(run) for run in runs]
    columns = ("cell", "kind", "type", "name", "properties")
    beside: dict[str, object] = {"cells": cells}
    if cost:
        beside["cost"] = {"before": shapes.bill(cost.before), "after": shapes.bill(cost.after)}
        say(f"now {cost.before}; then {cost.after}" if cost.before != cost.after else f"costs {cost.after}")
    table(kind, "changes", columns, changes, _none(runs), beside=beside)
    if failure:
        complain(failure)
        return failure.exit_code
    return CHANGES_REMAIN if changes and remaining else 0


def _changed(run: "CellRun") -> list[Change]:
    return [one for one in run.changes if one.kind is not ChangeKind.SAME]


def _cell(run: "CellRun") -> dict[str, object]:
    counts = Counter(change.kind.value for change in _changed(run))
    return {
        "cell": run.cell,
        "ended": "failed" if run.error else "left" if run.operation_id else "done",
        "counts": dict(sorted(counts.items())),
        "operation_id": run.operation_id or None,
        "error": failure_data(run.error) if run.error else None,
    }


def _none(runs: "Sequence[CellRun]") -> str:
    return "\n".join(f"{run.cell}: {_end(run)}" for run in runs if not run.error)


def _end(run: "CellRun") -> str:
    return f"left to the workers: operation {run.operation_id}" if run.operation_id else "no changes"
