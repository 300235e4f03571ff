"""Text of the audit log and of the registry's copies."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.access.audit import ChainReport

if TYPE_CHECKING:
    from hermesops.agents.backup.registry_copies import CopyPreview

_SHOWN = 5
"""Names of machines in a line."""


def lines(report: ChainReport, anchor: Path) -> list[str]:
    """The result of a verification for people."""
    if not report.entries:
        return ["the audit is empty"]
    shown = [f"chained entries: {report.entries}, up to {report.anchored_to} anchored in {anchor}"]
    if report.head and report.head.id > report.anchored_to:
        shown.append(f"entries {report.anchored_to + 1} to {report.head.id} are not anchored yet")
    if report.lost:
        shown.append(f"anchored entries that the restored copy lacks: {report.lost}")
    return shown


def require_sound(report: ChainReport) -> None:
    """Verify that the audit log of a restored registry matches its anchor.

    Raises:
        BrokenInvariantError: It is not. The registry is in use nevertheless: agents wait for it, the anchor goes on to
            contradict the audit.
    """
    if report.doubt:
        raise BrokenInvariantError(f"the registry is in use, but {report.told}", hint=Hint(("audit", "verify")))


def copy_words(preview: "CopyPreview") -> str:
    """A copy in a few words."""
    age, instances = _age(preview.age), counted(preview.instances, "instance")
    return f"copy of {preview.taken_at:%Y-%m-%d %H:%M} UTC ({age} old, {instances})"


def preview_lines(preview: "CopyPreview", environment: str) -> list[str]:
    """Render the copy that a restore would put back, compared with JustAVPS's machines."""
    if preview.unknown is None:
        return [copy_words(preview), f"machines missing in the copy: unknown, {preview.problem}"]
    if not preview.unknown:
        return [copy_words(preview), f"machines missing in the copy: none of environment {environment}"]
    count = len(preview.unknown)
    shown = ", ".join(preview.unknown[:_SHOWN]) + (", …" if count > _SHOWN else "")
    return [copy_words(preview), f"machines missing in the copy: {count} of environment {environment} ({shown})"]


def _age(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    if minutes < 2 * 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2 * 24 * 60 else f"{minutes // (24 * 60)} days"
