"""A running machine for a test, from the driver alone: no API server in between."""

import json
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.interface import MODEL_PORT, Driver, MachinePlan, MachinePower
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver
from hermesops.model.ids import ImageId, MachineId
from tests.support.real.machines.bases import manifest, tested_base
from tests.support.suite.kept import cached_bases
from tests.support.worlds.local.left_worlds import remember_world


@dataclass(frozen=True)
class Executed:
    """What a command did on a machine."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass
class TestMachine:
    """One machine that runs, and a client of its daemon."""

    __test__ = False  # not a test case, whatever its name says to pytest

    driver: Driver
    id: MachineId
    token: str
    http: httpx.AsyncClient

    async def execute(self, command: str, **options: object) -> Executed:
        """Run a shell command; ``timeout`` in seconds, ``cwd``, ``user``, ``env`` as the toolbox takes them."""
        answer = await self.http.post("/toolbox/process/execute", json={"command": command, **options})
        answer.raise_for_status()
        body = answer.json()
        return Executed(body["exit_code"], body["stdout"], body["stderr"])

    async def upload(self, path: str, data: bytes, *, mode: str = "644") -> None:
        """Write a file; once more where the daemon had closed the connection that was kept from the request before."""
        params = {"path": path, "mode": mode}
        try:
            answer = await self.http.post("/toolbox/files/upload", params=params, content=data)
        except httpx.ReadError:
            answer = await self.http.post("/toolbox/files/upload", params=params, content=data)
        answer.raise_for_status()

    async def download(self, path: str) -> bytes:
        """Read a file."""
        answer = await self.http.get("/toolbox/files/download", params={"path": path})
        answer.raise_for_status()
        return answer.content

    async def healthz(self) -> dict[str, object]:
        """What the daemon says of its machine."""
        answer = await self.http.get("/healthz")
        answer.raise_for_status()
        return dict(answer.json())

    async def wait_until_booted(self, *, timeout_s: float = 60.0) -> dict[str, object]:
        """Wait until systemd has nothing left to start and the init script has ended."""

        async def observe() -> dict[str, object] | Pending[dict[str, object]]:
            try:
                health = await self.healthz()
            except httpx.HTTPError as error:
                return Pending(f"{type(error).__name__} {error}")
            return health if health["booted"] and health["bootstrapped"] else Pending(str(health))

        return await until(observe, what=f"machine {self.id} to boot", timeout_s=timeout_s, every_s=0.05)

    async def boots_anew(self, before: object) -> None:
        """Wait until another boot than the one of that id has come far enough."""

        async def observe() -> bool | Pending[bool]:
            try:
                health = await self.healthz()
            except httpx.HTTPError as error:
                return Pending(str(error))
            return True if health["boot_id"] != before and health["booted"] else Pending(str(health))

        await until(observe, what="a new boot", timeout_s=20, every_s=0.05)


def base_python() -> str:
    """The Python of that base, as ``3.11``; it has to be built."""
    return ".".join(json.loads(manifest().read_text())["packages"]["python3"].split(".")[:2])


def new_driver(state: Path, service_ports: Sequence[int] = (MODEL_PORT,)) -> NspawnDriver:
    """A driver of the world in that folder, not open yet; its machines reach these ports of the gateway."""
    return NspawnDriver(state, service_ports=service_ports, definition=tested_base(), bases=cached_bases())


@asynccontextmanager
async def opened_driver(
    state: Path | None = None, service_ports: Sequence[int] = (MODEL_PORT,)
) -> AsyncIterator[NspawnDriver]:
    """A world of its own, purged at the end whatever happened; ``service_ports`` as of ``new_driver``."""
    folder = state or Path(tempfile.mkdtemp(prefix="hermesops-world-"))
    remember_world(folder)
    driver = new_driver(folder, service_ports)
    try:
        await driver.open()
        yield driver
    finally:
        await driver.close(purge=True)
        shutil.rmtree(folder, ignore_errors=True)


def plan(number: int = 1, **changes: object) -> MachinePlan:
    """The order of a small machine."""
    values: dict[str, object] = {
        "id": MachineId(str(uuid4())),
        "number": number,
        "hostname": f"m{number}",
        "daemon_token": secrets.token_urlsafe(24),
        "image_id": None,
        "vcpu": 2,
        "memory_mib": 2048,
        "disk_gib": 10,
        **changes,
    }
    return MachinePlan(**values)  # type: ignore[arg-type]


@asynccontextmanager
async def started(driver: Driver, order: MachinePlan) -> AsyncIterator[TestMachine]:
    """A machine of that order, booted; it is deleted at the end."""
    await driver.create(order)

    async def on() -> bool | Pending[bool]:
        power = await driver.power(order.id)
        return True if power is MachinePower.RUNNING else Pending(power)

    await until(on, what=f"machine {order.id} to be on", timeout_s=60, every_s=0.02)
    address, port = driver.daemon_address(order.id)
    async with httpx.AsyncClient(
        base_url=f"http://{address}:{port}",
        headers={"Authorization": f"Bearer {order.daemon_token}"},
        timeout=httpx.Timeout(150.0, connect=2.0),
        trust_env=False,
    ) as http:
        machine = TestMachine(driver, order.id, order.daemon_token, http)
        await machine.wait_until_booted()
        try:
            yield machine
        finally:
            await driver.delete(order.id)


@asynccontextmanager
async def booted_machine(
    *, image_id: ImageId | None = None, files: Mapping[str, bytes] | None = None, init_script: str = ""
) -> AsyncIterator[TestMachine]:
    """A running machine from the base, in a world of its own that is gone afterwards."""
    async with (
        opened_driver() as driver,
        started(driver, plan(image_id=image_id, files=files or {}, init_script=init_script)) as machine,
    ):
        yield machine
