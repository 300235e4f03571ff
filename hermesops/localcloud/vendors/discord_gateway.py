"""The gateway of the stand-in of Discord: sessions that are resumed, heartbeats, and the limits of what a bot sends.

Source: Discord, "Gateway", "Gateway Events", "Opcodes and Status Codes".
"""

import asyncio
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpcore
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from hermesops.base.waiting import cancel, pause
from hermesops.localcloud.proxy.upgrade import Handshake, splice

DIRECT_MESSAGES = 1 << 12
BEAT_S = 41.25
"""Seconds between two heartbeats, as Discord asks for them."""

_MOST_PAYLOADS, _PAYLOADS_S = 120, 60.0
_LARGEST = 4096
_IDENTIFY_S = 5.0
_HOST = "127.0.0.1"


@dataclass
class _Session:
    """A session with the events that it may be sent again."""

    id: str
    events: list[Mapping[str, Any]] = field(default_factory=list)
    socket: ServerConnection | None = None


class LocalGateway:
    """The gateway, on a port of loopback of its own.

    Args:
        token: Of the bot.
        broken: Counts what broke a limit.
    """

    def __init__(self, token: Callable[[], str], broken: Counter[str]) -> None:
        self.beat_s = BEAT_S
        self.sessions_left = 1000
        self.resumed = 0
        """How often a session was resumed."""

        self.passed_on = ""
        """Where a server of this computer passes connections on to it, by ``carry``; empty for nowhere."""

        self.is_deaf = False
        """Whether heartbeats stay without an answer."""

        self._token, self._broken = token, broken
        self._server: Server | None = None
        self._session: _Session | None = None
        self._identified_at = float("-inf")
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it is, once it is open."""
        return self.passed_on or f"ws://{_HOST}:{self._port}"

    @property
    def _port(self) -> int:
        if self._server is None:
            raise RuntimeError("the gateway is not open")
        return int(next(iter(self._server.sockets)).getsockname()[1])

    @property
    def has_session(self) -> bool:
        """Whether the bot has one."""
        return self._session is not None

    async def open(self) -> None:
        """Take connections from now on."""
        self._server = await serve(self._serve, _HOST, 0, ping_interval=None, max_size=1 << 20)

    async def carry(self, handshake: Handshake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, until it ends."""
        stream = await httpcore.AnyIOBackend().connect_tcp(_HOST, self._port)
        try:
            await stream.write(handshake.head)
            await splice(reader, writer, stream)
        finally:
            await stream.aclose()

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def dispatch(self, name: str, data: Mapping[str, Any]) -> None:
        """Send an event to the session, at once or when it is resumed; it is lost where there is none."""
        if self._session is not None:
            self._session.events.append({"op": 0, "t": name, "s": len(self._session.events) + 1, "d": dict(data)})
            self._in_background(self._session.socket, self._session.events[-1])

    async def drop(self, code: int = 1006) -> None:
        """End the connection of the session: without a word for 1006, which is no code that one sends."""
        socket = self._session.socket if self._session else None
        if socket is not None and code == 1006:  # noqa: PLR2004 - as documented
            socket.transport.abort()
        elif socket is not None:
            await socket.close(code)

    def ask_for_another(self) -> None:
        """Ask the session's connection to give way to another one."""
        self._in_background(self._session.socket if self._session else None, {"op": 7, "d": None})

    def forget(self) -> None:
        """Forget the session: it cannot be resumed."""
        self._session = None

    def _in_background(self, socket: ServerConnection | None, payload: Mapping[str, Any]) -> None:
        if socket is not None:
            task = asyncio.ensure_future(_send(socket, payload))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _serve(self, socket: ServerConnection) -> None:
        await _send(socket, {"op": 10, "d": {"heartbeat_interval": int(self.beat_s * 1000)}})
        beaten_at, payloads = time.monotonic(), deque[float]()
        watching = asyncio.ensure_future(self._watch(socket, lambda: beaten_at))
        try:
            async for text in socket:
                if code := self._broken_by(text, payloads):
                    await socket.close(code)
                    return
                payload = json.loads(text)
                if payload["op"] == 1:
                    beaten_at = time.monotonic()
                await self._take(socket, payload)
        except ConnectionClosed:
            return
        finally:
            await cancel(watching)
            if self._session is not None and self._session.socket is socket:
                self._session.socket = None

    async def _watch(self, socket: ServerConnection, beaten_at: Callable[[], float]) -> None:
        """Close a connection that sends no heartbeats."""
        while time.monotonic() - beaten_at() < 2 * self.beat_s:
            await pause(self.beat_s / 4)
        self._broken["heartbeat"] += 1
        await socket.close(4009)

    def _broken_by(self, text: str | bytes, payloads: deque[float]) -> int:
        """The code for a payload that breaks a limit; 0 for another."""
        now = time.monotonic()
        while payloads and payloads[0] <= now - _PAYLOADS_S:
            payloads.popleft()
        payloads.append(now)
        if len(payloads) > _MOST_PAYLOADS:
            self._broken["payloads"] += 1
            return 4008
        if len(text) > _LARGEST:
            self._broken["large payload"] += 1
            return 4002
        return 0

    async def _take(self, socket: ServerConnection, payload: Mapping[str, Any]) -> None:
        match payload["op"]:
            case 1:
                if not self.is_deaf:
                    await _send(socket, {"op": 11})
            case 2:
                await self._identify(socket, payload["d"])
            case 6:
                await self._resume(socket, payload["d"])
            case _:
                await socket.close(4001)

    async def _identify(self, socket: ServerConnection, data: Mapping[str, Any]) -> None:
        if data.get("token") != self._token():
            await socket.close(4004)
            return
        now = time.monotonic()
        is_early, self._identified_at = now - self._identified_at < _IDENTIFY_S, now
        if is_early or self.sessions_left < 1 or data.get("intents") != DIRECT_MESSAGES:
            self._broken["identify" if is_early else "intents" if self.sessions_left else "sessions"] += 1
            await _send(socket, {"op": 9, "d": False})
            return
        self.sessions_left -= 1
        self._session = _Session(secrets.token_hex(16), socket=socket)
        ready = {"v": 10, "session_id": self._session.id, "resume_gateway_url": self.url, "guilds": []}
        self.dispatch("READY", ready)

    async def _resume(self, socket: ServerConnection, data: Mapping[str, Any]) -> None:
        if data.get("token") != self._token():
            await socket.close(4004)
            return
        session, sequence = self._session, data.get("seq")
        if session is None or data.get("session_id") != session.id:
            await _send(socket, {"op": 9, "d": False})
            return
        if not isinstance(sequence, int) or sequence > len(session.events):
            await socket.close(4007)
            return
        session.socket = socket
        self.resumed += 1
        for event in session.events[sequence:]:
            await _send(socket, event)
        self.dispatch("RESUMED", {})


async def _send(socket: ServerConnection, payload: Mapping[str, Any]) -> None:
    try:
        await socket.send(json.dumps(dict(payload)))
    except ConnectionClosed:
        return
