"""Every fault of the vendor's against every call of the provider's: it ends well in the end, and nothing is doubled."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hermesops.errors import HermesError
from hermesops.infra.provider.backoff import Timeouts
from hermesops.infra.provider.images import Images
from hermesops.infra.provider.machines import Machines
from hermesops.infra.provider.observation import HalfMadeError, ImageSpec, MachineSpec
from hermesops.infra.provider.vendor import JustAvps
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.vendor.justavps import Client
from tests.support.worlds.local.local_server import LocalCloud, serving

TRIES = 6
"""Runs of an engine until it must have ended well; a fault strikes up to three times."""

PROXY = {FaultKind.SILENCE_CUT, FaultKind.PROXY_UNAUTHORISED}
KINDS = [kind for kind in FaultKind if kind not in PROXY and not kind.startswith(("webhook", "backup"))]
"""Those that the provider can meet."""


@dataclass
class Account:
    """One machine's name, and an image's, in one world.

    Attributes:
        repeated: What went wrong on the way, by class.
    """

    cloud: LocalCloud
    machines: Machines
    images: Images
    number: int
    repeated: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"hermes-local-cell1-{self.number:012x}"

    @property
    def image_name(self) -> str:
        return f"image-{self.number}"

    async def strike(self, kind: FaultKind, times: int) -> None:
        seconds = {"seconds": 1} if kind.seconds else {}
        await self.cloud.fault(kind, times=times, **seconds)

    async def clear(self) -> None:
        """Leave nothing for the next one: a world has room for some machines only."""
        for what in ("images", "machines"):
            for row in await self.named(what):
                await self.cloud.http.delete(f"/api/v1/{what}/{row['id']}")

    async def named(self, what: str = "machines") -> list[dict[str, object]]:
        """What there really is, once the faults are over."""
        await self.cloud.http.delete("/local/faults")
        name = self.name if what == "machines" else self.image_name
        rows = (await self.cloud.http.get(f"/api/v1/{what}")).json()[what]
        return [row for row in rows if row["name"] == name and row["status"] != "failed"]

    async def made(self, size: str = "starter") -> str:
        """A machine of our name, by as many runs as it takes; a half made one is finished as an engine does."""
        kept = ""

        async def run() -> str:
            nonlocal kept
            try:
                if kept:
                    machine = await self.machines.update(
                        kept, self.name, {"server_type": size}, timeout_s=5, report=_nobody
                    )
                else:
                    order = MachineSpec(self.name, size, "hel1", "")
                    machine = await self.machines.create(order, timeout_s=5, report=_nobody)
            except HalfMadeError as error:
                kept = error.observed.id
                raise
            return machine.id

        return await self._until_well(run)

    async def resized(self, machine_id: str, size: str) -> None:
        async def run() -> str:
            return (
                await self.machines.update(machine_id, self.name, {"server_type": size}, timeout_s=2, report=_nobody)
            ).server_type

        assert await self._until_well(run) == size

    async def read(self, machine_id: str) -> None:
        async def run() -> str:
            machine = await self.machines.read(machine_id, self.name)
            assert machine is not None, "a machine that exists was called gone"
            return machine.id

        assert await self._until_well(run) == machine_id

    async def deleted(self, machine_id: str) -> None:
        async def run() -> str:
            await self.machines.delete(machine_id, self.name, timeout_s=2)
            return ""

        await self._until_well(run)

    async def saved(self, machine_id: str) -> str:
        kept = ""

        async def run() -> str:
            nonlocal kept
            try:
                if kept:
                    image = await self.images.update(kept, self.image_name, {}, timeout_s=5, report=_nobody)
                else:
                    order = ImageSpec(self.image_name, machine_id)
                    image = await self.images.create(order, timeout_s=5, report=_nobody)
            except HalfMadeError as error:
                kept = error.observed.id
                raise
            return image.id

        return await self._until_well(run)

    async def image_deleted(self, image_id: str) -> None:
        async def run() -> str:
            await self.images.delete(image_id, self.image_name, timeout_s=2)
            return ""

        await self._until_well(run)

    async def _until_well(self, run: Callable[[], Awaitable[str]]) -> str:
        for _ in range(TRIES):
            try:
                return await run()
            except HermesError as error:
                self.repeated.append(type(error).__name__)
        raise AssertionError(f"not done in {TRIES} runs: {self.repeated}")


async def create(account: Account, kind: FaultKind, times: int) -> None:
    await account.strike(kind, times)
    machine = await account.made()
    assert [row["id"] for row in await account.named()] == [machine]


async def update(account: Account, kind: FaultKind, times: int) -> None:
    machine = await account.made()
    await account.strike(kind, times)
    await account.resized(machine, "pro")
    assert [(row["id"], row["server_type"]) for row in await account.named()] == [(machine, "pro")]


async def read(account: Account, kind: FaultKind, times: int) -> None:
    machine = await account.made()
    await account.strike(kind, times)
    await account.read(machine)


async def delete(account: Account, kind: FaultKind, times: int) -> None:
    machine = await account.made()
    await account.strike(kind, times)
    await account.deleted(machine)
    assert await account.named() == []


async def save(account: Account, kind: FaultKind, times: int) -> None:
    machine = await account.made()
    await account.strike(kind, times)
    saved = await account.saved(machine)
    assert [row["id"] for row in await account.named("images")] == [saved]


async def unsave(account: Account, kind: FaultKind, times: int) -> None:
    saved = await account.saved(await account.made())
    await account.strike(kind, times)
    await account.image_deleted(saved)
    assert await account.named("images") == []


Call = Callable[[Account, FaultKind, int], Awaitable[None]]
CALLS: tuple[Call, ...] = (create, update, read, delete, save, unsave)


@dataclass
class World:
    """Where calls are tried, each by an account of its own."""

    cloud: LocalCloud
    machines: Machines
    images: Images
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    async def tried(self, call: Call, kind: FaultKind, times: int) -> Account:
        """Make a call under a fault; what is left of it is cleared away, however it ended."""
        account = Account(self.cloud, self.machines, self.images, next(self._numbers))
        try:
            await call(account, kind, times)
        finally:
            await account.clear()
        return account


@asynccontextmanager
async def open_world(folder: Path) -> AsyncIterator[World]:
    """A world in that folder, and a provider that gives up in seconds."""
    async with serving(folder, SimDriver(folder)) as cloud:
        key = (folder / "api.key").read_text().strip()
        async with Client(f"{cloud.where.api_url}/api/v1", key) as client:
            vendor, timeouts = JustAvps(client), Timeouts(newborn=3, broken=3)
            yield World(cloud, Machines(lambda: vendor, timeouts), Images(lambda: vendor, timeouts))


async def _nobody(line: str) -> None:
    del line
