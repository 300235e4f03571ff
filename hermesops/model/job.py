"""What falls due without anybody asking, as the registry remembers it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class JobRun:
    """The last time that a job was done.

    Attributes:
        began_at: When.
        ended_at: When it ended, well or not; ``None`` while somebody is at it, or when they died of it.
        done: What was done, in a line.
        problem: What was not, and why; empty when all went well.
    """

    began_at: datetime
    ended_at: datetime | None = None
    done: str = ""
    problem: str = ""


def job_subject(name: str) -> str:
    """What is leased while a job is done."""
    return f"job/{name}"
