"""Tells agents how they reach their services, and takes the way back: an entry of ``mcp_servers`` in their settings.

The entry names the agent's own token and its services: an agent reads its tools anew when its entry changes.

Source: hermes-agent 0.19.0, ``mcp_servers`` of ``config.yaml`` with ``url``, ``headers``, ``timeout``,
``connect_timeout`` and ``ssl_verify``, which takes a file of authorities (``tools/mcp_tool.py``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hermesops.errors import HermesError
from hermesops.model.connections.connection import Connection, ConnectionState
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation
from hermesops.store.registry import Registry
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.wire.layout import Layout

SERVER = "connections"
"""Name of the entry; tools of it are named ``mcp__connections__…``."""

_BEARER = "Bearer "
_SERVICES = "X-Connected-Services"
_TRUSTED = str(Layout().router_authorities)
"""File of machines with the platform's authorities and the distribution's: either may have signed the certificate."""

_CALL_S = 120
_CONNECT_S = 10

Patch = Callable[[InstanceSettings], InstanceSettings]


@dataclass(frozen=True)
class AgentAccess:
    """Agents' ways to their services.

    Attributes:
        url: Of agents' calls as machines reach it, without the agent's id; empty where agents are told none.
        configure: Opens the operation that gives an agent settings, as operators' requests do, and starts it.
    """

    registry: Registry
    rows: UserConnections
    accesses: McpAccesses
    url: str
    configure: Callable[[str, Patch, str], Awaitable[Operation]]

    def due(self) -> list[InstanceId]:
        """Running agents whose settings are not as their connections ask."""
        if not self.url:
            return []
        wanted = self.rows.linked_services()
        agents = sorted({*wanted, *self.accesses.all()})
        return [agent for agent in agents if self._is_due(agent, wanted.get(agent, ()))]

    async def run(self) -> Mapping[str, str]:
        """Bring agents to the settings that their connections ask for; the problem of each, empty for none."""
        problems = {}
        for agent in await asyncio.to_thread(self.due):
            try:
                await self._bring(agent)
                problems[f"agent {agent}"] = ""
            except HermesError as error:
                problems[f"agent {agent}"] = error.message
        return problems

    def _is_due(self, agent: InstanceId, services: Sequence[str]) -> bool:
        instance = self.registry.instances.get(agent)
        if instance.status is InstanceStatus.TERMINATED:
            return not services  # only its token is left
        if instance.status is not InstanceStatus.RUNNING:
            return False
        entry = self.registry.instance_secrets.settings(agent).mcp_servers.get(SERVER)
        return not self._is_right(agent, entry, services)

    def _is_right(self, agent: InstanceId, entry: Mapping[str, object] | None, services: Sequence[str]) -> bool:
        if not services or entry is None:
            return not services and entry is None and self.accesses.of_instance(agent) is None
        token = token_in(entry)
        return entry == entry_for(self.url, agent, token, services) and self.accesses.is_token(agent, token)

    async def _bring(self, agent: InstanceId) -> None:
        """Bring the access of one agent to its present connections: token, entry and services."""
        services = services_of(await asyncio.to_thread(self.rows.of_instance, agent))
        instance = await asyncio.to_thread(self.registry.instances.get, agent)
        settings = await asyncio.to_thread(self.registry.instance_secrets.settings, agent)
        if not services or instance.status is InstanceStatus.TERMINATED:
            await self._take(agent, instance.user_id, has_entry=SERVER in settings.mcp_servers)
            return
        token = token_in(settings.mcp_servers.get(SERVER))
        if not await asyncio.to_thread(self.accesses.is_token, agent, token):
            token = await asyncio.to_thread(self.accesses.grant, agent)
        await self._configure(instance.user_id, entry_for(self.url, agent, token, services))

    async def _take(self, agent: InstanceId, user_id: str, *, has_entry: bool) -> None:
        """End an agent's way: its token first; its row stays for as long as its settings have the entry."""
        if not has_entry:
            await asyncio.to_thread(self.accesses.end, agent)
            return
        await asyncio.to_thread(self.accesses.bar, agent)
        await self._configure(user_id, None)

    async def _configure(self, user_id: str, entry: Mapping[str, object] | None) -> None:
        await self.configure(user_id, patch_to(entry), "the user's connected services have changed")


def services_of(connections: Iterable[Connection]) -> tuple[str, ...]:
    """Services that an agent may use, in order. Pure."""
    return tuple(sorted({each.service for each in connections if each.state is ConnectionState.LINKED}))


def entry_for(url: str, agent: InstanceId, token: str, services: Sequence[str]) -> dict[str, object]:
    """The entry of an agent. Pure."""
    return {
        "url": f"{url}/{agent}",
        "headers": {"Authorization": f"{_BEARER}{token}", _SERVICES: ",".join(services)},
        "timeout": _CALL_S,
        "connect_timeout": _CONNECT_S,
        "ssl_verify": _TRUSTED,
    }


def token_in(entry: Mapping[str, object] | None) -> str:
    """The token that an entry has; empty for none. Pure."""
    headers = entry.get("headers") if entry else None
    value = headers.get("Authorization") if isinstance(headers, Mapping) else None
    return value.removeprefix(_BEARER) if isinstance(value, str) and value.startswith(_BEARER) else ""


def patch_to(entry: Mapping[str, object] | None) -> Patch:
    """The patch of settings to an entry, or to none; it leaves other servers of the user as they are. Pure."""

    def patch(settings: InstanceSettings) -> InstanceSettings:
        others = {name: value for name, value in settings.mcp_servers.items() if name != SERVER}
        return replace(settings, mcp_servers=others if entry is None else {**others, SERVER: entry})

    return patch
