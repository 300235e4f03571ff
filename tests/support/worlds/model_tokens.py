"""A copy of an agent's token for the model router, and what the router says to whoever has it."""

import json
import time
from typing import Any

import httpx

from hermesops.base.waiting import Pending, until
from hermesops.model.billing.route import ROUTES
from hermesops.model.ids import MachineId
from hermesops.programs.node.instance.render import TOKEN_VARIABLE
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client
from tests.support.real.commands.command import Command

WITHIN_S = 10.0
"""Seconds in which a router learns that a token was revoked."""


async def copied(world: Command, user: str) -> str:
    """The token that a user's agent holds, as somebody took it who could read the machine's files."""
    return (await managed_environment(world, user))[TOKEN_VARIABLE]


async def managed_environment(world: Command, user: str) -> dict[str, str]:
    """The variables that a user's agent is given."""
    shown = (await world.ok("instance", "show", user, "--json")).json["instance"]
    key = (world.home / "local" / "world" / "api.key").read_text().strip()
    async with Client(f"{_facts(world)['api_url']}/api/v1", key) as client:
        text = (await ToolboxChannel(client, MachineId(shown["machine_id"])).get("/etc/hermes/.env")).decode()
    return {name: value.strip("'") for name, _, value in (line.partition("=") for line in text.splitlines())}


async def asked_with(world: Command, token: str) -> int:
    """What the world's router answers to a question for a model; 0 when nobody answers."""
    question = {"model": ROUTES[0].name, "messages": [{"role": "user", "content": "hello"}]}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        try:
            answer = await http.post(
                f"{_facts(world)['model_base_url']}/chat/completions",
                json=question,
                headers={"Authorization": f"Bearer {token}"},
            )
        except httpx.TransportError:
            return 0
    return answer.status_code


async def dies(world: Command, token: str) -> float:
    """Wait until the router refuses a token, ten seconds at most; how long it took."""
    began = time.monotonic()

    async def refused() -> bool | Pending[bool]:
        status = await asked_with(world, token)
        return True if status == 401 else Pending(str(status))

    await until(refused, what="the router to refuse the copy", timeout_s=WITHIN_S, every_s=0.2)
    return time.monotonic() - began


def world_pid(world: Command) -> int:
    """The process of the world's server."""
    return int(_facts(world)["pid"])


def _facts(world: Command) -> dict[str, Any]:
    return dict(json.loads((world.home / "local" / "world" / "world.json").read_text()))
