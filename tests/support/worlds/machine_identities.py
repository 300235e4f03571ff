"""What a machine of a local world proves itself with, as somebody with the vendor's key reads it."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from hermesops.model.ids import MachineId
from hermesops.programs.node.system import https
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Credential
from tests.support.real.commands.command import Command

SLOW_S = 60.0
"""Seconds that the service may take to come at the first knock, on a computer that has other things to do."""


@dataclass(frozen=True)
class Machine:
    """What a machine has in its files."""

    credential: Credential
    key: bytes
    request: bytes

    async def ask(self, path: str = "/v1/standing", body: bytes = b"") -> dict[str, Any]:
        return dict(json.loads(await self.fetch(path, body)))

    async def fetch(self, path: str, body: bytes = b"") -> bytes:
        method = "POST" if body else "GET"
        return await asyncio.to_thread(
            https.ask_platform, self.credential, self.key, method, path, body, retry_s=SLOW_S
        )


async def machine_of(world: Command, user: str) -> Machine:
    """The files of an instance's machine, as somebody with the vendor's key reads them."""
    shown = (await world.ok("instance", "show", user, "--json")).json["instance"]
    return await machine_by_id(world, MachineId(shown["machine_id"]))


async def machine_by_id(world: Command, machine_id: MachineId) -> Machine:
    """The same of any machine."""
    folder, layout = world.home / "local" / "world", Layout()
    facts = json.loads((folder / "world.json").read_text())
    async with Client(f"{facts['api_url']}/api/v1", (folder / "api.key").read_text().strip()) as client:
        channel = ToolboxChannel(client, machine_id)
        paths = (layout.machine_certificate, layout.authority, layout.machine_key, layout.machine_request)
        certificate, authority, key, request = [await channel.get(str(path)) for path in paths]
    return Machine(Credential.from_pem(certificate, authority), key, request)
