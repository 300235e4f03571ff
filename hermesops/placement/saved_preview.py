"""A preview that somebody looked at, signed, and wants to happen: just that, or nothing. Pure.

It is bound to everything it was made from: rows, state, what runs it, and the changes themselves. Whoever applies it
makes the preview anew and compares.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from pydantic import TypeAdapter

from hermesops.errors import RefusedError, UsageError
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, ChangeKind
from hermesops.placement.guard import DESTRUCTIVE
from hermesops.placement.outlook import Outlook

NAMESPACE = "hermesops-preview"
"""Of its signature."""

KIND, VERSION = "hermesops-preview", 1


@dataclass(frozen=True)
class SavedPreview:
    """What was looked at.

    Attributes:
        rows: Digest of the cell's rows.
        state: Digest of the cell's state.
        world: What a refresh would have found, by resource.
        versions: Of what made it: hermesops, the engine.
        changes: Without those that change nothing.
        cost: What the environment would cost afterwards, in words, for who signs.
        made_at: When, UTC.
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
        """The machines it would destroy: who signed it has named them."""
        return frozenset(MachineName(change.name) for change in self.changes if change.kind in DESTRUCTIVE)

    def to_bytes(self) -> bytes:
        """What is signed; the same for the same preview."""
        fields = {**asdict(self), "made_at": self.made_at.isoformat()}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def saved(outlook: Outlook, *, environment: str, versions: Mapping[str, str], cost: str, now: datetime) -> SavedPreview:
    """What there is to sign of a cell as it is now."""
    return SavedPreview(
        environment=environment,
        cell=outlook.cell,
        rows=outlook.rows,
        state=outlook.state,
        world=_sorted(outlook.drift),
        versions=versions,
        changes=_sorted(outlook.preview.changes),
        cost=cost,
        made_at=now,
    )


def to_file(preview: SavedPreview, signature: str) -> str:
    """The file that is handed round."""
    content = json.loads(preview.to_bytes())
    return json.dumps({"kind": KIND, "version": VERSION, "preview": content, "signature": signature}, indent=2) + "\n"


def from_file(text: str) -> tuple[SavedPreview, str]:
    """A saved preview and its signature, which nobody has checked yet.

    Raises:
        UsageError: It is no such file.
    """
    try:
        envelope = json.loads(text)
        if (envelope["kind"], envelope["version"]) != (KIND, VERSION):
            raise UsageError(
                f"not a saved preview of version {VERSION}", hint="hermesops stack preview CELL --save FILE"
            )
        return TypeAdapter(SavedPreview).validate_python(envelope["preview"]), str(envelope["signature"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(
            "not a saved preview, or a damaged one", hint="hermesops stack preview CELL --save FILE"
        ) from error


def refuse_stale(preview: SavedPreview, *, environment: str, now: datetime, life: timedelta) -> None:
    """Let only a preview of this environment through that is not too old.

    Raises:
        RefusedError: It is another's, of the future, or too old.
    """
    again = f"hermesops stack preview {preview.cell} --save FILE"
    if preview.environment != environment:
        raise RefusedError(f"the preview is of environment {preview.environment}, this is {environment}", hint=again)
    age = now - preview.made_at
    if not timedelta(minutes=-5) <= age <= life:
        raise RefusedError(
            f"the preview was made at {preview.made_at:%Y-%m-%d %H:%M} UTC; "
            f"it counts for {life.total_seconds() / 3600:g} h",
            hint=again,
        )


def refuse_moved(preview: SavedPreview, outlook: Outlook, versions: Mapping[str, str]) -> None:
    """Let a run begin only if it would be the one that was looked at.

    Raises:
        RefusedError: Something moved since; the message says what.
    """
    moved = [
        what
        for what, differs in (
            ("the rows", preview.rows != outlook.rows),
            ("the state", preview.state != outlook.state),
            ("what would change", preview.changes != _sorted(outlook.preview.changes)),
            ("the world", preview.world != _sorted(outlook.drift)),
            *((f"the version of {name}", preview.versions.get(name) != version) for name, version in versions.items()),
        )
        if differs
    ]
    if moved:
        raise RefusedError(
            f"{preview.cell} is not what it was when the preview was signed: {', '.join(moved)} moved since",
            hint=f"hermesops stack preview {preview.cell} --save FILE, look at it, and use that",
        )


def _sorted(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Those that change something, in an order that does not depend on who was quicker."""
    telling = (change for change in changes if change.kind is not ChangeKind.SAME)
    return tuple(
        replace(change, properties=tuple(sorted(change.properties)))
        for change in sorted(telling, key=lambda change: (change.urn, change.kind))
    )
