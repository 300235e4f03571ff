"""Work on one, several or all cells."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermesops.app.app import App
from hermesops.app.stack_ups import StackUps
from hermesops.model.cell import Cell
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import UpResult

if TYPE_CHECKING:
    from hermesops.model.stack import Preview
    from hermesops.placement.cell_runs import CellRun


class Cells:
    """Some cells of an environment.

    Args:
        app: The environment.
        chosen: Which.
    """

    def __init__(self, app: App, chosen: Sequence[Cell]) -> None:
        self.chosen = tuple(chosen)
        self._app = app

    @classmethod
    def select(cls, app: App, *, names: Sequence[str], where: str, everything: bool) -> "Cells":
        """The cells that an operator means.

        Raises:
            UsageError: None is meant, or one that is not there.
        """
        from hermesops.placement.cell_selection import select_cells

        cells = app.registry.list_cells()
        return cls(app, select_cells(cells, names=names, where=where, everything=everything))

    async def preview(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """What bringing each to its rows would change."""
        return await self._look(partial(self._app.cell_stacks.preview, only=_machines(only)))

    async def preview_refresh(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """What refreshing each would write into its state."""
        return await self._look(partial(self._app.cell_stacks.preview_refresh, only=_machines(only)))

    async def refresh(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """Bring the state of each to what the vendor has."""
        return await self._look(partial(self._app.cell_stacks.refresh, only=_machines(only)))

    async def destroy(self) -> "tuple[CellRun, ...]":
        """Remove what is left of each; those that hold a machine refuse."""
        return await self._look(self._app.cell_stacks.destroy)

    async def up(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """Bring each to its rows, as operations."""
        ups, machines = StackUps(self._app), _machines(only)

        async def see(cell: CellName) -> UpResult:
            return await ups.run(cell, partial(self._app.cell_stacks.up, cell, only=machines), only=machines)

        return await self._look(see)

    async def leave_up(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """Leave it to the workers to bring each to its rows."""
        from hermesops.placement.cell_runs import CellRun

        ups = StackUps(self._app)

        async def work(cell: CellName) -> CellRun:
            operation = await ups.leave(cell, only=_machines(only))
            return CellRun(cell, operation_id=operation.id)

        return await self._run(work)

    async def _look(self, see: "Callable[[CellName], Awaitable[Preview | UpResult]]") -> "tuple[CellRun, ...]":
        from hermesops.placement.cell_runs import CellRun

        async def work(cell: CellName) -> CellRun:
            return CellRun(cell, (await see(cell)).changes)

        return await self._run(work)

    async def _run(self, work: "Callable[[CellName], Awaitable[CellRun]]") -> "tuple[CellRun, ...]":
        from hermesops.placement.cell_runs import run_cells

        names = [cell.name for cell in self.chosen]
        return await run_cells(names, work, parallel=self._app.env.settings.parallel_cells)


def _machines(names: Collection[str]) -> frozenset[MachineName]:
    return frozenset(MachineName(name) for name in names)
