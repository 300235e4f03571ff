"""Shapes of what ``hermesops cell`` prints; the rules of ``render`` hold here too."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermesops.cli.views import shapes
from hermesops.model.cell import Cell
from hermesops.model.plan import Plan
from hermesops.model.stack import Change, ChangeKind

if TYPE_CHECKING:
    from hermesops.cells.status import CellView
    from hermesops.model.fleet import Ordered
    from hermesops.model.spare import Spare


def cell(row: Cell, *, size: int) -> dict[str, object]:
    """A cell as everybody sees it; ``room`` is how many more machines it takes."""
    return {
        "cell": row.name,
        "region": row.region,
        "plans": [row.only_plan.value] if row.only_plan else [plan.value for plan in Plan],
        "machines": row.machines,
        "room": max(0, size - row.machines),
        "created_at": shapes.moment(row.created_at),
        "last_up": shapes.moment(row.brought_at),
    }


def show(seen: "CellView", *, size: int, pending: Sequence[Change] | None) -> dict[str, Any]:
    """A cell with its machines and who works on it; ``pending_changes`` is null when nobody looked."""
    return {
        **cell(seen.cell, size=size),
        "by_status": dict(sorted(Counter(one.instance.status.value for one in seen.machines).items())),
        "worked_on_by": seen.holder or None,
        "operations": [shapes.operation(one) for one in seen.operations],
        "pending_changes": _counts(pending),
        "instances": [_instance(one) for one in seen.machines],
        "spares": [spare(one) for one in seen.spares],
    }


def lines(shown: Mapping[str, Any]) -> list[str]:
    """A cell as a person reads it."""
    pending = shown["pending_changes"]
    said = {
        **{key: shown[key] for key in ("cell", "region")},
        "plans": ", ".join(shown["plans"]),
        "machines": f"{shown['machines']}, room for {shown['room']} more",
        "status": ", ".join(f"{count} {status}" for status, count in shown["by_status"].items()),
        "last_up": shown["last_up"] or "never",
        "worked_on_by": shown["worked_on_by"] or "nobody",
        "pending_changes": "not looked at (--preview)" if pending is None else _words(pending),
    }
    asked = [f"  {one['status']} operation {one['id']}: {one['step'] or 'not begun'}" for one in shown["operations"]]
    machines = [
        f"  {one['machine_name']}  {one['user']}  {one['plan']}  {one['server_type']}  {one['status']}"
        + ("" if one["wanted"] else "  to be destroyed")
        for one in shown["instances"]
    ]
    spares = [
        f"  {one['machine_name']}  ({one['purpose']})  {one['plan']}  {one['server_type']}  {one['status']}"
        for one in shown["spares"]
    ]
    return [*shapes.fields(said), *asked, *machines, *spares]


def spare(one: "Spare") -> dict[str, object]:
    """A machine beside those of instances; what a user's state is or was on names its instance."""
    return {
        "machine_name": one.name,
        "machine_id": one.machine_id,
        "cell": one.cell,
        "purpose": one.purpose.value,
        "status": one.status.value,
        "instance_id": one.instance_id,
        "plan": one.plan.value,
        "server_type": one.server_type,
        "image_id": one.image_id,
        "wanted": one.wanted,
        "ready_at": shapes.moment(one.ready_at),
    }


def _counts(pending: Sequence[Change] | None) -> dict[str, int] | None:
    if pending is None:
        return None
    counts = Counter(change.kind.value for change in pending if change.kind is not ChangeKind.SAME)
    return dict(sorted(counts.items()))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"


def _instance(one: "Ordered") -> dict[str, object]:
    row = one.instance
    return {
        "machine_name": row.machine_name,
        "machine_id": row.machine_id,
        "user": row.title,
        "plan": row.plan.value,
        "server_type": one.server_type,
        "status": row.status.value,
        "wanted": one.wanted,
    }
