"""Unfinished operations, and the monitor and workers that run in the background."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.cli.views.fleet import NAMED
from hermesops.views.agents.fleet import MONITOR_MAY
from hermesops.views.operations import whose
from hermesops.wire.foreign_text import one_line, unbroken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.model.operation import BackgroundWork, Operation
    from hermesops.model.recovery.backup import Loss


def operation_lines(stopped: "Sequence[Operation]", at_work: int) -> list[str]:
    """Lines about unfinished operations for people; none where all have ended."""
    lines = [
        advice(
            f"operation: {one_line(operation.kind.replace('_', ' '))} of {whose(operation)}, since "
            f"{operation.created_at:%Y-%m-%d %H:%M} UTC, has not ended and nobody works on it:",
            ("operation", "continue", operation.id),
            "continues it",
        )
        for operation in stopped[:NAMED]
    ]
    more = len(stopped) - NAMED
    lines += [advice(f"{more} more:", ("operation", "list"), "names them")] if more > 0 else []
    if at_work:
        noun = "operation is" if at_work == 1 else "operations are"
        lines.append(advice(f"{at_work} {noun} being worked on:", ("operation", "list"), "shows them"))
    return lines


_BACKUPS_REST = timedelta(minutes=15)
"""Where backups are late, workers run their job more often."""


def background_lines(work: "BackgroundWork", actions: str, backups: "Loss | None", now: datetime) -> list[str]:
    """Lines for people: one about the monitor, and one about workers where none seems to run."""
    may = f"{MONITOR_MAY[actions]} (monitoring.actions {actions})"
    if work.monitor:
        line = f"monitor: {unbroken(work.monitor.partition(':')[0])} acts; it {may}"
    else:
        line = advice("monitor: not running, dead machines are not repaired;", ("monitor",), f"starts one; it {may}")
    return [line, *_worker_lines(work, backups, now)]


def _worker_lines(work: "BackgroundWork", backups: "Loss | None", now: datetime) -> list[str]:
    since = work.waiting_since
    if since and not work.is_attended:
        noun = "operation waits" if work.waiting == 1 else "operations wait"
        line = f"workers: none seems to run: {work.waiting} {noun}, since {since:%Y-%m-%d %H:%M} UTC;"
        return [advice(line, ("operation", "list"), "names them,", ("worker",), "runs them")]
    if backups and backups.late and (work.backups_at is None or now - work.backups_at > _BACKUPS_REST):
        last = f"since {work.backups_at:%Y-%m-%d %H:%M} UTC" if work.backups_at else "ever"
        late = f"{counted(backups.late, 'backup')} {'is' if backups.late == 1 else 'are'} late"
        line = f"workers: none seems to run: {late}, and no process began the job {last};"
        return [advice(line, ("job", "list"), "shows all,", ("worker",), "runs them")]
    return []
