"""The whole fleet as the registry has it: instances with the machines that their rows order, and how many of what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.model.ids import CellName, ImageId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, SpareStatus


@dataclass(frozen=True)
class Ordered:
    """An instance and the machine that its row orders.

    Attributes:
        image_id: What it boots from; ``None`` is the vendor's own base.
        wanted: ``False`` when the machine was given up and is to be destroyed.
    """

    instance: Instance
    server_type: str
    region: str
    image_id: ImageId | None
    wanted: bool


@dataclass(frozen=True)
class CellTally:
    """One cell in numbers.

    Attributes:
        grid: The status of each living instance, oldest first.
        spares: Machines beside those of instances: how many, by purpose and status.
    """

    cell: CellName
    region: str
    grid: tuple[InstanceStatus, ...]
    by_plan: Mapping[Plan, int] = field(default_factory=dict)
    spares: Mapping[tuple[Purpose, SpareStatus], int] = field(default_factory=dict)

    @property
    def by_status(self) -> dict[InstanceStatus, int]:
        """How many are in which state; states in which none is are left out."""
        return {status: count for status in InstanceStatus if (count := self.grid.count(status))}
