"""Who takes what went wrong beside the work: with a copy or the anchor, while the registry itself goes on."""

from typing import Protocol


class Warn(Protocol):
    """Takes a warning."""

    def __call__(self, event: str, **fields: object) -> None:
        """Log it."""


def in_silence(event: str, **fields: object) -> None:
    """For who has no log."""
