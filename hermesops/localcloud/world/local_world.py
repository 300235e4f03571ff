"""A local world from its operator's view: up, down, its contents, its faults.

The server is a process of its own that outlives the command which started it; this module starts, finds and stops
it. It must not print; narration goes to ``report``.
"""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.base.extras import Extra, require
from hermesops.base.narration import counted
from hermesops.base.waiting import Pending, WaitExpiredError, until
from hermesops.errors import BrokenInvariantError, HermesError, Hint, PartlyDoneError, RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import MODEL_PORT, Driver
from hermesops.localcloud.faults.rules import FaultOrder
from hermesops.localcloud.server.control_client import ControlClient, WorldStatus
from hermesops.localcloud.server.process import NARRATION, ServerProcess
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ImageRow, MachineRow, MachineStatus
from hermesops.localcloud.world.driver_choice import DriverChoice
from hermesops.localcloud.world.files import WorldFiles, read_object, read_users_door, write_object
from hermesops.model.ids import MachineId

if TYPE_CHECKING:
    from hermesops.localcloud.model_router.router import Upstream
    from hermesops.localcloud.vendors.issuer import Person
    from hermesops.localcloud.world.platform_socket import Service
    from hermesops.programs.model_router.accounts.books import Ledger

UP_TIMEOUT_S = 1800.0
"""A first start builds the base from Debian's packages, which takes as long as the mirror does."""

_POLL_S = 0.05
_SETTLE_S = 60.0


@dataclass(frozen=True)
class Contents:
    """Ids of the machines of a world, and its number of images."""

    machines: frozenset[str]
    images: int


