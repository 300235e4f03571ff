"""Drives real machines on this computer: takes a world over, and does on threads what the API server asks for."""

import asyncio
import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import (
    DAEMON_PORT,
    Driver,
    MachinePlan,
    MachinePower,
    MachineSize,
    SavedImage,
)
from hermesops.localcloud.drivers.nspawn.computer import cgroup, resources
from hermesops.localcloud.drivers.nspawn.disks.base_image import ensure_base, read_definition
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.drivers.nspawn.images import Images
from hermesops.localcloud.drivers.nspawn.machines import Machines
from hermesops.localcloud.drivers.nspawn.open_world import Holding
from hermesops.localcloud.drivers.nspawn.store import Store
from hermesops.localcloud.drivers.nspawn.world_lock import Ownership
from hermesops.model.ids import ImageId, MachineId

_ALL_MAY_WRITE = 0o666
_THREADS = 32

P = ParamSpec("P")
T = TypeVar("T")
_UNMOUNTABLE = set(",:\\\n")


class _Opened(NamedTuple):
    held: Holding
    machines: Machines
    images: Images


def _silent(_: str) -> None:
    """Say nothing."""


class NspawnDriver(Driver):
    """A world of machines on this computer. Needs root.

    Args:
        state: The world's folder; everything of it is below, or carries its tag.
        definition: Folder that describes the base, ``images/base-debian12``.
        bases: Where built bases are kept; ``<state>/bases`` unless given. Worlds may share it.
        service_ports: TCP ports of ``gateway`` that machines may reach.
        tell: Called with lines of narration for work that takes long.
    """

    def __init__(
        self,
        state: Path,
        *,
        definition: Path,
        bases: Path | None = None,
        service_ports: Iterable[int] = (18080,),
        tell: Callable[[str], None] = _silent,
    ) -> None:
        self._state = state.resolve()
        self._definition = definition
        self._bases = (bases or self._state / "bases").resolve()
        self._ports = tuple(service_ports)
        self._tell = tell
        self._store = Store(self._state)
        self._ownership = Ownership(self._state)
        self._opened: _Opened | None = None
        self._threads = _threads()

    async def _aside(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Do blocking work on a thread of the driver's own: a slow stop must not hold up somebody else's look.

        Cancelling the caller does not stop the work half-way; ``close`` waits for it.
        """
        call = functools.partial(work, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @property
    def _open_world(self) -> _Opened:
        if self._opened is None:
            raise RefusedError("the local world is not open", hint="hermesops local up")
        return self._opened

    # What callers need to know of the network once the world is open

    @property
    def gateway(self) -> IPv4Address:
        """The address of this computer that machines reach, on the service ports only; bind services to it."""
        return self._open_world.held.network.gateway

    @property
    def subnet(self) -> str:
        """The world's addresses, in CIDR notation."""
        return str(self._open_world.held.network.subnet)

    @property
    def unlimited(self) -> tuple[str, ...]:
        """What of a server type this computer's control groups cannot hold machines to."""
        return cgroup.unlimited()

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        """Where the broker reaches the machine's daemon.

        Raises:
            RefusedError: There is no such machine.
        """
        return self._open_world.machines.address(machine_id), DAEMON_PORT

    # The world

    async def open(self) -> None:
        """Take the world over: build the base, find running machines again, clear what a crash left half-made."""
        await self._aside(self._open)

    def _open(self) -> None:
        self._take_over()
        self._base()

    def _base(self) -> Path:
        return ensure_base(read_definition(self._definition), self._bases, self._tell)

    def _take_over(self, *, forgiving: bool = False) -> _Opened:
        if os.geteuid() != 0:
            raise RefusedError("local machines need root", hint="run as root, or use a remote environment")
        if Path("/dev/null").stat().st_mode & _ALL_MAY_WRITE != _ALL_MAY_WRITE:  # machines copy the node's mode
            raise RefusedError("/dev/null of this computer is not writable by all", hint="chmod 666 /dev/null")
        if _UNMOUNTABLE & set(f"{self._state}{self._bases}"):
            raise RefusedError(f"a local world cannot live in {self._state}: no comma, colon or backslash in its path")
        self._store.prepare()
        self._ownership.take()
        held = Holding.take_over(self._store, self._ports, forgiving=forgiving)
        self._opened = _Opened(held, Machines(held, self._base), Images(held))
        return self._opened

    async def close(self, *, purge: bool) -> None:
        """Leave the machines alone, or with ``purge`` stop and remove every trace of this world.

        To purge, the world need not be open; it is then taken over first.
        A cache of bases that lies elsewhere is kept: other worlds stand on it.
        """
        await asyncio.to_thread(self._close, purge=purge)

    def _close(self, *, purge: bool) -> None:
        self._threads.shutdown(wait=True)  # what is under way ends first; nobody else may own the world meanwhile
        self._threads = _threads()
        try:
            if purge:
                self._purge()
        finally:
            self._ownership.give_up()

    def _purge(self) -> None:
        # One that was never opened is how a world whose server is dead is removed.
        opened = self._opened or self._take_over(forgiving=True)
        opened.machines.delete_all()
        opened.held.remove()
        if self._bases == self._state / "bases":
            remove_tree(self._bases)
        self._opened = None

    # Machines

    async def create(self, plan: MachinePlan) -> None:
        """Make the disk and network of a machine and boot it; returns once it is on its way.

        A machine of that id that exists already is left as it is.

        Raises:
            RefusedError: It would not boot here (the figures are in the message), or its image is not here.
        """
        await self._aside(self._open_world.machines.create, plan)

    async def start(self, machine_id: MachineId) -> None:
        """Boot a stopped machine again; a running one is left alone."""
        await self._aside(self._open_world.machines.start, machine_id)

    async def stop(self, machine_id: MachineId) -> None:
        """Shut a machine down cleanly, by force after ten seconds."""
        await self._aside(self._open_world.machines.stop, machine_id)

    async def reboot(self, machine_id: MachineId) -> None:
        """Reboot hard, as the vendor does; a stopped machine is booted."""
        await self._aside(self._open_world.machines.reboot, machine_id)

    async def delete(self, machine_id: MachineId) -> None:
        """Remove a machine and everything of it. Absent is success."""
        await self._aside(self._open_world.machines.delete, machine_id)

    async def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """Give a machine another size; one that is on is rebooted. The disk never shrinks.

        Raises:
            UnavailableError: The disk could not be grown; the machine is off, and the call may be repeated.
        """
        await self._aside(self._open_world.machines.resize, machine_id, size)

    async def power(self, machine_id: MachineId) -> MachinePower:
        """Look at one machine; ``RUNNING`` once its daemon accepts connections."""
        return await self._aside(self._open_world.machines.power, machine_id)

    async def powered(self) -> frozenset[MachineId]:
        """Look at all machines at once: those that are not off."""
        return await self._aside(self._open_world.machines.powered)

    # Images

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> SavedImage:
        """Copy a machine's disk into the image store, as of one instant; a running machine is frozen meanwhile.

        An image of that id that exists already is returned as it is.

        Raises:
            UnavailableError: The copy failed, for instance for want of space; nothing is left of it.
        """
        return await self._aside(self._open_world.images.save, machine_id, image_id)

    async def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        """Put a machine's disk back to an image of that same machine; one that is on is rebooted.

        Raises:
            RefusedError: The image is another machine's.
            UnavailableError: The copy failed, for instance for want of space; the disk is as it was.
        """
        await self._aside(self._open_world.images.restore, machine_id, image_id)

    async def delete_image(self, image_id: ImageId) -> None:
        """Remove an image that no machine uses; absent is success.

        Raises:
            RefusedError: A machine stands on it.
        """
        await self._aside(self._open_world.images.delete, image_id)

    # Room

    async def room(self) -> resources.Room:
        """How many more machines would boot on this computer now, and the figures behind that."""
        return await self._aside(self._open_world.held.room)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="machines")
