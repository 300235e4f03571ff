"""What the API server needs from whoever runs the machines.

A driver knows processes, disks and networks; the server knows the vendor's API, names, statuses and faults.
Every call is idempotent and may be killed at any moment: a driver looks at the computer, it does not remember.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from typing import Protocol

from hermesops.model.ids import ImageId, MachineId

DAEMON_PORT = 7070
"""TCP port on which the vendor's stand-in daemon listens on a machine's own address."""


class MachinePower(StrEnum):
    """What a look at the computer says about a machine."""

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
    """What a server type gives a machine."""

    vcpu: int
    memory_mib: int
    disk_gib: int


@dataclass(frozen=True)
class SavedImage:
    """An image a driver has put into its store."""

    id: ImageId
    bytes_used: int


class Driver(Protocol):
    """Runs machines. Raises ``UnavailableError`` or ``RefusedError`` with what a person can do about it."""

    async def open(self) -> None:
        """Take the world over: find running machines again, clear what a crash left half-made."""

    async def create(self, plan: MachinePlan) -> None:
        """Make the disk and network of a machine and boot it; returns once it is on its way."""

    async def start(self, machine_id: MachineId) -> None:
        """Boot a stopped machine again."""

    async def stop(self, machine_id: MachineId) -> None:
        """Shut a machine down cleanly, by force after ten seconds."""

    async def reboot(self, machine_id: MachineId) -> None:
        """Reboot hard, as the vendor does."""

    async def delete(self, machine_id: MachineId) -> None:
        """Remove a machine and everything of it. Absent is success."""

    async def power(self, machine_id: MachineId) -> MachinePower:
        """Look at one machine."""

    async def powered(self) -> frozenset[MachineId]:
        """Look at all machines at once: those that are not off. Cheap enough for every second."""

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        """Where the broker reaches the machine's daemon."""

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> SavedImage:
        """Copy a machine's disk into the image store, as of one instant."""

    async def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """Give a machine another size; one that is on is rebooted, one that is off stays off.

        The disk grows with everything on it and never shrinks.
        """

    async def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        """Put a machine's disk back to an image of that same machine; one that is on is rebooted, one off stays off."""

    async def delete_image(self, image_id: ImageId) -> None:
        """Remove an image that no machine uses; refused while one does."""

    async def close(self, *, purge: bool) -> None:
        """Leave the machines alone, or with ``purge`` stop and remove every trace of this world."""
