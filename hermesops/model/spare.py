"""Spare machines, which no instance is on: of the warm pool, of drills, and next and former ones of instances.

An instance is on one machine at a time, which its row names. Its next and its former machine have rows here.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.plan import Plan


class Purpose(StrEnum):
    """Why a cell has the machine."""

    POOL = "pool"
    """Of the warm pool: unassigned."""

    NEXT = "next"
    """An instance will be on it once it is cut over."""

    FORMER = "former"
    """An instance was on it until it was cut over; its state is still there."""

    DRILL = "drill"
    """Lent to a drill of a restore or of a rollback; destroyed at its end."""


class SpareStatus(StrEnum):
    """The status of a spare machine."""

    GROWING = "growing"
    """Ordered, or not yet known to be healthy."""

    READY = "ready"
    """Healthy, and may be taken."""

    CLAIMED = "claimed"
    """A user's state is or was on it: it is never given to another."""

    DRAINING = "draining"
    """Given up, and to be destroyed."""


@dataclass(frozen=True)
class Spare:
    """A row of ``spare_machines``.

    Attributes:
        instance_id: Whose next or former machine it is; ``None`` in the warm pool, and in a release's drill.
        image_id: What it boots from; ``None`` is the vendor's own base.
        machine_id: ``None`` until a machine is known.
        wanted: ``False`` when it was given up: the next run of its cell destroys it.
        epoch: Of its instance while that was on it; 0 where none was.
        ready_at: When it was last found healthy; ``None`` before.
    """

    name: MachineName
    purpose: Purpose
    instance_id: InstanceId | None
    cell: CellName
    plan: Plan
    server_type: str
    region: str
    image_id: ImageId | None
    machine_id: MachineId | None
    wanted: bool
    status: SpareStatus
    epoch: int
    created_at: datetime
    ready_at: datetime | None = None


def spare_subject(name: MachineName) -> str:
    """A spare machine's name in leases and in the audit log."""
    return f"spare/{name}"


def drill_subject(instance_id: InstanceId) -> str:
    """The lease of a test restore of an instance's backup; the instance itself stays free."""
    return f"drill/{instance_id}"


def pool_subject(cell: CellName) -> str:
    """The lease of filling a cell's pool."""
    return f"pool/{cell}"
