"""Machines with a real agent on them, from an image with every role applied, that belong to a user."""

import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hermesops.localcloud.drivers.interface import MODEL_PORT, SERVICE_PORTS
from hermesops.model.billing.route import issue_token
from hermesops.model.ids import ImageId, InstanceId, MachineId
from hermesops.programs.node import build as node
from hermesops.vendor import justavps
from hermesops.vendor.channel import Channel
from hermesops.wire.protocol import PROGRAM, Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.real.machines.machine import opened_driver
from tests.support.worlds.local.converged import ConvergedWorld
from tests.support.worlds.local.left_worlds import remember_folder
from tests.support.worlds.local.local_server import serving

ROLES = ("hermes_base", "hermes_gateway", "hermes_node", "hermes_data", "hermes_monitoring")


@asynccontextmanager
async def agents_world() -> AsyncIterator[ConvergedWorld]:
    """As ``converged_world``, with the model router; machines reach the ports that they do in a local world."""
    with tempfile.TemporaryDirectory(prefix="hermesops-test-") as name:
        folder = Path(name)
        remember_folder(folder)
        async with (
            opened_driver(folder / "driver", SERVICE_PORTS) as driver,
            serving(folder / "server", driver, model_port=MODEL_PORT) as cloud,
        ):
            key = (cloud.folder / "api.key").read_text().strip()
            async with justavps.Client(f"{cloud.where.api_url}/api/v1", key) as client:
                yield ConvergedWorld(folder, driver, cloud, client)


@dataclass(frozen=True)
class Agent:
    """A user's agent on a machine.

    Attributes:
        api_server_key: Bearer of its API.
    """

    channel: Channel
    machine_id: MachineId
    instance_id: InstanceId
    payload: Payload
    api_server_key: str

    async def run(self, command: str, *, timeout_s: float = 60) -> str:
        """Run a command that must work; what it printed."""
        done = await self.channel.run(command, timeout_s=timeout_s)
        assert done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text

    async def personalise(self, payload: Payload | None = None) -> None:
        """Hand the machine its user, or hand it over again."""
        await self.channel.put("/run/hermes-payload.json", (payload or self.payload).to_json(), mode=0o600)
        await self.run(f"{PROGRAM} personalise /run/hermes-payload.json", timeout_s=90)


def role_variables(world: ConvergedWorld) -> dict[str, object]:
    """What all roles have to be told."""
    program = world.folder / "hermes-node"
    node.write(program)
    return {**world.base_variables, "hermes_node_program": str(program)}


@asynccontextmanager
async def living_agent(
    world: ConvergedWorld, image_id: ImageId, instance_id: InstanceId | None = None
) -> AsyncIterator[Agent]:
    """A machine that belongs to a user, with a healthy gateway; gone afterwards."""
    instance_id, key = instance_id or InstanceId(str(uuid4())), secrets.token_hex(32)
    token = issue_token(world.cloud.model_secret, instance_id, 1, int(time.time()) + 3600)
    payload = Payload(
        Identity(instance_id, str(uuid4()), "light", "cell1", 1),
        Secrets(api_server_key=key, model_token=token),
        world.cloud.where.model_base_url,
        Settings(),
    )
    async with world.machine(image_id=image_id) as machine_id:
        agent = Agent(world.channel(machine_id), machine_id, instance_id, payload, key)
        await agent.personalise()
        yield agent
