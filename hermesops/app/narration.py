"""How what happens is told."""

from collections.abc import Callable
from typing import Protocol

Tell = Callable[[str], None]
"""Takes a line of narration."""


class Warn(Protocol):
    """Takes what went wrong without stopping the work; for the log."""

    def __call__(self, event: str, **fields: object) -> None:
        """Log it."""


def warn(event: str, **fields: object) -> None:
    """Log it, by structlog: which takes as long to import as all the rest of a short command, so only now."""
    import structlog

    structlog.get_logger("hermesops").warning(event, **fields)
