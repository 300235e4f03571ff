"""Shapes of stacks: changes of their resources, and copies of their states."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
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
