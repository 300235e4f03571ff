"""Previews and runs of the stacks of one, several or all cells."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from hermesops.agents.cells.bulk import CellRun, run_cells
from hermesops.agents.cells.changes.environment_guard import Guards
from hermesops.agents.cells.changes.guard import NO_OVERRIDES, Overrides
from hermesops.agents.cells.changes.preview import ChangePreview, refuse_moved
from hermesops.agents.cells.changes.saved_previews import ApprovedPreview, SavedPreviews
from hermesops.agents.cells.cost.bill import Cost
from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.cells.workflow import StackUp, UpRequest
from hermesops.errors import BrokenInvariantError, Hint, UsageError
from hermesops.model.fleet.cell import Cell
from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.stack import Preview, UpResult
from hermesops.settings.environment import Environment
from hermesops.store.operations.kinds.fleet import StackUpIntent
from hermesops.store.operations.runner import QUEUED, Handler, Operations, abandon
from hermesops.store.registry import Registry

_REASON = "reason"
"""Field of an intent that is no argument of the run."""


@dataclass(frozen=True)
class StackUps:
    """Runs ``up`` of cells as operations, here or by workers."""

    env: Environment
    registry: Registry
    stacks: CellStacks
    guards: Guards
    previews: SavedPreviews
    runner: Callable[[Mapping[OperationKind, Handler]], Operations]
    report: Callable[[str], None]

    async def run(self, request: UpRequest) -> UpResult:
        """Run an ``up`` here, with its row and its lease.

        Raises:
            UsageError: There is no such cell or machine, or a change was named that this run would not make.
            RefusedError: The run would make a change that was not named, or a saved preview is outdated.
            LeaseHeldError: Another process runs ``up`` of this cell.
        """
        operation = await self._open(request)
        work = self._work(request, operation)
        await self.runner({OperationKind.STACK_UP: lambda _operation, _lease: work}).run(operation)
        if work.result is None:
            raise BrokenInvariantError(f"operation {operation.id} ended without a run of {request.cell}")
        return work.result

    async def leave(self, request: UpRequest) -> Operation:
        """Leave an ``up`` to the workers.

        Raises:
            UsageError: There is no such cell.
            LeaseHeldError: Another process runs ``up`` of this cell.
        """
        self.registry.cells.spec(request.cell)
        operation = await self._open(request)
        self.registry.operations.record_step(operation.id, QUEUED)
        return operation

    def work_of(self, operation: Operation, _lease: Lease) -> StackUp:
        """The workflow of an ``up``, from its row."""
        return self._work(UpRequest.of(StackUpIntent.of(operation)), operation)

    def _work(self, request: UpRequest, operation: Operation) -> StackUp:
        return StackUp(request.cell, partial(self._up, request, began=operation.step not in {"", QUEUED}))

    async def _up(self, request: UpRequest, *, began: bool) -> UpResult:
        stacks = self.stacks
        if not request.saved:
            self._refuse_unapproved(request.cell, request.named)
            guard = partial(self.guards.judge, named=request.named, began=began)
            return await stacks.up(request.cell, named=request.named.machines, only=request.only, guard=guard)
        approved = self.previews.approved(request.saved, request.approval)
        self.report(f"{request.cell}: {approved}")

        async def refuse_anything_else(change_preview: ChangePreview) -> None:
            refuse_moved(approved.preview, self.previews.of_cell(change_preview))

        named = approved.preview.named
        return await stacks.up(request.cell, named=named, guard=refuse_anything_else, with_drift=True)

    async def guard(self, named: Overrides, change_preview: ChangePreview) -> None:
        """Refuse a run beyond the limits and the operator's overrides, or with overrides that need an approval.

        Raises:
            UsageError: A machine was named that the run would not destroy.
            RefusedError: The message has the reasons, the hint the command that is allowed.
        """
        self._refuse_unapproved(change_preview.cell, named)
        await self.guards.judge(change_preview, named)

    def _refuse_unapproved(self, cell: CellName, named: Overrides) -> None:
        if named != NO_OVERRIDES:
            self.previews.refuse_unapproved(cell, "a change beyond the limits")

    async def preview_saved(self, saved: str, approval: str) -> tuple[CellRun, Cost, ApprovedPreview]:
        """Make a saved preview again, and compare; the changes, and the monthly cost before and after.

        Raises:
            UsageError: It is no saved preview.
            RefusedError: It is outdated, something has changed since, or an approval is missing.
        """
        approved = self.previews.approved(saved, approval)
        cell = approved.preview.cell
        change_preview = await self.stacks.change_preview(cell, with_drift=True)
        refuse_moved(approved.preview, self.previews.of_cell(change_preview))
        return CellRun(cell, change_preview.preview.changes), await self.guards.cost(change_preview), approved

    async def _open(self, request: UpRequest) -> Operation:
        """Open an ``up``; an unfinished one with other arguments is abandoned, whatever the reasons of both."""
        registry, intent = self.registry, request.to_intent().to_json()
        operation = registry.operations.open(OperationKind.STACK_UP, f"cell/{request.cell}", intent=intent)
        if {**operation.intent, _REASON: None} == {**intent, _REASON: None}:
            return operation
        await abandon(operation, registry, reason="another up of the cell was requested")
        return registry.operations.open(OperationKind.STACK_UP, f"cell/{request.cell}", intent=intent)


@dataclass(frozen=True)
class ChosenCells:
    """Commands on chosen cells of an environment, run in parallel; one failed cell does not stop the others."""

    stacks: CellStacks
    guards: Guards
    previews: SavedPreviews
    ups: StackUps
    parallel: int
    chosen: tuple[Cell, ...]

    async def preview(
        self, only: Collection[str], *, guard: Callable[[ChangePreview], Awaitable[None]] | None = None
    ) -> tuple[tuple[CellRun, ...], Cost]:
        """Preview ``up`` of each chosen cell, and the monthly cost of the fleet afterwards; changes nothing.

        Args:
            guard: Raises for a cell whose run is refused; without it, changes beyond the limits are shown too.
        """
        change_previews: list[ChangePreview] = []

        async def run(cell: CellName) -> Preview:
            change_preview = await self.stacks.change_preview(cell, only=_machines(only))
            if guard:
                await guard(change_preview)
            change_previews.append(change_preview)
            return change_preview.preview

        return await self._changes_of(run), await self.guards.cost(*change_previews)

    async def save_preview(self) -> tuple[tuple[CellRun, ...], Cost, str]:
        """Preview ``up`` of one cell against its real machines, and sign that preview; its file is the last result.

        Raises:
            UsageError: Several cells are meant.
            RefusedError: The operator's key does not sign.
        """
        if len(self.chosen) != 1:
            raise UsageError("a saved preview is for one cell: name that cell", hint=Hint(("cell", "list")))
        cell = self.chosen[0].name
        change_preview = await self.stacks.change_preview(cell, with_drift=True)
        cost = await self.guards.cost(change_preview)
        text = self.previews.sign(self.previews.of_cell(change_preview, cost))
        return (CellRun(cell, change_preview.preview.changes),), cost, text

    async def up_as(self, saved: str, approval: str = "") -> tuple[CellRun, ...]:
        """Apply the saved preview of a cell, and nothing else; another operator's approval may go with it."""
        return await self._changes_of(lambda cell: self.ups.run(UpRequest(cell, saved=saved, approval=approval)))

    async def preview_refresh(self, only: Collection[str]) -> tuple[CellRun, ...]:
        """Preview ``refresh`` of each chosen cell; changes nothing.

        Args:
            only: Names of the machines to ask for; empty for all.
        """
        return await self._changes_of(partial(self.stacks.preview_refresh, only=_machines(only)))

    async def refresh(self, only: Collection[str]) -> tuple[CellRun, ...]:
        """Refresh the state of each from the vendor."""
        return await self._changes_of(partial(self.stacks.refresh, only=_machines(only)))

    async def destroy(self) -> tuple[CellRun, ...]:
        """Remove each stack; one that holds a machine refuses."""
        return await self._changes_of(self.stacks.destroy)

    async def up(self, only: Collection[str], *, named: Overrides) -> tuple[CellRun, ...]:
        """Run ``up`` of each as an operation."""
        return await self._changes_of(lambda cell: self.ups.run(UpRequest(cell, _machines(only), named)))

    async def preview_up(
        self, only: Collection[str] = (), *, named: Overrides = NO_OVERRIDES
    ) -> tuple[tuple[CellRun, ...], Cost]:
        """Preview ``up`` of each with its guards: a cell whose run would be refused has the refusal as its error."""
        return await self.preview(only, guard=partial(self.ups.guard, named))

    async def leave_up(self, only: Collection[str], *, named: Overrides) -> tuple[CellRun, ...]:
        """Leave ``up`` of each to the workers."""

        async def work(cell: CellName) -> CellRun:
            operation = await self.ups.leave(UpRequest(cell, _machines(only), named))
            return CellRun(cell, operation_id=operation.id)

        return await self._run(work)

    async def _changes_of(self, run: Callable[[CellName], Awaitable[Preview | UpResult]]) -> tuple[CellRun, ...]:
        async def work(cell: CellName) -> CellRun:
            return CellRun(cell, (await run(cell)).changes)

        return await self._run(work)

    async def _run(self, work: Callable[[CellName], Awaitable[CellRun]]) -> tuple[CellRun, ...]:
        return await run_cells([cell.name for cell in self.chosen], work, parallel=self.parallel)


def _machines(names: Collection[str]) -> frozenset[MachineName]:
    return frozenset(MachineName(name) for name in names)
