"""Machines that a cell has beside those its instances are on: for whoever comes, for an instance's next step, or left.

An instance is on one machine at a time, so its row names one. What it will be on, and what it was on until a moment
ago, stands here.
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
    """Lent to a drill: a restore of an instance's state, or a release's way back; destroyed at its end."""


class SpareStatus(StrEnum):
    """Where it stands."""

    GROWING = "growing"
    """Ordered, or not yet found to be well."""

    READY = "ready"
    """Well, and may be taken."""

    CLAIMED = "claimed"
    """A user's state is or was on it: it is nobody else's ever again."""

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
        ready_at: When it was last found to be well; ``None`` before that.
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
    """What is leased while a spare machine is warmed up, taken or given up, and what the audit calls it."""
    return f"spare/{name}"


def drill_subject(instance_id: InstanceId) -> str:
    """What is leased while an instance's backup is restored for proof; the instance itself is free meanwhile."""
    return f"drill/{instance_id}"


def pool_subject(cell: CellName) -> str:
    """What is leased while a cell's pool is brought to its size."""
    return f"pool/{cell}"
