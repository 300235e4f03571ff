"""The whole fleet: what the registry's rows order, what the vendor last listed, who is low on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hermesops.model.ids import CellName, ImageId, MachineId
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


READY = "ready"
"""What the vendor calls a machine that is up, in the words of its API."""

GONE = "gone"
"""The status of a machine that an instance is on and that the vendor did not list; the vendor says no such thing."""


@dataclass(frozen=True)
class MachineObservation:
    """One machine at one moment.

    Attributes:
        status: The vendor's, or ``GONE``.
        boot_id: Of its boot at that moment; empty when the machine was not asked.
        boot_seen_at: When that boot was seen last; ``None`` when it never was.
    """

    machine_id: MachineId
    name: str
    server_type: str
    status: str
    boot_id: str = ""
    boot_seen_at: datetime | None = None


@dataclass(frozen=True)
class Unconfirmed:
    """A running instance whose machine the vendor does not call ready.

    Attributes:
        user: Alias, else id.
        machine: The machine's name.
        status: What it was at the last listing; empty when it is on that machine only since then.
    """

    user: str
    machine: str
    status: str


@dataclass(frozen=True)
class Confirmation:
    """What the vendor said of the machines of all instances that the registry calls running.

    Attributes:
        listed_at: When all machines were listed last; ``None`` when they never were.
        confirmed: Running instances whose machines were ready then.
        unconfirmed: The others, by user; none while nothing was ever listed.
    """

    listed_at: datetime | None
    confirmed: int
    unconfirmed: tuple[Unconfirmed, ...] = ()


SHARE = 0.8
"""Part of the room from which on somebody is told."""


@dataclass(frozen=True)
class LowOnDisk:
    """An agent that is low on disk.

    Attributes:
        user: What a person calls its user.
        bytes: Of its data, in its newest backup.
        size: Bytes that its plan has room for.
    """

    user: str
    plan: Plan
    bytes: int
    size: int
