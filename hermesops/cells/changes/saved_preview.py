"""A preview that an operator saved and signed: it is applied as it was signed, or not at all. Pure.

It holds digests of everything it was made from: rows, state, versions, and the changes themselves. Whoever applies it
makes the preview again and compares.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hermesops.cells.changes.guard import DESTRUCTIVE
from hermesops.cells.changes.preview import ChangePreview
from hermesops.errors import RefusedError
from hermesops.model.ids import CellName, MachineName
from hermesops.model.signed_file import SignedContent, SignedFile, why_outdated
from hermesops.model.stack import Change, ChangeKind


@dataclass(frozen=True)
class SavedPreview(SignedContent):
    """A preview of one cell, with all that it was made from.

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


FILE = SignedFile(
    "hermesops-preview",
    SavedPreview,
    field="preview",
    title="a saved preview",
    hint="hermesops stack preview CELL --save FILE",
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


def refuse_stale(preview: SavedPreview, *, environment: str, now: datetime, life: timedelta) -> None:
    """Let only a preview of this environment through that is not too old.

    Raises:
        RefusedError: It is another environment's, of the future, or too old.
    """
    again = f"hermesops stack preview {preview.cell} --save FILE"
    if preview.environment != environment:
        raise RefusedError(f"the preview is of environment {preview.environment}, this is {environment}", hint=again)
    if outdated := why_outdated("the preview was made at", preview.made_at, now=now, life=life):
        raise RefusedError(outdated, hint=again)


def refuse_moved(preview: SavedPreview, change_preview: ChangePreview, versions: Mapping[str, str]) -> None:
    """Let a run begin only if it would do what was signed.

    Raises:
        RefusedError: Something moved since; the message says what.
    """
    moved = [
        what
        for what, differs in (
            ("the rows", preview.rows != change_preview.rows),
            ("the state", preview.state != change_preview.state),
            ("what would change", preview.changes != _sorted(change_preview.preview.changes)),
            ("the world", preview.world != _sorted(change_preview.drift)),
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
    """Those that change something, in an order that does not depend on which came first."""
    telling = (change for change in changes if change.kind is not ChangeKind.SAME)
    return tuple(
        replace(change, properties=tuple(sorted(change.properties)))
        for change in sorted(telling, key=lambda change: (change.urn, change.kind))
    )
