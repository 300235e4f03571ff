"""Machines that no instance is on: of the warm pool, lent to drills, replacements and previous ones of instances.

An instance is on one machine at a time, which its row names. Its replacement and its previous machine have rows here.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.plan import Plan


class MachineRole(StrEnum):
    """Why a cell has the machine."""

    WARM = "warm"
    """Of the warm pool, for any instance."""

    REPLACEMENT = "replacement"
    """An instance will be on it once it is cut over."""

    PREVIOUS = "previous"
    """An instance was on it until it was cut over; its state is still there."""

    DRILL = "drill"
    """Lent to a drill of a restore or of a rollback; destroyed at its end."""


class UnassignedStatus(StrEnum):
    """The status of an unassigned machine."""

    PREPARING = "preparing"
    """Ordered, or not yet known to be healthy."""

    READY = "ready"
    """Healthy, and may be taken."""

    CLAIMED = "claimed"
    """A user's state is or was on it: it never serves another user."""

    DRAINING = "draining"
    """Marked for deletion: the next run of its cell destroys it."""


@dataclass(frozen=True)
class UnassignedMachine:
    """A row of ``unassigned_machines``.

    Attributes:
        instance_id: Of a replacement, a previous machine or a restore drill; ``None`` in the warm pool and in
            the drill of a rollback.
        image_id: What it boots from; ``None`` is the vendor's own base.
        machine_id: ``None`` until a machine is known.
        wanted: ``False`` once it is marked for deletion: the next run of its cell destroys it.
        epoch: Of its instance while that was on it; 0 where none was.
        ready_at: When it was last found healthy; ``None`` before.
    """

    name: MachineName
    role: MachineRole
    instance_id: InstanceId | None
    cell: CellName
    plan: Plan
    server_type: str
    region: str
    image_id: ImageId | None
    machine_id: MachineId | None
    wanted: bool
    status: UnassignedStatus
    epoch: int
    created_at: datetime
    ready_at: datetime | None = None


def machine_subject(name: MachineName) -> str:
    """An unassigned machine's name in leases and in the audit log."""
    return f"machine/{name}"


def drill_subject(instance_id: InstanceId) -> str:
    """The lease of a test restore of an instance's backup; the instance itself stays free."""
    return f"drill/{instance_id}"


def pool_subject(cell: CellName) -> str:
    """The lease of filling a cell's pool."""
    return f"pool/{cell}"
