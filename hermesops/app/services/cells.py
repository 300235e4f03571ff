"""Previews and runs of the stacks of one, several or all cells."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hermesops.app.services.change_guard import Guards
from hermesops.app.services.stack_runs import StackUps
from hermesops.cells.bulk import CellRun, run_cells
from hermesops.cells.changes.guard import Cost, Overrides
from hermesops.cells.selection import select_cells
from hermesops.cells.stack.stacks import CellStacks
from hermesops.cells.workflow import UpRequest
from hermesops.errors import UsageError
from hermesops.model.cell import Cell
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Preview, UpResult
from hermesops.registry import Registry

if TYPE_CHECKING:
    from hermesops.cells.changes.preview import ChangePreview


@dataclass(frozen=True)
class Cells:
    """The cells of an environment.

    Attributes:
        parallel: Cells that are worked on at once.
    """

    registry: Registry
    stacks: CellStacks
    guards: Guards
    ups: StackUps
    parallel: int

    def select(self, *, names: Sequence[str], where: str, everything: bool) -> "ChosenCells":
        """The cells that an operator means.

        Raises:
            UsageError: None is meant, or one that is not there.
        """
        chosen = select_cells(self.registry.cells.list(), names=names, where=where, everything=everything)
        return ChosenCells(self, tuple(chosen))

    def previewed(self, saved: str) -> "ChosenCells":
        """The cell that a saved preview is of.

        Raises:
            UsageError: It is none, or there is no such cell.
            RefusedError: Its signature does not hold, or it is too old or another environment's.
        """
        preview, _ = self.guards.open(saved)
        return self.select(names=[preview.cell], where="", everything=False)


@dataclass(frozen=True)
class ChosenCells:
    """Some cells of an environment."""

    cells: Cells
    chosen: tuple[Cell, ...]

    async def preview(self, only: Collection[str]) -> tuple[tuple[CellRun, ...], Cost]:
        """Preview ``up`` of each, and what the fleet would cost then."""
        seen: list[ChangePreview] = []

        async def see(cell: CellName) -> Preview:
            seen.append(await self.cells.stacks.change_preview(cell, only=_machines(only)))
            return seen[-1].preview

        return await self._look(see), await self.cells.guards.cost(*seen)

    async def save_preview(self) -> tuple[tuple[CellRun, ...], Cost, str]:
        """Preview ``up`` of one cell against its real machines, and sign that preview; its file is the last result.

        Raises:
            UsageError: Several cells are meant.
            RefusedError: The operator's key does not sign.
        """
        if len(self.chosen) != 1:
            raise UsageError("a saved preview is of one cell; name that cell", hint="hermesops cell list")
        cell, guards = self.chosen[0].name, self.cells.guards
        seen = await self.cells.stacks.change_preview(cell, with_drift=True)
        cost = await guards.cost(seen)
        return (CellRun(cell, seen.preview.changes),), cost, guards.sign(seen, cost)

    async def up_as(self, saved: str, approval: str = "") -> tuple[CellRun, ...]:
        """Apply the saved preview of a cell, and nothing else; another operator's approval may go with it."""
        return await self._look(lambda cell: self.cells.ups.run(UpRequest(cell, saved=saved, approval=approval)))

    async def preview_refresh(self, only: Collection[str]) -> tuple[CellRun, ...]:
        """Preview ``refresh`` of each."""
        return await self._look(partial(self.cells.stacks.preview_refresh, only=_machines(only)))

    async def refresh(self, only: Collection[str]) -> tuple[CellRun, ...]:
        """Refresh the state of each from the vendor."""
        return await self._look(partial(self.cells.stacks.refresh, only=_machines(only)))

    async def destroy(self) -> tuple[CellRun, ...]:
        """Remove each stack; one that holds a machine refuses."""
        return await self._look(self.cells.stacks.destroy)

    async def up(self, only: Collection[str], *, named: Overrides) -> tuple[CellRun, ...]:
        """Run ``up`` of each as an operation."""
        return await self._look(lambda cell: self.cells.ups.run(UpRequest(cell, _machines(only), named)))

    async def leave_up(self, only: Collection[str], *, named: Overrides) -> tuple[CellRun, ...]:
        """Leave ``up`` of each to the workers."""

        async def work(cell: CellName) -> CellRun:
            operation = await self.cells.ups.leave(UpRequest(cell, _machines(only), named))
            return CellRun(cell, operation_id=operation.id)

        return await self._run(work)

    async def _look(self, see: Callable[[CellName], Awaitable[Preview | UpResult]]) -> tuple[CellRun, ...]:
        async def work(cell: CellName) -> CellRun:
            return CellRun(cell, (await see(cell)).changes)

        return await self._run(work)

    async def _run(self, work: Callable[[CellName], Awaitable[CellRun]]) -> tuple[CellRun, ...]:
        return await run_cells([cell.name for cell in self.chosen], work, parallel=self.cells.parallel)


def _machines(names: Collection[str]) -> frozenset[MachineName]:
    return frozenset(MachineName(name) for name in names)
