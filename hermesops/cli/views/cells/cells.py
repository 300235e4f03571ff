"""Output of commands about cells and their stacks."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from hermesops.cli.console import complain, say, table, table_lines
from hermesops.cli.printing.fields import field_lines
from hermesops.errors import CHANGES_REMAIN
from hermesops.views.agents import cells as shapes

if TYPE_CHECKING:
    from hermesops.agents.cells.bulk import CellRun
    from hermesops.agents.cells.cost.bill import Cost


def lines(shown: Mapping[str, Any]) -> list[str]:
    """A cell as a person reads it."""
    pending = shown["pending_changes"]
    counted = ", ".join(f"{count} {kind}" for kind, count in (pending or {}).items()) or "none"
    fields = {
        **{key: shown[key] for key in ("cell", "region")},
        "plans": ", ".join(shown["plans"]),
        "machines": f"{shown['machines']}, room for {shown['room']} more",
        "status": ", ".join(f"{count} {status}" for status, count in shown["by_status"].items()),
        "last_up": shown["last_up"] or "never",
        "worked_on_by": shown["worked_on_by"] or "nobody",
        "pending_changes": "unknown (--preview counts them)" if pending is None else counted,
    }
    operations = [
        f"  {operation['status']} operation {operation['id']}: {operation['step'] or 'not begun'}"
        for operation in shown["operations"]
    ]
    machines = [
        {**row, "user": row.get("user") or f"({row['role']})", "then": None if row["wanted"] else "to be destroyed"}
        for row in (*shown["instances"], *shown["unassigned"])
    ]
    machines.sort(key=itemgetter("user", "machine_name"))
    columns = ["user", "machine_name", "plan", "server_type", "status"]
    columns += ["then"] if any(row["then"] for row in machines) else []
    return [*field_lines(fields), *operations, "", *table_lines(columns, machines, "no machines")]


def report(
    kind: str,
    runs: "Sequence[CellRun]",
    *,
    remaining: bool = False,
    cost: "Cost | None" = None,
    beside: Mapping[str, object] | None = None,
) -> int:
    """Print every change of every cell, each failure, and the cost of all cells before and after.

    Args:
        beside: Further fields of the JSON.

    Returns:
        The exit code: the failure's, else 7 for changes with ``remaining``, else 0.

    Raises:
        HermesError: It is about one cell, and that failed.
    """
    from hermesops.agents.cells.bulk import failure_of

    failure = failure_of(runs)
    if failure and len(runs) == 1:
        raise failure
    changes = shapes.changes(runs)
    columns = ("cell", "kind", "type", "name", "properties")
    if cost:
        say(f"now {cost.before}; then {cost.after}" if cost.before != cost.after else f"costs {cost.after}")
    unchanged = "\n".join(
        f"{run.cell}: " + (f"left to the workers: operation {run.operation_id}" if run.operation_id else "no changes")
        for run in runs
        if not run.error
    )
    table(kind, "changes", columns, changes, unchanged, beside={**shapes.runs(runs, cost), **(beside or {})})
    if failure:
        complain(failure)
        return failure.exit_code
    return CHANGES_REMAIN if changes and remaining else 0
