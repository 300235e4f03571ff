"""Preview of a stack's run: its changes and the inputs that they follow from; also saved and signed. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hermesops.agents.cells.stack.state import machines_in
from hermesops.errors import Hint, RefusedError
from hermesops.model.access.signed_file import SignedContent, SignedFile, why_outdated
from hermesops.model.fleet.cell import PLATFORM, CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, ChangeKind, Preview

DESTRUCTIVE = frozenset({ChangeKind.DELETE, ChangeKind.REPLACE})

_TIMES = frozenset({"created", "modified", "sourcePosition", "stackTrace"})
"""Properties that Pulumi writes beside a resource, and that do not describe it."""


@dataclass(frozen=True)
class ChangePreview:
    """A cell before a run.

    Attributes:
        ordered: The machines that the rows order.
        in_state: The machines in the state.
        machines_to_delete: Machines that recorded operations delete.
        rows: Digest of the rows.
        state: Digest of the state.
        drift: Changes that a refresh would write; empty if they were not requested.
        resized: Machines that recorded operations resize.
    """

    cell: CellName
    preview: Preview
    ordered: CellSpec
    in_state: tuple[CellMachine, ...]
    machines_to_delete: frozenset[MachineName]
    rows: str
    state: str
    drift: tuple[Change, ...] = ()
    resized: frozenset[MachineName] = frozenset()


def change_preview_of(
    ordered: CellSpec,
    machines_to_delete: frozenset[MachineName],
    state: Mapping[str, Any],
    preview: Preview,
    drift: tuple[Change, ...] = (),
    *,
    resized: frozenset[MachineName] = frozenset(),
) -> ChangePreview:
    """Build the change preview of a cell from its rows, state and preview. Pure."""
    rows = {"spec": asdict(ordered), "doomed": sorted(machines_to_delete)}
    digests = _digest(rows), _digest(_lasting(state))
    return ChangePreview(ordered.name, preview, ordered, _held(state), machines_to_delete, *digests, drift, resized)


def _held(state: Mapping[str, Any]) -> tuple[CellMachine, ...]:
    return tuple(
        CellMachine(name, str(i.get("server_type", "")), str(i.get("region", "")), i.get("image_id"), None)
        for name, i in ((name, resource.get("inputs", {})) for name, resource in machines_in(state).items())
    )


def _lasting(state: Mapping[str, Any]) -> object:
    """Drop the parts of a state that each run rewrites: times, and the ciphertext of secrets."""
    resources = state.get("deployment", {}).get("resources", [])
    pending = state.get("deployment", {}).get("pending_operations", [])
    lasting = ({key: value for key, value in resource.items() if key not in _TIMES} for resource in resources)
    return [_without_ciphertext(list(lasting)), [operation.get("type") for operation in pending]]


def _without_ciphertext(value: object) -> object:
    match value:
        case dict():
            return {key: _without_ciphertext(item) for key, item in value.items() if key != "ciphertext"}
        case list():
            return [_without_ciphertext(item) for item in value]
        case _:
            return value


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


@dataclass(frozen=True)
class SavedPreview(SignedContent):
    """A preview of one stack that an operator saved and signed: applied exactly as signed, or not at all.

    It has digests of all that it was made from. Applying it makes the preview again and compares.

    Attributes:
        cell: Name of the cell, or ``platform``.
        rows: Digest of the ordered stack: of a cell's rows, or of the platform's program with its settings.
        state: Digest of the state.
        world: Result of a refresh, by resource.
        versions: Of hermesops and the engine.
        changes: Without those that change nothing.
        cost: Cost of the environment's machines afterwards, in words, for the signer; empty where unknown.
        made_at: UTC.
    """

    environment: str
    cell: CellName
    rows: str
    state: str
    world: tuple[Change, ...]
    versions: Mapping[str, str]
    changes: tuple[Change, ...]
    cost: str
    made_at: datetime

    @property
    def named(self) -> frozenset[MachineName]:
        """The machines that it would destroy; signing it allows that."""
        return frozenset(MachineName(change.name) for change in self.changes if change.kind in DESTRUCTIVE)


FILE = SignedFile(
    "hermesops-preview",
    SavedPreview,
    field="preview",
    title="a saved preview",
    hint=Hint(("stack", "preview", "CELL", "--save", "FILE")),
)


def saved(
    change_preview: ChangePreview, *, environment: str, versions: Mapping[str, str], cost: str, now: datetime
) -> SavedPreview:
    """The saved preview of a cell as it is now."""
    return SavedPreview(
        environment=environment,
        cell=change_preview.cell,
        rows=change_preview.rows,
        state=change_preview.state,
        world=_sorted(change_preview.drift),
        versions=versions,
        changes=_sorted(change_preview.preview.changes),
        cost=cost,
        made_at=now,
    )


def saved_platform(
    program: object,
    state: Mapping[str, Any],
    preview: Preview,
    drift: tuple[Change, ...],
    *,
    environment: str,
    versions: Mapping[str, str],
    now: datetime,
) -> SavedPreview:
    """The saved preview of the platform as it is now.

    Args:
        program: A dataclass with every input of the platform's program.
        drift: Changes that a refresh would write.
    """
    return SavedPreview(
        environment=environment,
        cell=CellName(PLATFORM),
        rows=_digest(asdict(program)),  # type: ignore[call-overload] # any dataclass; typing has no word for it
        state=_digest(_lasting(state)),
        world=_sorted(drift),
        versions=versions,
        changes=_sorted(preview.changes),
        cost="",
        made_at=now,
    )


def refuse_stale(preview: SavedPreview, *, environment: str, now: datetime, life: timedelta) -> None:
    """Refuse a preview that is not of this environment, or too old.

    Raises:
        RefusedError: It is another environment's, of the future, or too old.
    """
    again = Hint(("stack", "preview", preview.cell, "--save", "FILE"))
    if preview.environment != environment:
        raise RefusedError(f"the preview is for environment {preview.environment}; this is {environment}", hint=again)
    if outdated := why_outdated("the preview was made at", preview.made_at, now=now, life=life):
        raise RefusedError(outdated, hint=again)


def refuse_moved(signed: SavedPreview, now: SavedPreview) -> None:
    """Refuse a run that differs from the signed preview.

    Args:
        now: The preview of the present state.

    Raises:
        RefusedError: Something changed since; the message names it.
    """
    moved = [
        what
        for what, differs in (
            ("the settings" if signed.cell == PLATFORM else "the rows", signed.rows != now.rows),
            ("the state", signed.state != now.state),
            ("the changes", signed.changes != now.changes),
            ("the world", signed.world != now.world),
            *(
                (f"the version of {name}", signed.versions.get(name) != version)
                for name, version in now.versions.items()
            ),
        )
        if differs
    ]
    if moved:
        raise RefusedError(
            f"{signed.cell} has changed since the preview was signed: {', '.join(moved)}",
            hint=Hint(("stack", "preview", signed.cell, "--save", "FILE"), ", review it, and use it"),
        )


def _sorted(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes without the kind "same", in an order that does not depend on their arrival."""
    real = (change for change in changes if change.kind is not ChangeKind.SAME)
    return tuple(
        replace(change, properties=tuple(sorted(change.properties)))
        for change in sorted(real, key=lambda change: (change.urn, change.kind))
    )
