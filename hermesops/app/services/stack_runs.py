"""``stack up`` as an operation: run here, or left to the workers."""

from functools import partial
from typing import TYPE_CHECKING

from hermesops.app.services.approvals import Approvals, asked_by_preview
from hermesops.cells.changes.guard import NO_OVERRIDES
from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.stack import UpResult
from hermesops.operations.kinds import StackUpIntent

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.cells.workflow import StackUp, UpRequest


class StackUps:
    """Brings cells to their rows.

    Args:
        app: The environment.
    """

    def __init__(self, app: "Container") -> None:
        self._app = app

    async def run(self, request: "UpRequest") -> UpResult:
        """Run an ``up`` here, with its row and its lease.

        Raises:
            UsageError: There is no such cell or machine, or something was named that would not happen.
            RefusedError: Something would happen that was not named, or a saved preview no longer holds.
            LeaseHeldError: Somebody else brings this cell to its rows right now.
        """
        from hermesops.operations.runner import Operations

        operation = await self._open(request)
        work = self._work(request, operation)
        operations = Operations(
            self._app.registry, {OperationKind.STACK_UP: lambda _operation, _lease: work}, self._app.tell
        )
        await operations.run(operation)
        if work.result is None:
            raise BrokenInvariantError(f"operation {operation.id} ended without a run of {request.cell}")
        return work.result

    async def leave(self, request: "UpRequest") -> Operation:
        """Leave an ``up`` to the workers.

        Raises:
            UsageError: There is no such cell.
            LeaseHeldError: Somebody brings this cell to its rows right now.
        """
        from hermesops.operations.runner import QUEUED

        self._app.registry.cells.spec(request.cell)
        operation = await self._open(request)
        self._app.registry.operations.record_step(operation.id, QUEUED)
        return operation

    def work_of(self, operation: Operation, _lease: Lease) -> "StackUp":
        """What continues an ``up`` from its row."""
        from hermesops.cells.workflow import UpRequest

        return self._work(UpRequest.of(StackUpIntent.of(operation)), operation)

    def _work(self, request: "UpRequest", operation: Operation) -> "StackUp":
        from hermesops.cells.workflow import StackUp
        from hermesops.operations.runner import QUEUED

        return StackUp(request.cell, partial(self._up, request, began=operation.step not in {"", QUEUED}))

    async def _up(self, request: "UpRequest", *, began: bool) -> UpResult:
        stacks, guards = self._app.cell_stacks, self._app.guards
        approvals = Approvals(self._app.env)
        if not request.saved:
            if request.named != NO_OVERRIDES and approvals.are_required:
                raise RefusedError(
                    f"{request.cell}: what goes beyond the limits needs an approved preview in {self._app.env.name}",
                    hint=f"hermesops stack preview {request.cell} --save FILE; someone else: hermesops approval sign",
                )
            guard = partial(guards.judge, named=request.named, began=began)
            return await stacks.up(request.cell, named=request.named.machines, only=request.only, guard=guard)
        preview, signer = guards.open(request.saved)
        approver = approvals.require(asked_by_preview(preview, signer), request.approval)
        approved = f", approved by {approver}" if approver else ""
        self._app.tell(
            f"{request.cell}: as previewed at {preview.made_at:%Y-%m-%d %H:%M} UTC, signed by {signer}{approved}"
        )
        guard = partial(guards.refuse_moved, preview=preview)
        return await stacks.up(request.cell, named=preview.named, guard=guard, with_drift=True)

    async def _open(self, request: "UpRequest") -> Operation:
        """Write the row of an ``up``; an unfinished one that was asked for otherwise is given up."""
        from hermesops.operations.abandon import abandon

        registry, intent = self._app.registry, request.to_intent().to_json()
        found = registry.operations.open(OperationKind.STACK_UP, f"cell/{request.cell}", intent=intent)
        if dict(found.intent) == intent:
            return found
        await abandon(found, registry, reason="another up of the cell was asked for")
        return registry.operations.open(OperationKind.STACK_UP, f"cell/{request.cell}", intent=intent)
