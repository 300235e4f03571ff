"""The connector's door: a gateway that signs with its agent's secret gets the agent's socket."""

import asyncio
import socket
import ssl
import time
from dataclasses import dataclass, field
from http import HTTPStatus

import structlog
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from hermesops.connector import frames
from hermesops.connector.sockets import REPLACED, AgentSocket, Delivering, Secrets
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.users.messaging.relay_secrets import parse_bearer

PATH = "/relay"
METRICS = "/metrics"
"""Answered to Prometheus through the door, which passes no other request of this path on."""

_PING_S = 30.0
_OPEN_S = 10.0
_TOO_BUSY = 1013
_RESTART = 1012

log = structlog.get_logger()


@dataclass
class Connector:
    """Serves agents' sockets.

    Attributes:
        secrets: See there.
        most: Sockets at once.
    """

    parts: Delivering
    secrets: Secrets
    most: int = 20_000
    _open: dict[InstanceId, AgentSocket] = field(default_factory=dict)

    async def serve(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Serve until cancelled; closes the listener.

        Args:
            context: Of TLS; ``None`` behind a door that has it.
        """
        async with serve(
            self._run,
            sock=listener,
            ssl=context,
            process_request=self._admit,
            max_size=frames.LARGEST,
            compression=None,  # memory for each socket, and bombs
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            open_timeout=_OPEN_S,
        ):
            await asyncio.Event().wait()

    def ring(self, instance_id: InstanceId | None = None) -> None:
        """Wake the socket of an agent, or all of them, for which a message was queued."""
        sockets = self._open.values() if instance_id is None else filter(None, [self._open.get(instance_id)])
        for agent_socket in list(sockets):
            agent_socket.queued.ring()

    def fence_of(self, instance_id: InstanceId) -> int:
        """The fence of an agent's present socket; 0 where it has none here."""
        agent_socket = self._open.get(instance_id)
        return agent_socket.fence if agent_socket else 0

    async def close(self) -> None:
        """Close all sockets, so that agents dial again: before a restart, and where another process takes over."""
        await asyncio.gather(*(each.socket.close(_RESTART, "restart") for each in list(self._open.values())))

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse whoever does not sign as an agent; ``None`` admits."""
        if request.path == METRICS:
            return connection.respond(HTTPStatus.OK, self._figures())
        if request.path != PATH:
            return connection.respond(HTTPStatus.NOT_FOUND, "")
        bearer = parse_bearer(request.headers.get("Authorization", ""))
        if bearer is None:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "")
        try:
            secrets = await asyncio.to_thread(self.secrets, bearer.instance_id)
        except HermesError as error:
            log.warning("gateway_not_known", why=error.message)
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "")
        if not bearer.is_signed(secrets, time.time()):
            return connection.respond(HTTPStatus.UNAUTHORIZED, "")
        if len(self._open) >= self.most:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "")
        connection.username = bearer.instance_id
        return None

    def _figures(self) -> str:
        return f"hermes_platform_answers 1\nhermesops_connector_sockets {len(self._open)}\n"

    async def _run(self, connection: ServerConnection) -> None:
        instance_id = InstanceId(connection.username)
        try:
            fence = await asyncio.to_thread(self.parts.rows.take, instance_id, self.parts.holder)
        except HermesError as error:
            log.warning("socket_not_taken", instance=instance_id, why=error.message)
            await connection.close(_TOO_BUSY, "not now")
            return
        agent_socket = AgentSocket(connection, self.parts, instance_id, fence)
        before, self._open[instance_id] = self._open.get(instance_id), agent_socket
        if before is not None:
            await before.socket.close(REPLACED, "replaced")
        try:
            await agent_socket.run()
        finally:
            if self._open.get(instance_id) is agent_socket:
                del self._open[instance_id]
