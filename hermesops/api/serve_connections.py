"""The process of connections: users' routes of them, and agents' calls to services. It holds the key of the project.

Nothing else that the internet reaches has that key, and this process reaches no agent.
"""

import asyncio
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hermesops.api.application import connections_application
from hermesops.api.parts import ConnectionParts
from hermesops.api.routes.connections import CALLBACK
from hermesops.api.serve import hosts_of, issuer_of, origin_of, raise_open_files, sign_in_of
from hermesops.api.server import Server
from hermesops.app.users_container import ConnectionsContainer
from hermesops.errors import Hint, UsageError
from hermesops.serving.limits import Limits

if TYPE_CHECKING:
    from hermesops.settings.environment import Environment


async def serve(env: "Environment", listener: socket.socket) -> None:
    """Serve connections until cancelled. Closes the listener.

    Raises:
        UsageError: A setting, or the key of the project at Composio, is missing.
        RefusedError: The registry's tables are of another hermesops.
        UnavailableError: The database does not answer.
    """
    raise_open_files()
    container = ConnectionsContainer(env)
    web = env.settings.web
    addresses, origin = issuer_of(web), origin_of(web)
    connections, agent_calls = container.make_connections(f"{origin}{CALLBACK}"), container.make_agent_calls()
    if connections is None or agent_calls is None:
        hint = Hint(("secrets", "set", "connections.key", "--from", "FILE"))
        raise UsageError("missing the secret connections.key, the key of the project at Composio", hint=hint)
    await asyncio.to_thread(container.require_tables)
    tokens, sessions = sign_in_of(container, addresses, origin)
    of_agents = urlsplit(env.settings.connections.agents_url).netloc
    parts = ConnectionParts(
        origin=origin,
        hosts=hosts_of(origin, listener) | ({of_agents.lower()} if of_agents else frozenset()),
        tokens=tokens,
        sessions=sessions,
        limits=Limits(),
        connections=connections,
        agent_calls=agent_calls,
    )
    await Server(connections_application(parts), listener).serve_until_cancelled()
