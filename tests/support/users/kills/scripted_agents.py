"""Agents whose gateways are killed: their transcript outlives them, what was in memory does not.

They follow hermes-agent 0.19.0 as it was observed: a message is acknowledged before its turn begins, a turn that was
cut short goes on after the next start and names no message then, and an answer for which no socket is open is not sent.
"""

import asyncio
import contextlib
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from hermesops.base.waiting import cancel, pause
from hermesops.connector.server import PATH
from hermesops.model.fleet.instance import Instance
from tests.support.users.kills.connector_process import HOST
from tests.support.users.messaging import bearer

_DIALS_EVERY_S = 0.3


@dataclass
class ScriptedAgent:
    """An agent.

    Attributes:
        secret: Of its socket.
        transcript: Rows as the agent's API has them.
        begun: How often a turn began, by the user's text.
    """

    instance: Instance
    secret: str = field(repr=False)
    port: int
    draw: random.Random
    transcript: list[dict[str, Any]] = field(default_factory=list)
    begun: Counter[str] = field(default_factory=Counter)
    chat: str = ""
    _requests: int = 0
    _socket: ClientConnection | None = None
    _running: asyncio.Task[None] | None = None
    _turns: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_up(self) -> bool:
        """Whether its gateway runs."""
        return self._running is not None

    @property
    def at_work(self) -> int:
        """How many turns run."""
        return len(self._turns)

    def start(self) -> None:
        """Run its gateway; a turn that was cut short goes on."""
        if self._running is None:
            self._running = asyncio.ensure_future(self._dial())
            if self.transcript and self.transcript[-1]["role"] == "user":
                self._begin(self._answer(str(self.transcript[-1]["content"]), ""))

    async def kill(self) -> None:
        """Kill its gateway: turns stop where they are, and messages that have not begun are forgotten."""
        if self._running is not None:
            await cancel(self._running, *self._turns)
            self._running, self._socket = None, None
            self._turns.clear()

    async def _dial(self) -> None:
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                headers = {"authorization": f"Bearer {bearer(self.instance.id, self.secret)}"}
                async with connect(f"ws://{HOST}:{self.port}{PATH}", additional_headers=headers, proxy=None) as opened:
                    await self._serve(opened)
            self._socket = None
            await pause(_DIALS_EVERY_S)

    async def _serve(self, opened: ClientConnection) -> None:
        await opened.send(json.dumps({"type": "hello", "platform": "telegram", "botId": "b"}) + "\n")
        self._socket = opened
        async for line in opened:
            frame = json.loads(line)
            if frame["type"] == "inbound":
                event = frame["event"]
                self.chat = event["source"]["chat_id"]
                await opened.send(json.dumps({"type": "inbound_ack", "bufferId": frame["bufferId"]}) + "\n")
                self._begin(self._turn(event["text"], event["message_id"]))

    def _begin(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        task = asyncio.ensure_future(work)
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)

    async def _turn(self, text: str, message_id: str) -> None:
        await pause(self.draw.uniform(0, 0.3))
        self.begun[text] += 1
        self._add("user", text)
        await self._answer(text, message_id)

    async def _answer(self, text: str, message_id: str) -> None:
        await pause(self.draw.uniform(0, 0.6))
        self._add("assistant", f"re {text}")
        self._requests += 1
        action = {"op": "send", "chat_id": self.chat, "content": f"re {text}", "reply_to": message_id or None}
        frame = {"type": "outbound", "requestId": f"{self._requests}", "action": action}
        if self._socket is not None:
            with contextlib.suppress(WebSocketException):
                await self._socket.send(json.dumps(frame) + "\n")

    def _add(self, role: str, text: str) -> None:
        self.transcript.append({"id": len(self.transcript) + 1, "role": role, "content": text})


@dataclass(frozen=True)
class AgentApis:
    """The APIs of all agents."""

    agents: dict[str, ScriptedAgent]

    def routes(self) -> list[Route]:
        """Of the server that they share, each below its agent's id."""
        return [
            Route("/{agent}/health/detailed", self._health),
            Route("/{agent}/api/sessions", self._sessions),
            Route("/{agent}/api/sessions/{session}/messages", self._messages),
        ]

    async def _health(self, request: Request) -> Response:
        agent = self._of(request)
        return JSONResponse({"active_agents": agent.at_work}) if agent else Response(status_code=503)

    async def _sessions(self, request: Request) -> Response:
        agent = self._of(request)
        rows = [{"id": "s", "user_id": agent.chat, "started_at": 1.0}] if agent else []
        return JSONResponse({"data": rows}) if agent else Response(status_code=503)

    async def _messages(self, request: Request) -> Response:
        agent = self._of(request)
        return JSONResponse({"data": agent.transcript}) if agent else Response(status_code=503)

    def _of(self, request: Request) -> ScriptedAgent | None:
        agent = self.agents[request.path_params["agent"]]
        return agent if agent.is_up else None
