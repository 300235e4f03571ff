"""``stack up`` as an operation: run here, or left to the workers."""

from functools import partial
from typing import TYPE_CHECKING

from hermesops.app.services.approvals import Approvals, asked_by_preview
from hermesops.cells.changes.guard import NOTHING_NAMED
from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.stack import UpResult

if TYPE_CHECKING:
    from hermesops.app.container import App
    from hermesops.cells.workflow import StackUp, UpWish


class StackUps:
    """Brings cells to their rows.

    Args:
        app: The environment.
    """

    def __init__(self, app: "App") -> None:
        self._app = app

    async def run(self, wish: "UpWish") -> UpResult:
        """Run an ``up`` here, with its row and its lease.

        Raises:
            UsageError: There is no such cell or machine, or something was named that would not happen.
            RefusedError: Something would happen that was not named, or a saved preview no longer holds.
            LeaseHeldError: Somebody else brings this cell to its rows right now.
        """
        from hermesops.operations.runner import Operations

        operation = await self._open(wish)
        work = self._work(wish, operation)
        operations = Operations(
            self._app.registry, {OperationKind.STACK_UP: lambda _operation, _lease: work}, self._app.tell
        )
        await operations.run(operation)
        if work.result is None:
            raise BrokenInvariantError(f"operation {operation.id} ended without a run of {wish.cell}")
        return work.result

    async def leave(self, wish: "UpWish") -> Operation:
        """Leave an ``up`` to the workers.

        Raises:
            UsageError: There is no such cell.
            LeaseHeldError: Somebody brings this cell to its rows right now.
        """
        from hermesops.operations.runner import LEFT

        self._app.registry.cell_spec(wish.cell)
        operation = await self._open(wish)
        self._app.registry.record_step(operation.id, LEFT)
        return operation

    def work_of(self, operation: Operation, _lease: Lease) -> "StackUp":
        """What continues an ``up`` from its row."""
        from hermesops.cells.workflow import UpWish

        return self._work(UpWish.from_intent(operation.intent), operation)

    def _work(self, wish: "UpWish", operation: Operation) -> "StackUp":
        from hermesops.cells.workflow import StackUp
        from hermesops.operations.runner import LEFT

        return StackUp(wish.cell, partial(self._up, wish, began=operation.step not in {"", LEFT}))

    async def _up(self, wish: "UpWish", *, began: bool) -> UpResult:
        stacks, guards = self._app.cell_stacks, self._app.guards
        approvals = Approvals(self._app.env)
        if not wish.saved:
            if wish.named != NOTHING_NAMED and approvals.are_required:
                raise RefusedError(
                    f"{wish.cell}: what goes beyond the limits needs an approved preview in {self._app.env.name}",
                    hint=f"hermesops stack preview {wish.cell} --save FILE; another operator: hermesops approval sign",
                )
            guard = partial(guards.judge, named=wish.named, began=began)
            return await stacks.up(wish.cell, named=wish.named.machines, only=wish.only, guard=guard)
        preview, signer = guards.open(wish.saved)
        approver = approvals.require(asked_by_preview(preview, signer), wish.approval)
        approved = f", approved by {approver}" if approver else ""
        self._app.tell(
            f"{wish.cell}: as previewed at {preview.made_at:%Y-%m-%d %H:%M} UTC, signed by {signer}{approved}"
        )
        guard = partial(guards.refuse_moved, preview=preview)
        return await stacks.up(wish.cell, named=preview.named, guard=guard, with_drift=True)

    async def _open(self, wish: "UpWish") -> Operation:
        """Write the row of an ``up``; an unfinished one that was asked for otherwise is given up."""
        from hermesops.operations.abandon import abandon

        registry, intent = self._app.registry, wish.to_intent()
        found = registry.open_operation(OperationKind.STACK_UP, f"cell/{wish.cell}", intent=intent)
        if dict(found.intent) == intent:
            return found
        await abandon(found, registry, reason="another up of the cell was asked for")
        return registry.open_operation(OperationKind.STACK_UP, f"cell/{wish.cell}", intent=intent)
