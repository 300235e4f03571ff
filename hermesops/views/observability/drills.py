"""Shapes of faults that are drilled, and of their drills."""

from typing import TYPE_CHECKING

from hermesops.views.agents.backups import backup
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.agents.drill.service import DrillResult, LastDrill
    from hermesops.model.recovery.backup import Backup
    from hermesops.observability.runbook.fault import Fault


def drill(fault: "Fault", last: "LastDrill | None") -> dict[str, object]:
    """A fault with its last drill; ``last_run`` says so where tests alone bring it about."""
    never = None if fault.is_drilled else "by tests alone"
    return {
        "drill": fault.name,
        "alerts": list(fault.alerts),
        "runbook": fault.runbook,
        "fault": fault.meaning,
        "drilled": fault.is_drilled,
        "last_run": timestamp(last.at) if last else never,
        "found": (last.problem or "well") if last else None,
    }


def run(fault: "Fault", done: "DrillResult") -> dict[str, object]:
    """A drill of a fault: its machine and figures, and its problem where it has one."""
    return {
        "drill": fault.name,
        "runbook": fault.runbook,
        "machine_name": done.instance.machine_name,
        **(vars(done.drilled) if done.drilled else {}),
        "problem": done.failure.message if done.failure else None,
    }


def restored(user: str, outcome: str, proved: "Backup | None") -> dict[str, object]:
    """A backup that was restored onto a machine of the warm pool; ``proved`` is null while nobody waits for it."""
    return {"user": user, "outcome": outcome, "proved": backup(proved, user) if proved else None}
