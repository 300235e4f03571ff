"""The interface between the server and the driver that runs the machines on this computer.

A driver knows processes, disks and networks; the server knows the vendor's API, names, statuses and faults.
Every call is idempotent and may be killed at any moment: a driver observes the computer, it does not remember.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from typing import Protocol

from hermesops.model.ids import ImageId, MachineId

DAEMON_PORT = 7070
"""TCP port on which the vendor's stand-in daemon listens on a machine's own address."""

MODEL_PORT = 18080
"""TCP port of the model router on this computer, as machines reach it."""

OBJECT_STORE_PORT = 18081
"""TCP port of the object store, as machines reach it."""

PLATFORM_PORT = 18082
"""TCP port of the platform's service, as machines reach it."""

CONNECTOR_PORT = 18092
"""TCP port of the connector, to which agents open their sockets."""

VENDOR_API_PORT = 18089
"""TCP port of the vendor's API for the platform's machine; others' connections are dropped."""


class PlatformService(StrEnum):
    """A service of the platform that is on a machine of its own."""

    MONITORING = "monitoring"
    POSTGRESQL = "postgresql"
    REDIS = "redis"
    LLM_ROUTER = "llm_router"
    OBJECT_STORE = "object_store"
    OBJECT_STORE_IAM = "object_store_iam"
    IDENTITY = "identity"
    USERS = "users"


@dataclass(frozen=True)
class PlatformPort:
    """TCP ports of a service of the platform.

    Attributes:
        on_machine: Where it listens; the default of its role.
        on_gateway: Where machines and this computer reach it.
        for_machines: Whether machines do; else this computer alone.
    """

    on_machine: int
    on_gateway: int
    for_machines: bool = True


PLATFORM_SERVICES: Mapping[PlatformService, PlatformPort] = {
    PlatformService.MONITORING: PlatformPort(8443, 18083),
    PlatformService.POSTGRESQL: PlatformPort(5432, 18084),
    PlatformService.REDIS: PlatformPort(6380, 18085),
    PlatformService.LLM_ROUTER: PlatformPort(8444, 18086),
    PlatformService.OBJECT_STORE: PlatformPort(8445, 18087),
    PlatformService.IDENTITY: PlatformPort(8446, 18088),
    PlatformService.OBJECT_STORE_IAM: PlatformPort(8447, 18090, for_machines=False),
    PlatformService.USERS: PlatformPort(8449, 18091),
}

SERVICE_PORTS = (
    MODEL_PORT,
    OBJECT_STORE_PORT,
    PLATFORM_PORT,
    CONNECTOR_PORT,
    *(port.on_gateway for port in PLATFORM_SERVICES.values() if port.for_machines),
    VENDOR_API_PORT,
)
"""What machines reach on this computer; their links let nothing else through."""


class MachinePower(StrEnum):
    """The power state of a machine, as observed on the computer."""

    ABSENT = "absent"
    STOPPED = "stopped"
    BOOTING = "booting"
    RUNNING = "running"


@dataclass(frozen=True)
class MachinePlan:
    """Everything a driver needs to make one machine.

    Attributes:
        number: Unique small number of the machine in this world; its address and link name follow from it.
        daemon_token: Bearer the daemon accepts, from the broker only.
        image_id: Image it boots from; ``None`` is the base.
        files: Written into the disk before the first boot, by absolute path (``/etc/justavps/env`` …).
        init_script: Shell script run once as root after the first boot; empty for none.
    """

    id: MachineId
    number: int
    hostname: str
    daemon_token: str = field(repr=False)
    image_id: ImageId | None
    vcpu: int
    memory_mib: int
    disk_gib: int
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    init_script: str = ""


@dataclass(frozen=True)
class MachineSize:
    """The size of a machine of a server type."""

    vcpu: int
    memory_mib: int
    disk_gib: int


@dataclass(frozen=True)
class Capacity:
    """Free capacity of this computer for machines.

    Attributes:
        figures: The figures behind the number, for people.
    """

    machines: int
    figures: str


class Driver(Protocol):
    """Runs machines. Its ``UnavailableError`` and ``RefusedError`` name a remedy."""

    @property
    def gateway(self) -> IPv4Address:
        """The one address of this computer that machines reach; known once the world is open."""

    @property
    def subnet(self) -> str:
        """Addresses of the machines' links, in CIDR notation; empty when there are none of its own."""

    @property
    def unlimited(self) -> tuple[str, ...]:
        """Limits of a server type that this computer cannot enforce: of ``memory``, ``cpu``, ``disk``."""

    async def open(self) -> None:
        """Take the world over: find running machines, remove incomplete objects of a crash.

        Raises:
            RefusedError: Another process drives it.
        """

    async def extend_base(self) -> None:
        """Have machines that are made without an image boot from a base with the packages of the platform's machine.

        Machines cannot fetch packages. Until then their base has only the packages of agents' machines, which makes the
        first agent's wait shorter. The base is built first unless this computer has it; the world need not be open.

        Raises:
            RefusedError: This computer lacks something that the build needs.
            UnavailableError: It could not be built.
        """

    async def close(self, *, purge: bool) -> None:
        """Leave the machines alone, or with ``purge`` remove every trace of this world, which need not be open."""

    async def capacity(self) -> Capacity:
        """Count the free capacity for machines."""

    async def create(self, plan: MachinePlan) -> None:
        """Make the disk and network of a machine and boot it; returns once the boot has started.

        A machine of that id that exists already is left as it is.

        Raises:
            RefusedError: It would not boot here (the figures are in the message), its number is taken, or its image is
                not here.
        """

    async def start(self, machine_id: MachineId) -> None:
        """Boot a stopped machine; does nothing for a running one."""

    async def stop(self, machine_id: MachineId) -> None:
        """Shut a machine down cleanly, by force after ten seconds."""

    async def reboot(self, machine_id: MachineId) -> None:
        """Reboot hard, as the vendor does; a stopped machine is booted."""

    async def delete(self, machine_id: MachineId) -> None:
        """Remove a machine and everything of it. Absent is success."""

    async def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """Give a machine another size; one that is on is rebooted, one that is off stays off.

        The disk grows with everything on it and never shrinks.

        Raises:
            UnavailableError: The disk could not be grown; the machine is off, and the call may be repeated.
        """

    async def power(self, machine_id: MachineId) -> MachinePower:
        """Observe one machine; ``RUNNING`` once its daemon accepts connections."""

    async def powered(self) -> frozenset[MachineId]:
        """Observe all machines at once: those that are not off. Cheap enough for every second."""

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        """The address at which the broker reaches the machine's daemon.

        Raises:
            RefusedError: There is no such machine.
        """

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> int:
        """Copy a machine's disk into the image store, as of one instant; return the size of the copy in bytes.

        A running machine is frozen meanwhile. An image of that id that exists already is left as it is.

        Raises:
            UnavailableError: The copy failed, for instance for want of space; nothing is left of it.
        """

    async def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        """Replace a machine's disk by an image of that same machine; one that is on is rebooted, one off stays off.

        Raises:
            RefusedError: The image is another machine's, or there is none.
            UnavailableError: The copy failed, for instance for want of space; the disk is as it was.
        """

    async def delete_image(self, image_id: ImageId) -> None:
        """Remove an image; absent is success.

        Raises:
            RefusedError: A machine uses it.
        """
