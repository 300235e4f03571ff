"""Changes of warm pools before they are made: the machines, and the monthly cost before and after."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from hermesops.agents.cells.cost.bill import Cost
from hermesops.agents.cells.cost.prices import cost_of_change
from hermesops.agents.cells.scheduling import choose_cell
from hermesops.agents.pool.decide import PoolSizes, Target
from hermesops.agents.pool.directory import PoolMachines
from hermesops.model.fleet.cell import Cell, CellMachine
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import MachineName
from hermesops.settings.fields import Settings
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client

_NEW = MachineName("")
"""Stands for a machine that is not ordered yet."""


@dataclass(frozen=True)
class PoolPreview:
    """A change of warm pools that was not made.

    Attributes:
        machines: The machines of the pools now.
        cost: Of the machines of the pools, those that are being destroyed left out.
    """

    machines: tuple[UnassignedMachine, ...]
    cost: Cost


@dataclass(frozen=True)
class PoolPreviews:
    """Foresees a drain and a filling of warm pools; nothing is changed."""

    settings: Settings
    registry: Registry
    vendor: Callable[[], AbstractAsyncContextManager[Client]]

    async def drain(self, cells: Collection[str] = ()) -> PoolPreview:
        """The machines that a drain destroys.

        Args:
            cells: As an operator typed them; all without any.

        Raises:
            UsageError: There is no cell of a name.
        """
        machines = await in_db_thread(PoolMachines(self.registry).list, cells)
        wanted = [machine for machine in machines if machine.wanted]
        return PoolPreview(machines, await cost_of_change(self.vendor, wanted, ()))

    async def fill(self) -> Cost:
        """The cost of the pools before and after the job ``pools``, with the present sizes, types and image."""
        before, after = await in_db_thread(self._filled)
        return await cost_of_change(self.vendor, before, after)

    def _filled(self) -> tuple[list[UnassignedMachine], list[UnassignedMachine | CellMachine]]:
        registry, settings = self.registry, self.settings
        image = registry.images.latest(settings.image)
        sizes = PoolSizes(settings.pool_size, settings.server_types, image.id if image else None, settings.cell_size)
        before = [machine for machine in PoolMachines(registry).list() if machine.wanted]
        after: list[UnassignedMachine | CellMachine] = []
        for cell in self._cells():
            of_cell = [machine for machine in before if machine.cell == cell.name]
            after += filled(cell, of_cell, sizes.targets(cell), room=max(0, settings.cell_size - cell.machines))
        return before, after

    def _cells(self) -> list[Cell]:
        """All cells, and those that a filling opens."""
        registry, settings = self.registry, self.settings
        cells = list(registry.cells.list())
        for plan, size in settings.pool_size.items():
            region = settings.plan_regions.get(plan, settings.region)
            place = choose_cell(
                cells, plan=plan, region=region, size=settings.cell_size, plans_apart=settings.plans_apart
            )
            if size and place.cell not in {cell.name for cell in cells}:
                cells.append(Cell(place.cell, place.region, place.only_plan, 0, registry.now()))
        return cells


def filled(
    cell: Cell, machines: Sequence[UnassignedMachine], targets: Iterable[Target], *, room: int
) -> list[UnassignedMachine | CellMachine]:
    """The machines of a cell's pool after it was filled or shrunk, by rows alone. Pure.

    Args:
        machines: Of the pool now, without those that are being destroyed.
        room: For how many more machines the cell has room.
    """
    after: list[UnassignedMachine | CellMachine] = []
    for target in targets:
        of_plan = [machine for machine in machines if machine.plan is target.plan]
        if target.image_id is None:  # nothing is made or destroyed
            after += of_plan
            continue
        kind = (target.image_id, target.server_type)
        fit = [machine for machine in of_plan if (machine.image_id, machine.server_type) == kind]
        new = min(max(0, target.size - len(fit)), room)
        room -= new
        after += fit[: target.size]
        after += [CellMachine(_NEW, target.server_type, cell.region, target.image_id, None, target.plan)] * new
    return after
