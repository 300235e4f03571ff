"""A cell: at most some 40 machines in one Pulumi stack, the blast radius of infrastructure changes."""

from dataclasses import dataclass

from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName


@dataclass(frozen=True)
class CellMachine:
    """One machine a cell should have.

    Attributes:
        image_id: What it boots from; ``None`` is the vendor's own base.
        owner: The instance it belongs to; ``None`` in the warm pool.
    """

    name: MachineName
    server_type: str
    region: str
    image_id: ImageId | None
    owner: InstanceId | None


@dataclass(frozen=True)
class CellSpec:
    """Desired state of a cell, built from registry rows only."""

    name: CellName
    machines: tuple[CellMachine, ...]
