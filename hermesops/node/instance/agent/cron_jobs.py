"""The agent's cron jobs that are due: what waits to be run."""

from datetime import datetime
from typing import Any

from hermesops.node.ports import System


def overdue(system: System, port: int, key: str) -> list[float] | None:
    """For how many seconds each job has been due that is; ``None`` when the agent does not tell of its jobs."""
    answer = system.ask(port, "/api/jobs", key=key)
    jobs = answer.objects("jobs")
    if jobs is None:
        return None
    now = system.now()
    waits = [_waits(job, now) for job in jobs]
    return [seconds for seconds in waits if seconds is not None]


def _waits(job: dict[str, Any], now: float) -> float | None:
    try:
        due = datetime.fromisoformat(str(job["next_run_at"])).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None
    return now - due if bool(job.get("enabled", True)) and due <= now else None
