"""``stack up`` as an operation: run here, or left to the workers."""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from hermesops.errors import BrokenInvariantError
from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.stack import UpResult

if TYPE_CHECKING:
    from hermesops.app.app import App
    from hermesops.placement.stack_up import StackUp

Up = Callable[[], Awaitable[UpResult]]


class StackUps:
    """Brings cells to their rows.

    Args:
        app: The environment.
    """

    def __init__(self, app: "App") -> None:
        self._app = app

    async def run(
        self, cell: CellName, up: Up, *, named: Collection[MachineName] = (), only: Collection[MachineName] = ()
    ) -> UpResult:
        """Run an ``up`` here, with its row and its lease.

        Args:
            cell: Which.
            up: Runs it, within the limits that were set for this run.
            named: Machines that may be destroyed; whoever continues it needs to know.
            only: The machines it is about; none means all.

        Raises:
            LeaseHeldError: Somebody else brings this cell to its rows right now.
        """
        from hermesops.operation.runner import Operations
        from hermesops.placement.stack_up import StackUp

        work = StackUp(cell, up)
        operation = await self._open(cell, named=named, only=only)
        operations = Operations(
            self._app.registry, {OperationKind.STACK_UP: lambda _operation, _lease: work}, self._app.tell
        )
        await operations.run(operation)
        if work.result is None:
            raise BrokenInvariantError(f"operation {operation.id} ended without a run of {cell}")
        return work.result

    async def leave(
        self, cell: CellName, *, named: Collection[MachineName] = (), only: Collection[MachineName] = ()
    ) -> Operation:
        """Leave an ``up`` to the workers; it runs within the environment's limits.

        Raises:
            UsageError: There is no such cell.
            LeaseHeldError: Somebody brings this cell to its rows right now.
        """
        from hermesops.operation.runner import LEFT

        self._app.registry.cell_spec(cell)
        operation = await self._open(cell, named=named, only=only)
        self._app.registry.record_step(operation.id, LEFT)
        return operation

    async def _open(
        self, cell: CellName, *, named: Collection[MachineName] = (), only: Collection[MachineName] = ()
    ) -> Operation:
        """Write the row of an ``up``; an unfinished one that was asked for otherwise is given up."""
        from hermesops.operation.abandon import abandon
        from hermesops.placement.stack_up import subject_of

        registry = self._app.registry
        intent = {"cell": cell, "named": sorted(named), "only": sorted(only)}
        found = registry.open_operation(OperationKind.STACK_UP, subject_of(cell), intent=intent)
        if dict(found.intent) == intent:
            return found
        await abandon(found, registry, reason="another up of the cell was asked for")
        return registry.open_operation(OperationKind.STACK_UP, subject_of(cell), intent=intent)

    def work_of(self, operation: Operation, _lease: Lease) -> "StackUp":
        """What continues an ``up`` from its row."""
        from hermesops.placement.stack_up import StackUp

        cell = CellName(str(operation.intent["cell"]))
        named, only = (_machines(operation.intent.get(name)) for name in ("named", "only"))
        return StackUp(cell, lambda: self._app.cell_stacks.up(cell, named=named, only=only))


def _machines(raw: object) -> frozenset[MachineName]:
    return frozenset(MachineName(str(name)) for name in raw) if isinstance(raw, list) else frozenset()
