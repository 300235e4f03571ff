"""Runs operations in the foreground of a command: the row says what is intended, a factory makes the work."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.operation.lease import Leases
from hermesops.operation.loop import OperationRows, Work, drive

ENDED = frozenset({OperationStatus.DONE, OperationStatus.FAILED, OperationStatus.ABANDONED})


class Rows(OperationRows, Leases, Protocol):
    """The registry, as far as running operations needs it."""


class Operations:
    """Brings operations to their end.

    Args:
        rows: The registry.
        works: Makes the work of each kind from its row.
        tell: Narration.
    """

    def __init__(
        self,
        rows: Rows,
        works: Mapping[OperationKind, Callable[[Operation], Work[Any, Any]]],
        tell: Callable[[str], None],
    ) -> None:
        self._rows = rows
        self._works = works
        self._tell = tell

    async def run(self, operation: Operation) -> str:
        """Bring one operation to its end and return its outcome.

        Raises:
            RefusedError: Somebody else is at it, or it cannot be done.
            HermesError: It stopped halfway; running it again continues.
        """
        make = self._works.get(operation.kind)
        if make is None:
            raise BrokenInvariantError(f"operation {operation.id} is of kind {operation.kind}, which nothing here does")
        return await drive(operation, make(operation), self._rows, self._rows, self._tell)

    async def resume(self, operation: Operation) -> str:
        """Continue an operation that was left, by whomever.

        Raises:
            RefusedError: It has ended.
        """
        if operation.status in ENDED:
            raise RefusedError(
                f"operation {operation.id} has ended ({operation.status}): {operation.outcome}",
                hint="hermesops operation list --all",
            )
        return await self.run(operation)
