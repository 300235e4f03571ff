"""Shapes of stacks: changes of their resources, differences from a baseline, and copies of their states."""

from typing import TYPE_CHECKING, Any

from hermesops.model.stack import ChangeKind
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermesops.agents.cells.changes.baselines import StackDifferences
    from hermesops.infra.stacks.baseline import Baseline
    from hermesops.infra.stacks.registered import Difference
    from hermesops.model.stack import Change, StateVersion


def change(resource: "Change") -> dict[str, object]:
    """The JSON object of a change of one resource of a stack."""
    return {
        "kind": resource.kind.value,
        "type": resource.type,
        "name": resource.name,
        "id": resource.id or None,
        "urn": resource.urn,
        "properties": list(resource.properties),
    }


def changes(resources: "Iterable[Change]") -> list[dict[str, object]]:
    """The changes of a stack; unchanged resources are left out."""
    return [change(resource) for resource in resources if resource.kind is not ChangeKind.SAME]


def state_version(copy: "StateVersion") -> dict[str, object]:
    """A copy of a stack's state."""
    return {
        "version": copy.version,
        "at": timestamp(copy.at),
        "what": copy.what or None,
        "resources": copy.resources,
        "damaged": copy.resources is None,
        "current": copy.current,
        "note": "damaged" if copy.resources is None else "as now" if copy.current else None,
    }


def comparison(before: "Baseline", compared: "Sequence[StackDifferences]") -> dict[str, Any]:
    """The differences of stacks from a baseline, and the properties that cannot be known without a registry."""
    from hermesops.infra.stacks.baseline import CANNOT_KNOW

    changes = [_difference(cell.stack, change) for cell in compared for change in cell.differences]
    return {"baseline": timestamp(before.made_at), "changes": changes, "cannot_know": list(CANNOT_KNOW)}


def imported(name: str, machine_id: str, *, is_new: bool) -> dict[str, object]:
    """A machine that an operator has a stack take over; one that was in it already is not new."""
    return {"name": name, "id": machine_id, "imported": is_new}


def _difference(stack: str, change: "Difference") -> dict[str, Any]:
    return {
        "stack": stack,
        "kind": change.effect.value,
        "type": change.resource.type,
        "name": change.resource.name,
        "properties": [
            {"property": property_change.path, "before": property_change.before, "after": property_change.after}
            for property_change in change.properties
        ],
    }
