"""Everything a guard looks at before a cell is changed: what would change, in what, and by which rows. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hermesops.cells.stack.state import machines_in
from hermesops.model.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, Preview

_TIMES = frozenset({"created", "modified", "sourcePosition", "stackTrace"})
"""What Pulumi writes beside a resource and what says nothing of the world."""


@dataclass(frozen=True)
class ChangePreview:
    """A cell just before a run.

    Attributes:
        preview: What the run would change.
        wanted: What the rows say.
        held: What the state holds.
        machines_to_delete: Machines that recorded operations want gone.
        rows: Digest of what the rows say.
        state: Digest of what the state says.
        drift: What a refresh would write, where that was asked.
        resized: Machines that recorded operations give another size.
    """

    cell: CellName
    preview: Preview
    wanted: CellSpec
    held: tuple[CellMachine, ...]
    machines_to_delete: frozenset[MachineName]
    rows: str
    state: str
    drift: tuple[Change, ...] = ()
    resized: frozenset[MachineName] = frozenset()


def change_preview_of(
    wanted: CellSpec,
    machines_to_delete: frozenset[MachineName],
    state: Mapping[str, Any],
    preview: Preview,
    drift: tuple[Change, ...] = (),
    *,
    resized: frozenset[MachineName] = frozenset(),
) -> ChangePreview:
    """Put together what was read of a cell."""
    rows = {"spec": asdict(wanted), "doomed": sorted(machines_to_delete)}
    digests = _digest(rows), _digest(_lasting(state))
    return ChangePreview(wanted.name, preview, wanted, _held(state), machines_to_delete, *digests, drift, resized)


def _held(state: Mapping[str, Any]) -> tuple[CellMachine, ...]:
    return tuple(
        CellMachine(name, str(i.get("server_type", "")), str(i.get("region", "")), i.get("image_id"), None)
        for name, i in ((name, resource.get("inputs", {})) for name, resource in machines_in(state).items())
    )


def _lasting(state: Mapping[str, Any]) -> object:
    """The state without what every run writes anew: times, and secrets, whose ciphertext never is the same twice."""
    resources = state.get("deployment", {}).get("resources", [])
    pending = state.get("deployment", {}).get("pending_operations", [])
    kept = ({key: value for key, value in resource.items() if key not in _TIMES} for resource in resources)
    return [_without_ciphertext(list(kept)), [operation.get("type") for operation in pending]]


def _without_ciphertext(value: object) -> object:
    match value:
        case dict():
            return {key: _without_ciphertext(one) for key, one in value.items() if key != "ciphertext"}
        case list():
            return [_without_ciphertext(one) for one in value]
        case _:
            return value


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()