class World:
    """One local world, identified by its folder.

    Args:
        base_definition: Folder that describes the base machines boot from.
        bases: Where built bases are kept, shared between worlds; ``None`` keeps them in the folder.
        driver: ``nspawn`` or ``sim``; empty for what the world has already, else ``nspawn``.
    """

    def __init__(self, folder: Path, *, base_definition: Path, bases: Path | None = None, driver: str = "") -> None:
        self._files = WorldFiles(folder)
        self._process = ServerProcess(self._files.lock, self._files.log)
        self._choice = DriverChoice(self._files, base_definition, bases, driver)

    def refuse_unfit(self) -> None:
        """Refuse another base or driver than the world's, and, for a new server, a computer that cannot run machines.

        Raises:
            RefusedError: The settings name another one, or this computer or its user cannot run real machines.
            UsageError: The extra that its server needs is missing.
        """
        self._choice.refuse_another()
        if not self._process.pid():
            require(Extra.LOCAL, "a local world")
            self._choice.refuse_incapable()

    @property
    def lacks_base(self) -> bool:
        """Whether its first start builds a base, most of a minute on one processor."""
        return self._choice.lacks_base

    async def up(
        self,
        server_command: Sequence[str],
        *,
        environment: Mapping[str, str],
        report: Callable[[str], None],
        timeout_s: float = UP_TIMEOUT_S,
        vendors: bool = False,
    ) -> WorldStatus:
        """Start the server unless it runs; wait until it answers and earlier running machines run again.

        Args:
            server_command: Starts a process that ends up in ``serve`` for this folder.
            vendors: From now on, run stand-ins of vendors beside it, as of Stripe.

        Raises:
            RefusedError: Not root, the computer lacks what machines need, or the world has another base.
            UsageError: The extra that its server needs is missing.
            UnavailableError: It did not come up; the message says why, and the log more.
            BrokenInvariantError: The world's file is damaged.
        """
        self.refuse_unfit()
        fresh = not self._process.pid()
        if vendors and not self._files.stripe.exists():
            if not fresh:
                hint = Hint(("local", "down"), ", then", ("local", "up", "--vendors"))
                raise RefusedError("the local world is up without vendors", hint=hint)
            write_object(self._files.stripe, {})
        if fresh:
            self._files.world.unlink(missing_ok=True)
            self._process.start(server_command, environment)
        asked_at = time.monotonic()

        async def answers() -> WorldStatus | Pending[WorldStatus]:
            self._process.narrate(report)
            self._process.check()
            return await self._observe() or Pending("no answer yet")

        try:
            status = await until(answers, what="the local world", timeout_s=timeout_s, every_s=_POLL_S)
        except BaseException:
            self._process.give_up()
            raise
        if fresh:
            self._choice.record()
            status = replace(status, base=self._choice.base, driver=self._choice.name)
        report(f"the local world is up after {time.monotonic() - asked_at:.1f} s" if fresh else "it was up already")
        return await self._settled(status, report) if status.unsettled else status

    async def restart(
        self, server_command: Sequence[str], *, environment: Mapping[str, str], report: Callable[[str], None]
    ) -> None:
        """Restart a running server, for instance with other settings; machines keep running. Raises like ``up``."""
        if self._process.pid():
            await self._process.stop()
            await self.up(server_command, environment=environment, report=report)

    async def extend_base(self, report: Callable[[str], None]) -> None:
        """Have new machines boot from a base with the platform's packages; raises as ``Driver.extend_base``."""
        self._choice.refuse_incapable()
        driver = self._choice.build(report)
        try:
            await driver.extend_base()
        finally:
            await driver.close(purge=False)

    async def contents(self) -> Contents | None:
        """Its contents, up or down; ``None`` when its file is damaged or its server is stuck."""
        try:
            if self._process.pid():
                status = await self.status()
                return Contents(frozenset(str(machine["id"]) for machine in status.machines), len(status.images))
            if not self._files.database.exists():
                return Contents(frozenset(), 0)
            with contextlib.closing(Store(self._files.database)) as store:
                return Contents(frozenset(row.id for row in store.machines()), len(store.find(ImageRow)))
        except (BrokenInvariantError, UnavailableError):
            return None

    async def status(self) -> WorldStatus:
        """Observe the world.

        Raises:
            BrokenInvariantError: ``world.json``, or the file of the platform's door, is damaged.
            UnavailableError: The server runs and does not answer.
        """
        if not self._process.pid():
            return WorldStatus(is_up=False)
        status = await self._observe()
        if status is None:
            raise UnavailableError(
                "the local world's server runs but does not answer yet", hint=f"its log: {self._files.log}"
            )
        door = str(read_users_door(self._files.users_door).get("url", ""))
        return replace(status, users_url=door, connector_url=door) if door else status

    async def down(self, *, purge: bool, report: Callable[[str], None]) -> None:
        """Stop the server and the machines; ``purge`` also removes every file of this world.

        Works whatever state a crash left. Without ``purge`` the next ``up`` boots the same machines again.

        Raises:
            RefusedError: Not root.
            PartlyDoneError: Some machines did not stop.
        """
        if not self._files.folder.exists():
            report("there is no local world")
            return
        if self._process.pid():
            report("stopping the server")
            await self._process.stop()
        driver = self._choice.build(report)
        if purge:
            await driver.close(purge=True)
            self._remove_files()
            report("the local world is gone")
            return
        try:
            await self._stop_machines(driver, report)
        finally:
            await driver.close(purge=False)

    async def serve(
        self,
        *,
        report: Callable[[str], None],
        upstream: "Upstream | None" = None,
        platform: "Service | None" = None,
        users: "Service | None" = None,
        connector: "Service | None" = None,
        people: "Callable[[], Sequence[Person]]" = tuple,
        object_store_program: Callable[[], Path] | None = None,
        ledger: "Ledger | None" = None,
    ) -> None:
        """Be the server, until SIGTERM; see ``localcloud.server.wiring.serve``. Narration goes to the world's log."""
        from hermesops.localcloud.server import wiring  # noqa: PLC0415 - half a second that only the server needs

        await wiring.serve(
            self._files.folder,
            self._choice.build(lambda line: report(NARRATION + line)),
            # All simulated worlds of this computer share its loopback, so each takes a port of its own.
            model_port=0 if self._choice.is_simulated else MODEL_PORT,
            upstream=upstream,
            platform=platform,
            users=users,
            connector=connector,
            people=people,
            object_store_program=object_store_program,
            ledger=ledger,
        )

    async def faults(self) -> list[Mapping[str, object]]:
        """The faults that may still strike."""
        return await (await self._client()).faults()

    async def set_fault(self, order: FaultOrder) -> Mapping[str, object]:
        """Order a fault.

        Raises:
            UsageError: There is no such fault, or a field is wrong.
        """
        order.to_row()  # refused here, a mistake needs no world that is up
        return await (await self._client()).set_fault(asdict(order))

    async def clear_faults(self) -> int:
        """Remove all faults; return their number."""
        return await (await self._client()).clear_faults()

    async def object_store(self) -> Mapping[str, str]:
        """The endpoints of the world's object store, as in ``WorldStatus``; started unless it runs.

        Raises:
            UnavailableError: The world is down, its server finds no versitygw, or the object store does not come up.
        """
        return await (await self._client()).start_object_store()

    async def _client(self) -> ControlClient:
        status = await self.status()
        if not status.is_up:
            raise UnavailableError("the local world is down", hint=Hint(("local", "up")))
        return ControlClient(status.api_url, Path(status.api_key_file))

    async def _settled(self, status: WorldStatus, report: Callable[[str], None]) -> WorldStatus:
        """Wait until earlier running machines run again, for a minute at most."""
        latest = status

        async def settled() -> WorldStatus | Pending[WorldStatus]:
            nonlocal latest
            latest = await self._observe() or latest
            return Pending(f"{', '.join(latest.unsettled)} still on the way") if latest.unsettled else latest

        with contextlib.suppress(WaitExpiredError):
            return await until(settled, what="its machines", timeout_s=_SETTLE_S, every_s=_POLL_S, report=report)
        return latest

    async def _observe(self) -> WorldStatus | None:
        """The status that the server reports; ``None`` while it does not answer."""
        facts = read_object(self._files.world)
        if facts is None:
            return None
        status = await ControlClient(str(facts["api_url"]), self._files.api_key).status()
        if status is None:
            return None
        monitoring = status.monitoring_url if self._files.monitoring.exists() else ""
        return replace(status, base=self._choice.base, driver=self._choice.name, monitoring_url=monitoring)

    async def _stop_machines(self, driver: Driver, report: Callable[[str], None]) -> None:
        with contextlib.closing(Store(self._files.database)) as store:
            rows = [row for row in store.find(MachineRow) if row.made]
            if not rows:
                return
            await driver.open()
            stopped = await asyncio.gather(*(_stop(driver, store, row) for row in rows))
        if failed := [message for message in stopped if message]:
            raise PartlyDoneError("; ".join(failed), hint=Hint(("local", "down", "--purge"), "removes them by force"))
        report(f"stopped {counted(len(rows), 'machine')}; hermesops local up boots them again")

    def _remove_files(self) -> None:
        files = self._files
        database = [files.database.with_name(files.database.name + end) for end in ("", "-wal", "-shm")]
        logs = [files.log, files.log.with_name(f"{files.log.name}.1")]
        keys = (
            files.api_key,
            files.model_key,
            files.provider_key,
            files.own_provider_keys,
            files.object_store_key,
            files.composio_key,
            *files.stripe_keys,
            *files.messenger_keys,
        )
        vendors = (files.stripe, files.composio, files.users_door)
        others = (files.world, files.base, files.platform, files.monitoring, files.date_shift, *vendors, files.lock)
        for file in (*others, *keys, *logs, *database):
            file.unlink(missing_ok=True)
        for folder in (files.object_store, files.model_usage):
            shutil.rmtree(folder, ignore_errors=True)
        for draft in files.folder.glob(".*.*.*"):
            draft.unlink()
        with contextlib.suppress(OSError):
            files.folder.rmdir()  # files of others stay


async def _stop(driver: Driver, store: Store, row: MachineRow) -> str:
    """Stop one machine, keeping its owner's orders; return the error as text, empty after success."""
    try:
        await driver.stop(MachineId(row.id))
    except HermesError as failure:
        return f"{row.name}: {failure.message}"
    if row.status == MachineStatus.READY:
        store.update(MachineRow, row.id, status=MachineStatus.STOPPED)
    return ""
