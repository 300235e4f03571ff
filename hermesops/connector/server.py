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

from hermesops.base.bell import Bell
from hermesops.base.waiting import pause
from hermesops.connector import frames
from hermesops.connector.front import connection_class
from hermesops.connector.media import MediaDoor
from hermesops.connector.sockets import REPLACED, AgentSocket, Delivering, Secrets
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import Incoming
from hermesops.users.messaging.relay_secrets import parse_bearer

PATH = "/relay"
METRICS = "/metrics"
"""Answered to Prometheus through the door, which passes no other request of this path on."""

_PING_S = 30.0
_LOOK_S = 1.0
_KEEP_EVERY_S = 10.0
_OPEN_S = 10.0
_TOO_BUSY = 1013
_RESTART = 1012

log = structlog.get_logger()


@dataclass
class Connector:
    """Serves agents' sockets.

    Attributes:
        secrets: See there.
        media: Answers requests for files.
        most: Sockets at once.
    """

    parts: Delivering
    secrets: Secrets
    media: MediaDoor
    most: int = 20_000
    _open: dict[InstanceId, AgentSocket] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)

    async def serve(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Serve until cancelled; closes the listener.

        Args:
            context: Of TLS; ``None`` behind a door that has it.
        """
        self._loop = asyncio.get_running_loop()
        try:
            await self._serve(listener, context)
        finally:
            self.media.close()

    async def _serve(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
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
            create_connection=connection_class(self.media),
        ):
            await asyncio.Event().wait()

    def ring(self, instance_id: InstanceId) -> None:
        """Wake the socket of an agent for which a message was queued; nothing where it has none here."""
        if agent_socket := self._open.get(instance_id):
            agent_socket.queued.ring()

    async def run(self, queued: Bell) -> None:
        """Wake the sockets of agents for which messages are queued, until cancelled: one question for all of them.

        Args:
            queued: Rings when a message was queued in this process; others' messages are found within a second.
        """
        while True:
            await queued.wait(_LOOK_S)
            try:
                instance_ids = await asyncio.to_thread(self.parts.incoming.queued_for)
            except HermesError as error:
                log.warning("messages_not_known", why=error.message)
                continue
            for instance_id in instance_ids:
                self.ring(instance_id)

    async def keep(self) -> None:
        """Close sockets of agents that have opened another one elsewhere, until cancelled."""
        while True:
            await pause(_KEEP_EVERY_S)
            before = list(self._open.values())  # a socket that opens meanwhile may be missing in the answer
            try:
                held = await asyncio.to_thread(self.parts.rows.held, self.parts.holder)
            except HermesError as error:
                log.warning("sockets_not_kept", why=error.message)
                continue
            replaced = [each for each in before if held.get(each.instance_id) != each.fence]
            await asyncio.gather(*(each.socket.close(REPLACED, "replaced") for each in replaced))

    def fence_of(self, instance_id: InstanceId) -> int:
        """The fence of an agent's present socket; 0 where it has none here."""
        agent_socket = self._open.get(instance_id)
        return agent_socket.fence if agent_socket else 0

    def free_fence_of(self, instance_id: InstanceId) -> int:
        """The fence of an agent's present socket that takes messages; 0 for none. May be called in any thread."""
        agent_socket = self._open.get(instance_id)
        return agent_socket.fence if agent_socket and agent_socket.takes_messages else 0

    def deliver(self, incoming: Incoming) -> None:
        """Write a message that is under way to its agent's socket soon. May be called in any thread.

        Where the socket has closed meanwhile, the sweep looks into the message.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hand_on, incoming)

    def _hand_on(self, incoming: Incoming) -> None:
        agent_socket = self._open.get(incoming.instance_id) if incoming.instance_id else None
        if agent_socket is not None and agent_socket.fence == incoming.fence:
            agent_socket.hand_on(incoming)

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
