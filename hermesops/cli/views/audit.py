"""Text of the audit log and of the registry's copies."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.access.audit import ChainReport

if TYPE_CHECKING:
    from hermesops.agents.backup.registry_copies import CopyPreview

_SHOWN = 5
"""Names of machines in a line."""


def lines(found: ChainReport, anchor: Path) -> list[str]:
    """The result of a verification for people."""
    if not found.entries:
        return ["the audit is empty"]
    shown = [f"{found.entries} entries are chained, up to {found.anchored_to} anchored in {anchor}"]
    if found.head and found.head.id > found.anchored_to:
        shown.append(f"entries {found.anchored_to + 1} to {found.head.id} are anchored nowhere yet")
    if found.lost:
        shown.append(f"{found.lost} that were anchored are of epochs that ended with a restored copy, which lacks them")
    return shown


def require_sound(found: ChainReport) -> None:
    """Return where the audit of a registry that was put back is what was written.

    Raises:
        BrokenInvariantError: It is not. The registry is in use nevertheless: agents wait for it, the anchor goes on to
            contradict the audit.
    """
    if found.doubt:
        raise BrokenInvariantError(f"the registry is in use, but {found.told}", hint=Hint(("audit", "verify")))


def copy_words(one: "CopyPreview") -> str:
    """A copy in a few words."""
    return f"copy of {one.taken_at:%Y-%m-%d %H:%M} UTC ({_age(one.age)} old, instances: {one.instances})"


def preview_lines(one: "CopyPreview", environment: str) -> list[str]:
    """What a copy would put back, beside what JustAVPS has."""
    if one.unknown is None:
        return [copy_words(one), f"machines that it does not know: unknown, {one.problem}"]
    if not one.unknown:
        return [copy_words(one), f"it knows every machine that JustAVPS has of environment {environment}"]
    count, shown = len(one.unknown), ", ".join(one.unknown[:_SHOWN]) + (", …" if len(one.unknown) > _SHOWN else "")
    return [
        copy_words(one),
        f"machines that JustAVPS has of environment {environment} and the copy does not know: {count} ({shown})",
    ]


def _age(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    if minutes < 2 * 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2 * 24 * 60 else f"{minutes // (24 * 60)} days"
