"""Output of commands about cells and their stacks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermesops.cli.console import complain, failure_data, say, table, table_lines
from hermesops.cli.printing.fields import field_lines
from hermesops.errors import CHANGES_REMAIN
from hermesops.model.fleet.cell import Cell
from hermesops.model.plan import Plan
from hermesops.model.stack import Change, ChangeKind
from hermesops.views import operations as operation_shapes
from hermesops.views import stacks as stack_shapes
from hermesops.views.agents import costs as cost_shapes
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.agents.cells.bulk import CellRun
    from hermesops.agents.cells.changes.guard import Cost
    from hermesops.agents.cells.status import CellView
    from hermesops.model.fleet.overview import Ordered
    from hermesops.model.fleet.unassigned_machine import UnassignedMachine
    from hermesops.store.operations.outcomes import Outcome


def cell(row: Cell, *, size: int) -> dict[str, object]:
    """A cell; ``room`` is how many more machines it takes."""
    return {
        "cell": row.name,
        "region": row.region,
        "plans": [row.only_plan.value] if row.only_plan else [plan.value for plan in Plan],
        "machines": row.machines,
        "room": max(0, size - row.machines),
        "created_at": timestamp(row.created_at),
        "last_up": timestamp(row.applied_at),
    }


def show(view: "CellView", *, size: int, pending: Sequence[Change] | None) -> dict[str, Any]:
    """The JSON object of a cell, its machines and its lease's holder; ``pending_changes`` is null without a preview."""
    return {
        **cell(view.cell, size=size),
        "by_status": dict(sorted(Counter(machine.instance.status.value for machine in view.machines).items())),
        "worked_on_by": view.holder or None,
        "operations": [operation_shapes.operation(operation) for operation in view.operations],
        "pending_changes": None if pending is None else _counts(pending),
        "instances": [_instance(machine) for machine in view.machines],
        "unassigned": [unassigned(machine) for machine in view.unassigned],
    }


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
    columns = ["user", "machine_name", "plan", "server_type", "status"]
    columns += ["then"] if any(row["then"] for row in machines) else []
    return [*field_lines(fields), *operations, "", *table_lines(columns, machines, "no machines")]


def drained(outcome: "Outcome") -> dict[str, object]:
    """The drained pool of a cell."""
    return {
        "cell": outcome.subject,
        "operation_id": outcome.operation.id if outcome.operation else None,
        "outcome": outcome.done,
    }


def unassigned(machine: "UnassignedMachine") -> dict[str, object]:
    """The JSON object of a machine without an instance; one that holds or held a user's state names its instance."""
    return {
        "machine_name": machine.name,
        "machine_id": machine.machine_id,
        "cell": machine.cell,
        "role": machine.role.value,
        "status": machine.status.value,
        "instance_id": machine.instance_id,
        "plan": machine.plan.value,
        "server_type": machine.server_type,
        "image_id": machine.image_id,
        "wanted": machine.wanted,
        "ready_at": timestamp(machine.ready_at),
    }


def report(kind: str, runs: "Sequence[CellRun]", *, remaining: bool = False, cost: "Cost | None" = None) -> int:
    """Print every change of every cell, each failure, and the cost of all cells before and after.

    Returns:
        The exit code: the failure's, else 7 for changes with ``remaining``, else 0.

    Raises:
        HermesError: It is about one cell, and that failed.
    """
    from hermesops.agents.cells.bulk import failure_of

    failure = failure_of(runs)
    if failure and len(runs) == 1:
        raise failure
    changes = [{"cell": run.cell, **stack_shapes.change(change)} for run in runs for change in _changed(run.changes)]
    columns = ("cell", "kind", "type", "name", "properties")
    beside: dict[str, object] = {"cells": [_run(run) for run in runs]}
    if cost:
        beside["cost"] = {"before": cost_shapes.bill(cost.before), "after": cost_shapes.bill(cost.after)}
        say(f"now {cost.before}; then {cost.after}" if cost.before != cost.after else f"costs {cost.after}")
    unchanged = "\n".join(
        f"{run.cell}: " + (f"left to the workers: operation {run.operation_id}" if run.operation_id else "no changes")
        for run in runs
        if not run.error
    )
    table(kind, "changes", columns, changes, unchanged, beside=beside)
    if failure:
        complain(failure)
        return failure.exit_code
    return CHANGES_REMAIN if changes and remaining else 0


def _changed(changes: Iterable[Change]) -> list[Change]:
    return [change for change in changes if change.kind is not ChangeKind.SAME]


def _counts(changes: Iterable[Change]) -> dict[str, int]:
    return dict(sorted(Counter(change.kind.value for change in _changed(changes)).items()))


def _instance(ordered: "Ordered") -> dict[str, object]:
    row = ordered.instance
    return {
        "machine_name": row.machine_name,
        "machine_id": row.machine_id,
        "user": row.title,
        "plan": row.plan.value,
        "server_type": ordered.server_type,
        "status": row.status.value,
        "wanted": ordered.wanted,
    }


def _run(run: "CellRun") -> dict[str, object]:
    return {
        "cell": run.cell,
        "ended": "failed" if run.error else "left" if run.operation_id else "done",
        "counts": _counts(run.changes),
        "operation_id": run.operation_id or None,
        "error": failure_data(run.error) if run.error else None,
    }
