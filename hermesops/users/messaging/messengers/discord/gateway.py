"""Discord's gateway: one socket by which direct messages come, resumed where it breaks.

A message counts as seen once it is a row: what breaks before is sent again after a resume. Where a session cannot be
resumed, messages that were missed are read from the chats.

Source: Discord, "Gateway" (connections, heartbeats, resuming, rate limits, intents), "Gateway Events", "Opcodes and
Status Codes" (close codes).
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, UnknownOutcomeError
from hermesops.model.messaging.message import Update
from hermesops.users.messaging.messengers.discord.read import read
from hermesops.users.messaging.messengers.discord.send import DiscordBot
from hermesops.wire import strict_json

DIRECT_MESSAGES = 1 << 12
"""The one intent: texts of messages to the bot come without a privileged one."""

_BEAT, _IDENTIFY, _RESUME, _HELLO = 1, 2, 6, 10
_LARGEST = 1 << 20
_OPEN_S, _HELLO_S = 10.0, 20.0
_IDENTIFY_EVERY_S = 5.5
"""Discord documents one session in five seconds."""

_RESUMABLE = 4000
"""Closes a socket whose session goes on; 1000 and 1001 would end the session."""

_SESSION_ENDED = frozenset({1000, 1001, 4003, 4007, 4009})
_OF_OPERATOR = frozenset({4004, 4010, 4011, 4012, 4013, 4014})
_OF_OPERATOR_S = 300.0
_LONGEST_BACKOFF_S = 60.0
_AGAIN_S = 1.0
_LOCAL = frozenset({"127.0.0.1", "localhost"})

log = structlog.get_logger()


@dataclass
class GatewaySession:
    """A session, which sockets take up one after the other.

    Attributes:
        id: Empty for none.
        url: Where it is resumed.
        sequence: Of the last event that was dealt with.
    """

    id: str = ""
    url: str = ""
    sequence: int | None = None

    def end(self) -> None:
        """Forget it."""
        self.id, self.url, self.sequence = "", "", None

    def opening(self, token: str) -> Mapping[str, Any]:
        """The payload that begins a session, or takes this one up."""
        if self.id:
            return {"op": _RESUME, "d": {"token": token, "session_id": self.id, "seq": self.sequence}}
        properties = {"os": "linux", "browser": "hermesops", "device": "hermesops"}
        return {"op": _IDENTIFY, "d": {"token": token, "intents": DIRECT_MESSAGES, "properties": properties}}


class SocketEndedError(Exception):
    """The socket is of no more use.

    Attributes:
        wait_s: Seconds before the next one.
    """

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


@dataclass
class DiscordGateway:
    """The one socket of the bot.

    Attributes:
        receive: Writes a message into a row, unless it is there already.
        heard: Called for each message that is a row.
        begun: Called when a session begins: earlier messages may have been missed.
        alive: Called in a thread when Discord answers the session.
    """

    bot: DiscordBot
    receive: Callable[[Update], bool]
    heard: Callable[[], None]
    begun: Callable[[], Awaitable[None]]
    alive: Callable[[], None] = lambda: None
    session: GatewaySession = field(default_factory=GatewaySession)
    _identified_at: float = float("-inf")
    _failures: int = 0
    _catching_up: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> None:
        """Take messages until cancelled, whatever breaks."""
        try:
            while True:
                wait_s = await self._run_once()
                await pause(wait_s)
        finally:
            await cancel(*self._catching_up)

    async def _run_once(self) -> float:
        """Use one socket until it ends; returns the seconds before the next one."""
        try:
            url = await self._address()
            async with connect(
                f"{url}/?v=10&encoding=json",
                max_size=_LARGEST,
                compression=None,
                open_timeout=_OPEN_S,
                ping_interval=None,  # heartbeats take their place
                proxy=None if urlsplit(url).hostname in _LOCAL else True,
            ) as socket:
                await self._serve(socket)
        except SocketEndedError as ended:
            log.info("discord_socket_ended", why=str(ended))
            return ended.wait_s
        except ConnectionClosed as closed:
            return self._after_close(closed.rcvd.code if closed.rcvd else 1006)
        except (HermesError, UnknownOutcomeError, InvalidHandshake, InvalidURI, OSError, TimeoutError) as error:
            log.warning("discord_not_reached", why=type(error).__name__)
        return self._backoff()

    async def _address(self) -> str:
        """Where to connect to; waits until a session may begin, where none is to be resumed."""
        if self.session.id:
            return self.session.url
        entrance = await self.bot.entrance()
        if entrance.left < 1:
            raise SocketEndedError("no session may begin today", entrance.again_s or _OF_OPERATOR_S)
        await pause(max(0.0, self._identified_at + _IDENTIFY_EVERY_S - time.monotonic()))
        return entrance.url

    async def _serve(self, socket: ClientConnection) -> None:
        hello = await asyncio.wait_for(_payload(socket), _HELLO_S)
        interval = hello.get("d", {}).get("heartbeat_interval") if isinstance(hello.get("d"), dict) else None
        if hello.get("op") != _HELLO or not isinstance(interval, int | float) or not interval > 0:
            raise SocketEndedError("no greeting", self._backoff())
        if not self.session.id:
            self._identified_at = time.monotonic()
        beats = _Beats(socket, self.session, interval / 1000)
        beating = asyncio.ensure_future(beats.run())
        try:
            await _send(socket, self.session.opening(self.bot.token()))
            while True:
                await self._take(socket, beats, await _payload(socket))
        finally:
            await cancel(beating)

    async def _take(
        self,
        socket: ClientConnection,
        beats: "_Beats",
        payload: Mapping[str, Any],
    ) -> None:
        match payload.get("op"):
            case 0:  # an event
                await self._event(payload)
            case 1:  # a heartbeat is wanted
                await beats.beat()
            case 11:  # a heartbeat was heard
                beats.is_acknowledged = True
                await self._note_alive()
            case 7:
                await socket.close(_RESUMABLE)
                raise SocketEndedError("Discord asks for another socket")
            case 9:
                if payload.get("d") is not True:
                    self.session.end()
                await socket.close(_RESUMABLE)
                raise SocketEndedError("the session is not valid", random.uniform(1.0, 5.0))  # noqa: S311 - as documented

    async def _event(self, payload: Mapping[str, Any]) -> None:
        """Deal with an event; it counts as seen once its message is a row."""
        data, sequence = payload.get("d"), payload.get("s")
        match payload.get("t"):
            case "READY" if isinstance(data, dict):
                self._begin(data)
                log.info("discord_session_begun")
                await self._note_alive()
                self._catching_up = [task for task in self._catching_up if not task.done()]
                self._catching_up.append(asyncio.ensure_future(self.begun()))
            case "RESUMED":
                self._failures = 0
                log.info("discord_session_resumed")
                await self._note_alive()
            case "MESSAGE_CREATE" if isinstance(data, dict) and (update := read(data)):
                await self.keep(update)
        if isinstance(sequence, int):
            self.session.sequence = sequence

    async def _note_alive(self) -> None:
        """Have operators see that the session is alive; a database that is away is their worse trouble."""
        try:
            await asyncio.to_thread(self.alive)
        except HermesError as error:
            log.warning("discord_session_not_noted", why=error.message)

    def _begin(self, data: Mapping[str, Any]) -> None:
        id_, url = data.get("session_id"), data.get("resume_gateway_url")
        if isinstance(id_, str) and isinstance(url, str):
            self.session.id, self.session.url = id_[:256], url[:256]
        self._failures = 0

    async def keep(self, update: Update) -> None:
        """Keep a message, as soon as the database takes it."""
        while True:
            try:
                await asyncio.to_thread(self.receive, update)
            except HermesError as error:
                log.warning("discord_message_not_kept", why=error.message)
                await pause(_AGAIN_S)
            else:
                self.heard()
                return

    def _after_close(self, code: int) -> float:
        if code in _OF_OPERATOR:
            self.session.end()
            log.error("discord_refuses_the_bot", code=code)
            return _OF_OPERATOR_S
        if code in _SESSION_ENDED:
            self.session.end()
        log.info("discord_socket_closed", code=code)
        return self._backoff()

    def _backoff(self) -> float:
        self._failures += 1
        return min(_LONGEST_BACKOFF_S, 2.0 ** min(self._failures - 1, 6)) * random.uniform(0.5, 1.0)  # noqa: S311 - spread


class _Beats:
    """The heartbeats of a socket."""

    def __init__(self, socket: ClientConnection, session: GatewaySession, every_s: float) -> None:
        self._socket, self._session, self._every_s = socket, session, every_s
        self._beaten_at = float("-inf")
        self.is_acknowledged = True

    async def run(self) -> None:
        """Send heartbeats; a socket on which one stays without an answer is closed."""
        await pause(self._every_s * random.random())  # noqa: S311 - as documented, so that not all begin at once
        while self.is_acknowledged:
            self.is_acknowledged = False
            await self.beat()
            await pause(self._every_s)
        await self._socket.close(_RESUMABLE)

    async def beat(self) -> None:
        """Send one, at most one a second: Discord takes 120 payloads a minute."""
        if time.monotonic() - self._beaten_at >= 1.0:
            self._beaten_at = time.monotonic()
            await _send(self._socket, {"op": _BEAT, "d": self._session.sequence})


async def _payload(socket: ClientConnection) -> Mapping[str, Any]:
    try:
        return strict_json.parse_object(await socket.recv(), largest=_LARGEST)
    except strict_json.MalformedJSONError:
        await socket.close(_RESUMABLE)
        raise SocketEndedError("a payload is malformed", _AGAIN_S) from None


async def _send(socket: ClientConnection, payload: Mapping[str, Any]) -> None:
    await socket.send(json.dumps(dict(payload)))
