"""Lines of ``fleet status`` about backups, disks, freezes and scheduled terminations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.cli.views.fleet import NAMED
from hermesops.model.fleet.overview import LowOnDisk
from hermesops.model.plan import GB
from hermesops.views.timestamps import span
from hermesops.wire.foreign_text import one_line, quoted

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.model.fleet.instance import Instance
    from hermesops.model.recovery.backup import Loss
    from hermesops.model.rollout.records import Freeze


def loss_lines(backups: "Loss") -> list[str]:
    """Render the age of unsaved changes and the number of late backups."""
    if not backups.agents:
        return []
    have = "has" if backups.never == 1 else "have"
    none = f"; {backups.never} of {counted(backups.agents, 'agent')} {have} no backup yet" if backups.never else ""
    line = f"backups: the oldest unsaved change is {span(backups.oldest_s)} old{none}"
    if not backups.late:
        return [line]
    have = "has" if backups.late == 1 else "have"
    late = f"{backups.late} of {counted(backups.agents, 'agent')} {have} no backup of the last"
    todo = ("runbook", "run", "backups-are-late")
    names = (("backup", "list"), "names them,", todo, "leads to their backups")
    return [line, advice(f"backups: {late} {backups.objective_s // 3600} h:", *names)]


def freeze_lines(freezes: "Sequence[Freeze]") -> list[str]:
    """Freezes that hold now, which are easily forgotten."""
    return [_freeze_line(freeze) for freeze in freezes]


def freeze_span(freeze: "Freeze", now: "datetime") -> str:
    """When a freeze holds, in words: its begin only where that is still to come."""
    begin = f"from {freeze.begins_at:%Y-%m-%d %H:%M} UTC " if freeze.begins_at > now else ""
    return f"{begin}until {freeze.ends_at:%Y-%m-%d %H:%M} UTC" if freeze.ends_at else f"{begin}without an end"


def _freeze_line(freeze: "Freeze") -> str:
    span_now = freeze_span(freeze, freeze.begins_at)
    line = f"rollouts are frozen {span_now} by {one_line(freeze.who)}, {quoted(freeze.reason)}:"
    return advice(line, ("rollout", "unfreeze", freeze.id), "ends that")


def crowded_lines(agents: Sequence[LowOnDisk]) -> list[str]:
    """Lines about agents that are low on disk, for people."""
    lines = [
        advice(
            f"data: {agent.user} has {agent.bytes / GB:.1f} of {agent.size / GB:.0f} GB full, by the newest backup;",
            ("instance", "resize", agent.user, "--plan", "heavy"),
            ", or the user deletes some: runbooks/data-volume.md",
        )
        for agent in agents[:NAMED]
    ]
    more = len(agents) - NAMED
    return [*lines, *([f"data: {counted(more, 'more agent')} low on disk"] if more > 0 else [])]


def ending_lines(agents: "Sequence[Instance]") -> list[str]:
    """Lines about scheduled terminations for people."""
    lines = [
        advice(
            f"ending: {agent.title} is terminated at {agent.grace_until:%Y-%m-%d %H:%M} UTC;",
            ("instance", "terminate", agent.title, "--undo"),
            "cancels that",
        )
        for agent in agents[:NAMED]
    ]
    more = len(agents) - NAMED
    listing = ("instance", "list", "--status", "suspended")
    return [*lines, *([advice(f"ending: {more} more;", listing, "names them")] if more > 0 else [])]
