"""Agents' APIs, many in one process: each run answers with its message, in pieces, and takes its time for that.

A run whose message says so asks for approval of commands before, one after the other, each for a minute at most; an
answer goes to the oldest request that waits, whichever was meant, as with hermes-agent 0.19.0
(``tools/approval.py``, ``resolve_gateway_approval``).
"""

import asyncio
import contextlib
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hermesops.api.server import Server
from hermesops.base.waiting import cancel, pause
from tests.support.real.relay import HOST
from tests.support.users.scripted_agent import Run, ScriptedAgent

_MOST_PIECES = 8
_LONGEST_PIECE_S = 0.6
_APPROVAL_S = 60.0
"""Of hermes-agent 0.19.0's ``approvals.timeout``."""

_ASKS = "run"
_CHOICES = ("once", "session", "always", "deny")
EXPIRED = "expired"


@dataclass
class EchoAgent(ScriptedAgent):
    """An agent that answers a message with its words, a piece at a time.

    Attributes:
        chance: Decides on pieces and pauses.
        outcomes: Of each command, the choice that reached it, or ``EXPIRED``.
        waiting: The request of each run that waits.
    """

    says: bool = False
    chance: random.Random = field(default_factory=random.Random)
    speaking: set[asyncio.Task[None]] = field(default_factory=set)
    outcomes: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, asyncio.Future[str]] = field(default_factory=dict)

    async def _begin(self, request: Request) -> Response:
        known = len(self.runs)
        answer = await super()._begin(request)
        if len(self.runs) > known:
            task = asyncio.ensure_future(self._speak(self.run))
            self.speaking.add(task)
            task.add_done_callback(self.speaking.discard)
        return answer

    async def _speak(self, run: Run) -> None:
        for command in commands_of(run.text):
            self.outcomes[command] = await self._permission(run, command)
        pieces = pieces_of(run.text, self.chance.randint(1, _MOST_PIECES))
        for number, piece in enumerate(pieces):
            await pause(self.chance.uniform(0, _LONGEST_PIECE_S))
            if number % 3 == 2:
                self.push(run, "tool.started", tool="terminal", preview=f"ls {number}")
            self.push(run, "message.delta", delta=piece)
        self.end(run, "".join(pieces))

    async def _permission(self, run: Run, command: str) -> str:
        answered = self.waiting[run.id] = asyncio.get_running_loop().create_future()
        run.status = "waiting_for_approval"
        self.push(run, "approval.request", command=command, timestamp=time.time(), choices=list(_CHOICES))
        try:
            return await asyncio.wait_for(answered, _APPROVAL_S)
        except TimeoutError:
            return EXPIRED
        finally:
            self.waiting.pop(run.id, None)
            run.status = "running"

    async def _approve(self, request: Request) -> Response:
        waits = self.waiting.pop(request.path_params["run"], None)
        if waits is None:
            return JSONResponse({"error": {"message": "no approval waits", "code": "approval_not_pending"}}, 409)
        choice = (await request.json())["choice"]
        waits.set_result(choice)
        return JSONResponse({"choice": choice, "resolved": 1})

    def counts(self) -> Counter[str]:
        """How many runs there were of each message."""
        return Counter(run.text for run in self.runs.values())


def message_of(key: str, requests: int) -> str:
    """A message that makes an agent ask for so many approvals. Pure."""
    return f"{_ASKS} {requests} {key} end" if requests else f"word {key} end"


def commands_of(message: str) -> Sequence[str]:
    """The commands for which a message's run asks for approval, each unique. Pure."""
    words = message.split()
    return [f"rm {words[2]}/{number}" for number in range(int(words[1]))] if words[0] == _ASKS else []


def pieces_of(message: str, count: int) -> Sequence[str]:
    """The answer to a message, in numbered pieces. Pure."""
    return [f"{number} of {count}: {message}. " for number in range(1, count + 1)]


def is_answer_to(message: str, answer: str) -> bool:
    """Whether an answer is a whole one of this message. Pure."""
    count = answer.count(message)
    return count > 0 and answer.strip() == "".join(pieces_of(message, count)).strip()


@dataclass(frozen=True)
class EchoAgents:
    """The agents.

    Attributes:
        agents: By the port at which each answers.
    """

    agents: dict[int, EchoAgent]

    def urls(self) -> Sequence[str]:
        return [f"http://{HOST}:{port}" for port in self.agents]


@contextlib.asynccontextmanager
async def echo_agents(count: int, seed: int) -> AsyncIterator[EchoAgents]:
    """So many agents on loopback, each on a port of its own, behind one server."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((HOST, 0), backlog=64)) for _ in range(count)]
        agents, apps = dict[int, EchoAgent](), dict[int, ASGIApp]()
        for number, listener in enumerate(listeners):
            listener.setblocking(False)
            port = int(listener.getsockname()[1])
            agents[port] = EchoAgent(chance=random.Random(f"{seed}/agent/{number}"))  # noqa: S311 - choices, no secrets
            apps[port] = agents[port].app()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await apps[scope["server"][1]](scope, receive, send)

        server = Server(app, listeners[0])
        serving = asyncio.ensure_future(server.serve(sockets=listeners))
        try:
            yield EchoAgents(agents)
        finally:
            server.should_exit = True
            await cancel(*(task for agent in agents.values() for task in agent.speaking))
            await asyncio.gather(serving, return_exceptions=True)
