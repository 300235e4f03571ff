"""Work on one, several or all cells."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermesops.app.container import Container
from hermesops.app.services.stack_runs import StackUps
from hermesops.cells.changes.guard import Overrides
from hermesops.cells.workflow import UpRequest
from hermesops.errors import UsageError
from hermesops.model.cell import Cell
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Preview

if TYPE_CHECKING:
    from hermesops.cells.bulk import CellRun
    from hermesops.cells.changes.guard import Cost
    from hermesops.cells.changes.preview import ChangePreview
    from hermesops.model.stack import UpResult


class Cells:
    """Some cells of an environment.

    Args:
        app: The environment.
        chosen: Which.
    """

    def __init__(self, app: Container, chosen: Sequence[Cell]) -> None:
        self.chosen = tuple(chosen)
        self._app = app

    @classmethod
    def select(cls, app: Container, *, names: Sequence[str], where: str, everything: bool) -> "Cells":
        """The cells that an operator means.

        Raises:
            UsageError: None is meant, or one that is not there.
        """
        from hermesops.cells.selection import select_cells

        cells = app.registry.cells.list()
        return cls(app, select_cells(cells, names=names, where=where, everything=everything))

    @classmethod
    def previewed(cls, app: Container, saved: str) -> "Cells":
        """The cell that a saved preview is of.

        Raises:
            UsageError: It is none, or there is no such cell.
            RefusedError: Its signature does not hold, or it is too old or another environment's.
        """
        preview, _ = app.guards.open(saved)
        return cls.select(app, names=[preview.cell], where="", everything=False)

    async def preview(self, only: Collection[str]) -> "tuple[tuple[CellRun, ...], Cost]":
        """What bringing each to its rows would change, and what everything would cost."""
        seen: list[ChangePreview] = []

        async def see(cell: CellName) -> Preview:
            seen.append(await self._app.cell_stacks.change_preview(cell, only=_machines(only)))
            return seen[-1].preview

        return await self._look(see), await self._app.guards.cost(*seen)

    async def save_preview(self) -> "tuple[tuple[CellRun, ...], Cost, str]":
        """The same of one cell, its machines asked for as well, and the signed file of it.

        Raises:
            UsageError: Several cells are meant.
            RefusedError: The operator's key does not sign.
        """
        from hermesops.cells.bulk import CellRun

        if len(self.chosen) != 1:
            raise UsageError("a saved preview is of one cell; name that cell", hint="hermesops cell list")
        cell = self.chosen[0].name
        outlook = await self._app.cell_stacks.change_preview(cell, with_drift=True)
        cost = await self._app.guards.cost(outlook)
        return (CellRun(cell, outlook.preview.changes),), cost, self._app.guards.sign(outlook, cost)

    async def up_as(self, saved: str, approval: str = "") -> "tuple[CellRun, ...]":
        """Let the saved preview of a cell happen, and nothing else; another operator's approval may go with it."""
        ups = StackUps(self._app)
        return await self._look(lambda cell: ups.run(UpRequest(cell, saved=saved, approval=approval)))

    async def preview_refresh(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """What refreshing each would write into its state."""
        return await self._look(partial(self._app.cell_stacks.preview_refresh, only=_machines(only)))

    async def refresh(self, only: Collection[str]) -> "tuple[CellRun, ...]":
        """Bring the state of each to what the vendor has."""
        return await self._look(partial(self._app.cell_stacks.refresh, only=_machines(only)))

    async def destroy(self) -> "tuple[CellRun, ...]":
        """Remove what is left of each; those that hold a machine refuse."""
        return await self._look(self._app.cell_stacks.destroy)

    async def up(self, only: Collection[str], *, named: Overrides) -> "tuple[CellRun, ...]":
        """Bring each to its rows, as operations."""
        ups = StackUps(self._app)
        return await self._look(lambda cell: ups.run(UpRequest(cell, _machines(only), named)))

    async def leave_up(self, only: Collection[str], *, named: Overrides) -> "tuple[CellRun, ...]":
        """Leave it to the workers to bring each to its rows."""
        from hermesops.cells.bulk import CellRun

        ups = StackUps(self._app)

        async def work(cell: CellName) -> CellRun:
            operation = await ups.leave(UpRequest(cell, _machines(only), named))
            return CellRun(cell, operation_id=operation.id)

        return await self._run(work)

    async def _look(self, see: "Callable[[CellName], Awaitable[Preview | UpResult]]") -> "tuple[CellRun, ...]":
        from hermesops.cells.bulk import CellRun

        async def work(cell: CellName) -> CellRun:
            return CellRun(cell, (await see(cell)).changes)

        return await self._run(work)

    async def _run(self, work: "Callable[[CellName], Awaitable[CellRun]]") -> "tuple[CellRun, ...]":
        from hermesops.cells.bulk import run_cells

        names = [cell.name for cell in self.chosen]
        return await run_cells(names, work, parallel=self._app.env.settings.parallel_cells)


def _machines(names: Collection[str]) -> frozenset[MachineName]:
    return frozenset(MachineName(name) for name in names)
