"""The driver of real machines on this computer: takes a world over, and does blocking work on threads of its own."""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from hermesops.errors import Hint, RefusedError
from hermesops.localcloud.drivers.interface import (
    DAEMON_PORT,
    Capacity,
    Driver,
)
from hermesops.localcloud.drivers.nspawn import images
from hermesops.localcloud.drivers.nspawn.computer import cgroup
from hermesops.localcloud.drivers.nspawn.disks.base_image import ensure_base, read_definition
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.drivers.nspawn.open_world import OpenWorld
from hermesops.localcloud.drivers.nspawn.store import Store
from hermesops.localcloud.drivers.nspawn.world_lock import Ownership
from hermesops.model.ids import MachineId

_ALL_MAY_WRITE = 0o666
_THREADS = 32

P = ParamSpec("P")
T = TypeVar("T")
_UNMOUNTABLE = set(",:\\\n")


def _silent(_: str) -> None:
    """Drop a line of narration, for ``report``."""


def _on_thread(
    work: Callable[Concatenate[OpenWorld, P], T],
) -> Callable[Concatenate["NspawnDriver", P], Coroutine[Any, Any, T]]:
    """A method that runs ``work`` with the driver's open world, on a thread of the driver's own."""

    async def method(driver: "NspawnDriver", /, *arguments: P.args, **options: P.kwargs) -> T:
        return await driver.aside(work, driver.open_world, *arguments, **options)

    return method


class NspawnDriver(Driver):
    """A world of machines on this computer. Needs root.

    Args:
        state: The world's folder; everything of it is below, or carries its tag.
        definition: Folder that describes the base, ``images/base-debian12``.
        bases: Where built bases are kept; ``<state>/bases`` unless given. Worlds may share it.
        service_ports: TCP ports of ``gateway`` that machines may reach.
    """

    def __init__(
        self,
        state: Path,
        *,
        definition: Path,
        bases: Path | None = None,
        service_ports: Iterable[int] = (18080,),
        report: Callable[[str], None] = _silent,
    ) -> None:
        self._state = state.resolve()
        self._definition = definition
        self._bases = (bases or self._state / "bases").resolve()
        self._ports = tuple(service_ports)
        self._report = report
        self._store = Store(self._state)
        self._ownership = Ownership(self._state)
        self._world: OpenWorld | None = None
        self._threads = _threads()

    async def aside(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Do blocking work on a thread of the driver's own: a slow stop must not delay other callers.

        Cancelling the caller does not stop the work half-way; ``close`` waits for it.
        """
        call = functools.partial(work, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @property
    def open_world(self) -> OpenWorld:
        """The world, once it is open."""
        if self._world is None:
            raise RefusedError("the local world is not open", hint=Hint(("local", "up")))
        return self._world

    # The network

    @property
    def gateway(self) -> IPv4Address:
        """See ``Driver.gateway``: machines reach it on the service ports only."""
        return self.open_world.network.gateway

    @property
    def subnet(self) -> str:
        return str(self.open_world.network.subnet)

    @property
    def unlimited(self) -> tuple[str, ...]:
        """See ``Driver.unlimited``: the limits that this computer's control groups lack."""
        return cgroup.unlimited()

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        return self.open_world.address(machine_id), DAEMON_PORT

    # The world

    async def open(self) -> None:
        """See ``Driver.open``; builds the base too."""
        await self.aside(self._take_over)
        await self.aside(self._base)

    async def extend_base(self) -> None:
        """See ``Driver.extend_base``; the world need not be open."""
        await self.aside(self._extend_base)

    def _extend_base(self) -> None:
        ensure_base(read_definition(self._definition).for_platform(), self._bases, self._report)
        self._store.prepare()
        self._store.extended_base.touch()  # once it is there: a world never waits for a base that cannot be built

    def _base(self) -> Path:
        definition = read_definition(self._definition)
        if self._store.extended_base.exists():
            definition = definition.for_platform()
        return ensure_base(definition, self._bases, self._report)

    def _take_over(self, *, forgiving: bool = False) -> OpenWorld:
        if os.geteuid() != 0:
            raise RefusedError("local machines need root", hint="run as root, or use a remote environment")
        if Path("/dev/null").stat().st_mode & _ALL_MAY_WRITE != _ALL_MAY_WRITE:  # machines copy the node's mode
            raise RefusedError("/dev/null of this computer is not writable by all", hint="chmod 666 /dev/null")
        if _UNMOUNTABLE & set(f"{self._state}{self._bases}"):
            raise RefusedError(f"a local world cannot live in {self._state}: no comma, colon or backslash in its path")
        self._store.prepare()
        self._ownership.take()
        self._world = OpenWorld(self._store, self._ports, self._base, forgiving=forgiving)
        return self._world

    async def close(self, *, purge: bool) -> None:
        """See ``Driver.close``. A cache of bases outside the world's folder is kept: other worlds use it."""
        await asyncio.to_thread(self._close, purge=purge)

    def _close(self, *, purge: bool) -> None:
        self._threads.shutdown(wait=True)  # running work ends first, while the world is still ours
        self._threads = _threads()
        try:
            if purge:
                self._purge()
        finally:
            self._ownership.give_up()

    def _purge(self) -> None:
        # One that was never opened is how a world whose server is dead is removed.
        world = self._world or self._take_over(forgiving=True)
        world.remove()
        if self._bases == self._state / "bases":
            remove_tree(self._bases)
        self._world = None

    # Machines and images

    async def capacity(self) -> Capacity:
        free = await self.aside(self.open_world.free_resources)
        return Capacity(free.machines, str(free))

    create = _on_thread(OpenWorld.create)
    start = _on_thread(OpenWorld.start)
    stop = _on_thread(OpenWorld.stop)
    reboot = _on_thread(OpenWorld.reboot)
    delete = _on_thread(OpenWorld.delete)
    resize = _on_thread(OpenWorld.resize)
    power = _on_thread(OpenWorld.power)
    powered = _on_thread(OpenWorld.powered)
    save_image = _on_thread(images.save)
    restore = _on_thread(images.restore)
    delete_image = _on_thread(images.delete)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="machines")
