"""``stack up`` as an operation: run here, or left to the workers."""

from collections.abc import Callable, Mapping
from functools import partial

from hermesops.app.services.approvals import Approvals, asked_by_preview
from hermesops.app.services.change_guard import Guards
from hermesops.cells.changes.guard import NO_OVERRIDES
from hermesops.cells.stack.stacks import CellStacks
from hermesops.cells.workflow import StackUp, UpRequest
from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.stack import UpResult
from hermesops.operations.abandon import abandon
from hermesops.operations.kinds import StackUpIntent
from hermesops.operations.runner import QUEUED, Handler, Operations
from hermesops.registry import Registry
from hermesops.settings import Environment


class StackUps:
    """Runs ``up`` of cells.

    Args:
        runner: Makes what runs operations of these kinds.
    """

    def __init__(
        self,
        env: Environment,
        registry: Registry,
        stacks: Callable[[], CellStacks],
        guards: Guards,
        runner: Callable[[Mapping[OperationKind, Handler]], Operations],
        tell: Callable[[str], None],
    ) -> None:
        self._env = env
        self._registry = registry
        self._stacks = stacks
        self._guards = guards
        self._runner = runner
        self._tell = tell

    async def run(self, request: UpRequest) -> UpResult:
        """Run an ``up`` here, with its row and its lease.

        Raises:
            UsageError: There is no such cell or machine, or something was named that would not happen.
            RefusedError: Something would happen that was not named, or a saved preview no longer holds.
            LeaseHeldError: Another process runs ``up`` of this cell.
        """
        operation = await self._open(request)
        work = self._work(request, operation)
        await self._runner({OperationKind.STACK_UP: lambda _operation, _lease: work}).run(operation)
        if work.result is None:
            raise BrokenInvariantError(f"operation {operation.id} ended without a run of {request.cell}")
        return work.result

    async def leave(self, request: UpRequest) -> Operation:
        """Leave an ``up`` to the workers.

        Raises:
            UsageError: There is no such cell.
            LeaseHeldError: Another process runs ``up`` of this cell.
        """
        self._registry.cells.spec(request.cell)
        operation = await self._open(request)
        self._registry.operations.record_step(operation.id, QUEUED)
        return operation

    def work_of(self, operation: Operation, _lease: Lease) -> StackUp:
        """The workflow of an ``up``, from its row."""
        return self._work(UpRequest.of(StackUpIntent.of(operation)), operation)

    def _work(self, request: UpRequest, operation: Operation) -> StackUp:
        return StackUp(request.cell, partial(self._up, request, began=operation.step not in {"", QUEUED}))

    async def _up(self, request: UpRequest, *, began: bool) -> UpResult:
        stacks, guards = self._stacks(), self._guards
        approvals = Approvals(self._env)
        if not request.saved:
            if request.named != NO_OVERRIDES and approvals.are_required:
                raise RefusedError(
                    f"{request.cell}: what goes beyond the limits needs an approved preview in {self._env.name}",
                    hint=f"hermesops stack preview {request.cell} --save FILE; another operator: "
                    "hermesops approval sign FILE --save …",
                )
            guard = partial(guards.judge, named=request.named, began=began)
            return await stacks.up(request.cell, named=request.named.machines, only=request.only, guard=guard)
        preview, signer = guards.open(request.saved)
        approver = approvals.require(asked_by_preview(preview, signer), request.approval)
        approved = f", approved by {approver}" if approver else ""
        self._tell(
            f"{request.cell}: as previewed at {preview.made_at:%Y-%m-%d %H:%M} UTC, signed by {signer}{approved}"
        )
        guard = partial(guards.refuse_moved, preview=preview)
        return await stacks.up(request.cell, named=preview.named, guard=guard, with_drift=True)

    async def _open(self, request: UpRequest) -> Operation:
        """Open an ``up``; an unfinished one with other arguments is abandoned."""
        registry, intent = self._registry, request.to_intent().to_json()
        found = registry.operations.open(OperationKind.STACK_UP, f"cell/{request.cell}", intent=intent)
        if dict(found.intent) == intent:
            return found
        await abandon(found, registry, reason="another up of the cell was asked for")
        return registry.operations.open(OperationKind.STACK_UP, f"cell/{request.cell}", intent=intent)
