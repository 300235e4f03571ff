"""Shapes of cells: their machines, the changes of their stacks, and runs over several of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hermesops.model.plan import Plan
from hermesops.model.stack import Change, ChangeKind
from hermesops.views import operations, stacks
from hermesops.views.agents import costs
from hermesops.views.failures import failure
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.agents.cells.bulk import CellRun
    from hermesops.agents.cells.cost.bill import Cost
    from hermesops.agents.cells.status import CellView
    from hermesops.agents.pool.previews import PoolPreview
    from hermesops.model.fleet.cell import Cell
    from hermesops.model.fleet.overview import Ordered
    from hermesops.model.fleet.unassigned_machine import UnassignedMachine
    from hermesops.store.operations.outcomes import Outcome


def cell(row: "Cell", *, size: int) -> dict[str, object]:
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
        "operations": [operations.operation(operation) for operation in view.operations],
        "pending_changes": None if pending is None else _counts(pending),
        "instances": [_instance(machine) for machine in view.machines],
        "unassigned": [unassigned(machine) for machine in view.unassigned],
    }


def drained(outcome: "Outcome") -> dict[str, object]:
    """The drained pool of a cell."""
    return {
        "cell": outcome.subject,
        "operation_id": outcome.operation.id if outcome.operation else None,
        "outcome": outcome.done,
    }


def drain_preview(preview: "PoolPreview") -> dict[str, object]:
    """The machines that a drain of warm pools destroys, and the monthly cost of the pools before and after."""
    return {"machines": [unassigned(machine) for machine in preview.machines], "cost": costs.change(preview.cost)}


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


def changes(cell_runs: "Sequence[CellRun]") -> list[dict[str, object]]:
    """The changes of every cell, each with its cell; unchanged resources are left out."""
    return [{"cell": run.cell, **change} for run in cell_runs for change in stacks.changes(run.changes)]


def up_preview(cell_runs: "Sequence[CellRun]", cost: "Cost", approved: str) -> dict[str, object]:
    """Runs of cells' stacks that were not made.

    Args:
        approved: Time, signer and approver of the saved preview that would be run; empty for none.
    """
    return {"changes": changes(cell_runs), **runs(cell_runs, cost), "approved": approved or None}


def runs(cell_runs: "Sequence[CellRun]", cost: "Cost | None") -> dict[str, object]:
    """The end of each cell's run, and the cost of all cells before and after, where it is known."""
    beside: dict[str, object] = {"cells": [_run(run) for run in cell_runs]}
    if cost:
        beside["cost"] = costs.change(cost)
    return beside


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
        "error": failure(run.error) if run.error else None,
    }
