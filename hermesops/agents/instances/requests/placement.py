"""Where an instance's next machine can be, and what it boots from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from hermesops.agents.cells.scheduling import choose_cell
from hermesops.agents.instances import refusals
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import ImageId
from hermesops.model.image import Image
from hermesops.model.plan import Plan
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class MachinePlacement:
    """Chooses cell and region of new machines."""

    registry: Registry
    image_name: str
    cell_size: int
    plans_apart: bool

    def here(self, instance: Instance, plan: Plan | None = None) -> Placement:
        """Another machine in the region that the instance is in; of another plan, where that is asked."""
        return self._choose(self.registry.cells.list(), plan or instance.plan, self.cell(instance.cell).region)

    def region(self, region: str, instance: Instance) -> Placement:
        """Another machine in that region, in another cell than the instance's."""
        full = [
            replace(c, machines=self.cell_size) if c.name == instance.cell else c for c in self.registry.cells.list()
        ]
        return self._choose(full, instance.plan, region)

    def cell(self, name: str) -> Placement:
        """That cell.

        Raises:
            UsageError: There is none of that name.
        """
        cells = {str(cell.name): cell for cell in self.registry.cells.list()}
        if name not in cells:
            raise unknown_name("cell", name, cells)
        return Placement(cells[name].name, cells[name].region, cells[name].only_plan)

    def image(self) -> ImageId:
        """The image that new machines boot."""
        return latest_image(self.registry, self.image_name).id

    def _choose(self, cells: Sequence[Cell], plan: Plan, region: str) -> Placement:
        choose = partial(choose_cell, plan=plan, region=region, size=self.cell_size, plans_apart=self.plans_apart)
        return choose(cells)


async def refuse_unsold(client: InstanceClient, server_type: str, region: str) -> None:
    """Raise RefusedError when no such machines can be rented there now."""
    if not await client.sells(server_type, region):
        raise refusals.not_sold(server_type, region)


def latest_image(registry: Registry, name: str) -> Image:
    """The newest image of a name.

    Raises:
        RefusedError: None was built.
    """
    image = registry.images.latest(name)
    if image is None:
        raise refusals.no_image(name)
    return image
