"""A local world with real machines, its API, and Ansible over its toolbox."""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hermesops.base import assets
from hermesops.localcloud.drivers.interface import DAEMON_PORT
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver
from hermesops.machines.converge import Access, Converger, Host, HostResult
from hermesops.machines.image.machines import borrowed
from hermesops.model.ids import MachineId
from hermesops.vendor import justavps
from hermesops.vendor.channel import Channel, ToolboxChannel
from tests.support.real.machines.machine import opened_driver
from tests.support.worlds.local.left_worlds import remember_folder
from tests.support.worlds.local.local_server import LocalCloud, serving


@dataclass
class ConvergedWorld:
    """A running world.

    Attributes:
        folder: For playbooks and whatever else a test writes; gone afterwards.
    """

    folder: Path
    driver: NspawnDriver
    cloud: LocalCloud
    client: justavps.Client

    @property
    def base_variables(self) -> dict[str, object]:
        """What role hermes_base has to be told in this world."""
        return {
            "hermes_base_broker_addresses": [str(self.driver.gateway)],
            "hermes_base_daemon_port": DAEMON_PORT,
        }

    @property
    def converger(self) -> Converger:
        """Ansible for this world's machines."""
        access = Access(f"{self.cloud.where.api_url}/api/v1", self.cloud.folder / "api.key")
        return Converger(assets.folder("ansible"), access)

    def channel(self, machine_id: str) -> Channel:
        """A way onto a machine."""
        return ToolboxChannel(self.client, machine_id)

    def playbook(self, *roles: str) -> Path:
        """A playbook of these roles alone."""
        path = self.folder / f"{'-'.join(roles)}.yml"
        names = "".join(f"    - role: {role}\n" for role in roles)
        path.write_text(f"- name: Test\n  hosts: instances\n  gather_facts: false\n  roles:\n{names}")
        return path

    async def apply(
        self, machine_id: str, roles: Sequence[str], variables: Mapping[str, object], *, check: bool = False
    ) -> HostResult:
        """Apply roles to a machine; a failure is a result."""
        playbook = str(self.playbook(*roles))
        done = await self.converger.run(playbook, [Host("m", machine_id)], variables=variables, check=check)
        return done.hosts["m"]

    @asynccontextmanager
    async def machine(self, *, image_id: str | None = None) -> AsyncIterator[MachineId]:
        """A machine whose toolbox answers; gone afterwards."""
        name = f"hermes-test-c1-{uuid4().hex[:12]}"
        order = justavps.MachineOrder(name=name, server_type="starter", region="hel1", image_id=image_id)
        async with borrowed(self.client, self.channel, order, report=lambda _: None) as machine_id:
            yield machine_id


@asynccontextmanager
async def converged_world(*, for_platform: bool = False) -> AsyncIterator[ConvergedWorld]:
    """A world of its own; nothing of it is left at the end.

    Args:
        for_platform: Whether its machines have the packages of the platform's.
    """
    with tempfile.TemporaryDirectory(prefix="hermesops-test-") as name:
        folder = Path(name)
        remember_folder(folder)
        async with opened_driver(folder / "driver") as driver, serving(folder / "server", driver) as cloud:
            if for_platform:
                await driver.extend_base()
            key = (cloud.folder / "api.key").read_text().strip()
            async with justavps.Client(f"{cloud.where.api_url}/api/v1", key) as client:
                yield ConvergedWorld(folder, driver, cloud, client)
