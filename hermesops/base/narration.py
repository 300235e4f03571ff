"""Ports for narration (lines for the operator) and for log entries."""

from collections.abc import Callable
from typing import Protocol

Reporter = Callable[[str], None]
"""Takes a line of narration."""


class Warn(Protocol):
    """Logs a problem that does not stop the work."""

    def __call__(self, event: str, **fields: object) -> None:
        """Write one entry, with its fields, into the log."""


def counted(count: int, noun: str) -> str:
    """``1 cell``, ``2 cells``: a number with its noun."""
    return f"{count} {noun if count == 1 else f'{noun}s'}"


def warn(event: str, **fields: object) -> None:
    """Write a warning into the process's log."""
    import structlog  # noqa: PLC0415 - takes as long as all the rest of a short command

    structlog.get_logger("hermesops").warning(event, **fields)
