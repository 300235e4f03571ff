"""Connections of agents to services of their users."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.app.users_container import ConnectionsContainer
    from hermesops.model.operation import Operation
    from hermesops.users.connections.agent_access import Patch
    from hermesops.users.connections.agent_calls import AgentCalls
    from hermesops.users.connections.project import Project
    from hermesops.users.connections.service import Connections
    from hermesops.users.connections.upkeep import ConnectionUpkeep
    from hermesops.users.connections.work import ConnectionWork


def connection_project(container: "Container") -> "Project | None":
    """The project at Composio, or of its stand-in in the local world; ``None`` where there is none."""
    from hermesops.users.connections.project import project_of

    endpoint = (lambda: container.endpoint) if container.env.is_local else None
    return project_of(container.env.settings.connections, container.secrets, endpoint)


def project_of_key(container: "ConnectionsContainer") -> "Project | None":
    """The project at Composio whose key is among the secrets; ``None`` without one."""
    from hermesops.users.connections.project import project_of

    return project_of(container.env.settings.connections, container.secrets, None)


def connections(container: "Container | ConnectionsContainer", callback_url: str) -> "Connections | None":
    """Users' connections to services; ``None`` without a project at Composio.

    Args:
        callback_url: To which browsers come back.
    """
    from hermesops.store.user_rows.connections import UserConnections
    from hermesops.users.connections.service import Connections

    project = container.connection_project()
    if project is None:
        return None
    rows, upkeep = UserConnections(container.user_rows), _connection_upkeep(container, project)
    return Connections(container.accounts, rows, upkeep, project.composio, project.services, callback_url)


def agent_calls(container: "Container | ConnectionsContainer") -> "AgentCalls | None":
    """Agents' calls to their users' services; ``None`` without a project at Composio."""
    from hermesops.store.user_rows.connections import UserConnections
    from hermesops.store.user_rows.mcp_access import McpAccesses
    from hermesops.users.connections.agent_calls import AgentCalls
    from hermesops.users.connections.mcp_proxy import McpProxy

    project = container.connection_project()
    if project is None:
        return None
    rows, accesses = UserConnections(container.user_rows), McpAccesses(container.user_rows)
    return AgentCalls(McpProxy(rows, accesses, project.composio))


def connection_work(connected: "Connected") -> "ConnectionWork | None":
    """The work of the job ``connections``; ``None`` without a project at Composio."""
    from hermesops.store.user_rows.connection_records import ConnectionRecords
    from hermesops.store.user_rows.connections import UserConnections
    from hermesops.store.user_rows.mcp_access import McpAccesses
    from hermesops.users.connections.agent_access import AgentAccess
    from hermesops.users.connections.records import ConnectionRecording
    from hermesops.users.connections.work import ConnectionWork

    container = connected.container
    project = connection_project(container)
    if project is None:
        return None

    async def configure(user_id: str, patch: "Patch", why: str) -> "Operation":
        operation = await connected.instance_requests.configure(user_id, patch, reason=why)
        connected.operations.leave(operation)
        return operation

    registry, rows = container.registry, container.user_rows
    return ConnectionWork(
        _connection_upkeep(container, project),
        ConnectionRecording(registry, ConnectionRecords(rows), project.composio),
        AgentAccess(
            registry, UserConnections(rows), McpAccesses(rows), container.env.settings.connections.agents_url, configure
        ),
    )


def _connection_upkeep(container: "Container | ConnectionsContainer", project: "Project") -> "ConnectionUpkeep":
    from hermesops.store.user_rows.connections import UserConnections
    from hermesops.store.user_rows.mcp_access import McpAccesses
    from hermesops.users.connections.upkeep import ConnectionUpkeep

    rows, accesses = UserConnections(container.user_rows), McpAccesses(container.user_rows)
    return ConnectionUpkeep(container.accounts, rows, accesses, project.composio)
