"""The whole fleet: ordered by the registry, listed by the vendor, and low on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, OperationId
from hermesops.model.plan import Plan


@dataclass(frozen=True)
class Ordered:
    """An instance and the machine that its row orders.

    Attributes:
        image_id: What it boots from; ``None`` is the vendor's own base.
        wanted: ``False`` when the machine is to be destroyed.
    """

    instance: Instance
    server_type: str
    region: str
    image_id: ImageId | None
    wanted: bool


@dataclass(frozen=True, slots=True)
class RecordedInstance:
    """A living instance as ``fleet status`` reads it; thousands are in memory at once.

    Attributes:
        user: Alias, else id.
        machine_status: Of its machine in the vendor's last listing, or ``GONE``; empty when that does not have it.
        heartbeat_s: Unix time of the last heartbeat, whole seconds; ``None`` for never.
        reported_gateway: What hermes-node said of its gateway with the last heartbeat; ``None`` where it said nothing.
        place: Among those that were read with it, from the oldest.
    """

    id: InstanceId
    user: str
    plan: Plan
    status: InstanceStatus
    machine_status: str = ""
    heartbeat_s: int | None = None
    reported_gateway: GatewayHealth | None = None
    place: int = field(default=0, compare=False)


@dataclass(frozen=True)
class CellTally:
    """One cell: its instances and its other machines.

    Attributes:
        instances: The living ones, oldest first.
        unassigned: How many unassigned machines, by role and status.
    """

    cell: CellName
    region: str
    instances: tuple[RecordedInstance, ...]
    unassigned: Mapping[tuple[MachineRole, UnassignedStatus], int] = field(default_factory=dict)


READY = "ready"
"""The vendor API's status of a machine that is up."""

GONE = "gone"
"""Our status of a machine that an instance is on and that the vendor did not list."""


@dataclass(frozen=True)
class MachineObservation:
    """One machine at one moment.

    Attributes:
        status: The vendor's, or ``GONE``.
        boot_id: Of its boot at that moment; empty when it was not read.
        boot_seen_at: When that boot was last observed; ``None`` for never.
    """

    machine_id: MachineId
    name: str
    server_type: str
    status: str
    boot_id: str = ""
    boot_seen_at: datetime | None = None


SHARE = 0.8
"""Share of a plan's disk from which on an agent counts as low on disk."""


@dataclass(frozen=True)
class LowOnDisk:
    """An agent that is low on disk.

    Attributes:
        user: Alias, else id.
        bytes: Of its data, in its newest backup.
        size: Bytes that its plan has room for.
    """

    user: str
    plan: Plan
    bytes: int
    size: int


class RepairKind(StrEnum):
    """Repairs of an instance whose machine is dead."""

    REBOOT = "reboot"
    """Its machine is started, rebooted, or switched off and on."""
    REPLACE = "replace"
    """Its newest backup is restored onto a new machine."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of the last day, by the monitor or by an operator.

    Attributes:
        ended_at: ``None`` while it has not ended.
        has_failed: Whether it ended without what it was for.
    """

    instance_id: InstanceId
    kind: RepairKind
    began_at: datetime
    ended_at: datetime | None = None
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedInstance:
    """An instance that should run; thousands are held at once.

    Attributes:
        user: Alias, else id.
        machine_status: As in ``RecordedInstance``, like ``reported_gateway``.
        gone_at: When the vendor was first seen not to list its machine; ``None`` where it does.
        busy: Why nobody else may touch it now; empty where nothing is under way.
    """

    id: InstanceId
    user: str
    cell: CellName
    machine_status: str = ""
    last_heartbeat: datetime | None = None
    gone_at: datetime | None = None
    busy: str = ""
    reported_gateway: GatewayHealth | None = None


@dataclass(frozen=True)
class ExpectedFleet:
    """Every instance that should run, with its repairs.

    Attributes:
        now: By the registry's clock.
        repairs: Of the last day.
        left: Unfinished repairs that the monitor began and nobody works on.
    """

    now: datetime
    listed_at: datetime | None
    instances: tuple[ExpectedInstance, ...]
    repairs: tuple[Repair, ...] = ()
    left: tuple[OperationId, ...] = ()
