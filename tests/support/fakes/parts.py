"""Stand-ins for parts that services take: only what a test needs of each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from hermesops.model.operation import LeaseHeldError


def part(**members: Any) -> Any:  # noqa: ANN401 - it stands for any class
    """Something that has just these members."""
    return SimpleNamespace(**members)


class Leases:
    """Leases that are free but for some.

    Args:
        taken: Subjects that somebody else holds.
    """

    def __init__(self, *taken: str) -> None:
        self._taken = taken
        self.held: list[str] = []

    @asynccontextmanager
    async def _hold(self, subject: str) -> AsyncIterator[Any]:
        if subject in self._taken:
            raise LeaseHeldError(f"{subject} is being worked on", holder="another")
        self.held.append(subject)
        yield SimpleNamespace(lease=f"lease of {subject}")

    def hold(self, subject: str) -> Any:  # noqa: ANN401 - stands for a LeaseKeeper
        """As ``Container.hold_lease``."""
        return self._hold(subject)
