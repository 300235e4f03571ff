"""hermes-agent 0.19.0's own client against the process of connections, by the door: its tools, a call, and a refusal.

The gateway runs on loopback with the configuration that hermes-node writes; ``hermesops api connections`` is a process
of its own behind a real nginx. ``test_agent_calls`` asks what no agent of ours would.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.users.connections.agent_access import SERVER, entry_for
from tests.support.real import edge, gateway
from tests.support.real.gateway import Gateway
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.python_environments import AGENT
from tests.support.real.stores.registries import TurnedClock
from tests.support.suite.prerequisites import require
from tests.support.users.api import UsersApi, served, users_api
from tests.support.users.mailbox import linked
from tests.support.users.processes import of_connections, running

pytestmark = [pytest.mark.turns(45), pytest.mark.timeout(600)]

TOOL = f"mcp__{SERVER}__GMAIL_WHO_AM_I"


@dataclass(frozen=True)
class World:
    """What the agent needs.

    Attributes:
        authorities: File with the door's.
        account: Of ada's mailbox.
    """

    api: UsersApi
    door: edge.Edge
    model_url: str
    folder: Path
    authorities: Path
    python: Path
    account: str

    @contextlib.asynccontextmanager
    async def gateway(self, token: str) -> AsyncIterator[Gateway]:
        """Ada's agent with this token for its services."""
        ada = self.api.ada.id
        entry = {**entry_for(f"{self.door.url}/mcp", ada, token, ["gmail"]), "ssl_verify": str(self.authorities)}
        folder = self.folder / "agent"
        async with gateway.running(folder, self.python, ada, self.model_url, {SERVER: entry}) as running_gateway:
            yield running_gateway


@pytest.fixture
async def world(tmp_path: Path, clock: TurnedClock) -> AsyncIterator[World]:
    root, python = programs(), AGENT.python()
    require(root, "Debian's programs")
    require(python, "uv, to install hermes-agent")
    assert root
    assert python
    clock.timestamp = datetime.now(UTC)
    door_folder = tmp_path / "door"
    door_folder.mkdir()
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(users_api(tmp_path, f"sqlite:///{tmp_path}/state/registry.db", clock))
        variables = {"hermes_platform_edge_has_connections": True}
        door = stack.enter_context(edge.running(door_folder, root, [door_folder / "api.sock"], variables))
        env = of_connections(tmp_path / "home", api, door.url, f"{door.url}/mcp")
        process = running(env, ["api", "connections"], door_folder / "connections.sock", door_folder / "log")
        await stack.enter_async_context(process)
        model_url = await stack.enter_async_context(served(gateway.model()))
        authorities = tmp_path / "authorities.crt"
        authorities.write_text(door.authorities)
        account = await linked(api, api.ada, "gmail")
        yield World(api, door, f"{model_url}/v1", tmp_path, authorities, python, account)


async def logged(agent: Gateway, pattern: str) -> str:
    """Wait until the agent has logged a line."""

    async def check() -> str | Pending[str]:
        match = re.search(pattern, agent.log)
        return match[0] if match else Pending(agent.log[-500:])

    return await until(check, what=f"the agent to log {pattern}", timeout_s=90, every_s=0.5)


async def test_the_agent_lists_its_users_tools_and_calls_one(world: World) -> None:
    token = McpAccesses(world.api.all_rows).grant(world.api.ada.id)
    async with world.gateway(token) as agent:
        await logged(agent, rf"{SERVER}.*registered 1 tool")
        answer = await agent.answer(f"CALL: {TOOL}")
        assert "TOOL SAID" in answer
        assert world.account in answer
        assert world.api.composio.key not in agent.log + answer
        assert token not in agent.log + answer


async def test_an_agent_whose_token_has_ended_has_no_tool_and_answers_all_the_same(world: World) -> None:
    accesses = McpAccesses(world.api.all_rows)
    token = accesses.grant(world.api.ada.id)
    accesses.bar(world.api.ada.id)
    async with world.gateway(token) as agent:
        assert await agent.answer(f"CALL: {TOOL}") == f"YOU SAID: CALL: {TOOL}"
