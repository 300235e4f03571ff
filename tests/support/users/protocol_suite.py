"""The A2A project's own suite (a2a-tck) against our handler, over an agent whose answers the suite's scenarios name.

``python -m tests.support.users.protocol_suite FOLDER PYTHON [OPTION ...]`` runs the suite that lies in FOLDER with that
Python, which has the suite's requirements; options go to the suite. Without a folder it serves the agent until ended.

Sources: a2a-tck, branch 1.0-dev, ``scenarios/*.feature``: the begin of a message's id names the behaviour; A2A
specification 1.0, section 3.3.1: agents may take a second message of the same id for the first one, as ours do. The
suite uses an id many times, so ``Adapter`` gives each message its own.
"""

import asyncio
import json
import logging
import re
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, Task
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from hermesops.a2a.application import A2A, PREFIX, A2AParts
from hermesops.a2a.handler import Handler
from hermesops.a2a.pushes import notification
from hermesops.api import problems
from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, cancel, until
from hermesops.model.chat.caller import Caller
from hermesops.serving.limits import Limits, TooManyError
from hermesops.users.callers.pushes import PushSender, TaskNotices
from hermesops.users.callers.tasks import AgentTasks
from tests.support.real.relay import HOST
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import UsersApi, served, users_api
from tests.support.users.calling import make_caller
from tests.support.users.notified import HOSTNAME, Receiver, receiving
from tests.support.users.scripted_agent import Run, ScriptedAgent

ANSWERS = {
    "complete-task": "Hello from TCK",
    "artifact-text": "Generated text content",
    "stream-artifact-text": "Streamed text content",
}
"""Answers that a scenario words; others are not compared."""

_REQUEST = {"command": "ls", "description": "lists", "choices": ["once", "deny"]}
_SCENARIO = re.compile(r"tck-(.+?)-[0-9a-f]{8}")
_PARTS = {
    "artifact-file": Part(raw=b"content", filename="output.txt", media_type="text/plain"),
    "artifact-file-url": Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain"),
    "artifact-data": ParseDict({"data": {"key": "value", "count": 42}}, Part()),
}
_DIRECT = "message-response"


class RunningClock(TurnedClock):
    """The computer's."""

    def __call__(self) -> datetime:
        return datetime.now(UTC)


class SuiteAgent(ScriptedAgent):
    """An agent that does what the newest message's scenario says.

    Attributes:
        scenario: Of the message that comes next.
    """

    scenario = ""

    async def _begin(self, request: Request) -> Response:
        self.says = False
        response = await super()._begin(request)
        if self.scenario == "input-required":
            self.push(self.run, "approval.request", **_REQUEST)
        else:
            self._answer(self.run)
        return response

    async def _approve(self, request: Request) -> Response:
        response = await super()._approve(request)
        self._answer(self.runs[request.path_params["run"]])
        return response

    def finish(self) -> None:
        """End runs that wait for an answer, which the suite leaves behind."""
        for run in self.runs.values():
            if run.status == "running":
                self._answer(run)

    def _answer(self, run: Run) -> None:
        text = ANSWERS.get(self.scenario, ANSWERS["complete-task"])
        for piece in (text[:6], text[6:]):
            self.push(run, "message.delta", delta=piece)
        self.end(run, text)


class SuiteHandler(Handler):
    """Our handler; contents that our agents never answer with take the place of its text where a scenario wants them.

    So these scenarios show that the routes render such contents, and nothing of our agents.
    """

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Answer a message."""
        task: Task = await super().on_message_send(params, context)
        scenario = scenario_of(params.message.message_id)
        if scenario == _DIRECT:
            parts = [Part(text="Direct message response")]
            return Message(message_id=uuid4().hex, role=Role.ROLE_AGENT, context_id=task.context_id, parts=parts)
        if scenario in _PARTS:
            task.artifacts[0].parts[0].CopyFrom(_PARTS[scenario])
        return task


class Adapter:
    """Adapts the suite's requests: it has no key, uses ids many times, and is notified over plain HTTP.

    Args:
        key: Of the suite as a caller.
    """

    def __init__(self, app: ASGIApp, api: UsersApi, agent: SuiteAgent, key: str) -> None:
        self._app = app
        self._api = api
        self._agent = agent
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        body = await Request(scope, receive).body()
        kept = [header for header in scope["headers"] if header[0].lower() != b"authorization"]
        changes = {
            "headers": [*kept, (b"authorization", f"Bearer {self._key}".encode())],
            "state": {"request_id": "suite"},
        }
        adapted = await self._adapted(body)
        is_replayed = False

        async def replayed() -> Event:
            nonlocal is_replayed
            if is_replayed:
                return await receive()
            is_replayed = True
            return {"type": "http.request", "body": adapted, "more_body": False}

        await self._app({**scope, **changes}, replayed, send)

    async def _adapted(self, body: bytes) -> bytes:
        try:
            document = json.loads(body)
        except ValueError:
            return body
        request = document.get("params", document)
        message = request.get("message")
        if isinstance(message, dict) and isinstance(message.get("messageId"), str):
            await self._adapt(message)
        _adapt_addresses(request)
        return json.dumps(document).encode()

    async def _adapt(self, message: dict[str, object]) -> None:
        scenario = scenario_of(str(message["messageId"]))
        message["messageId"] = f"{message['messageId']}-{uuid4().hex[:8]}"
        if "taskId" not in message:
            self._agent.scenario = scenario
            await self._free()
        elif scenario == "complete-task":
            message["parts"] = [{"text": "yes"}]  # our agents ask for an approval where the suite's ask anything

    async def _free(self) -> None:
        """End what the suite began before and left: a caller has one task at a time."""
        self._agent.finish()

        async def ended() -> bool | Pending[bool]:
            count = self._api.rows.turns.open_count(self._api.ada.user_id, of_callers=True)
            return Pending("not yet") if count else True

        await until(ended, what="the end of earlier tasks", timeout_s=20, every_s=0.02)


def scenario_of(message_id: str) -> str:
    """The scenario that a message's id names; empty for none."""
    match = _SCENARIO.match(message_id)
    return match[1] if match else ""


def _adapt_addresses(value: object) -> None:
    """Lead notifications to the host behind TLS that passes them on: ours go nowhere else."""
    if isinstance(value, dict):
        url = urlsplit(value["url"]) if isinstance(value.get("url"), str) else None
        if url is not None and url.scheme == "http":
            value["url"] = f"https://{HOSTNAME}/{url.port}{url.path}"
        for each in value.values():
            _adapt_addresses(each)


async def _pass_on(head: Mapping[str, str], body: bytes) -> None:
    port, _, path = head["request"].split()[1].removeprefix("/").partition("/")
    headers = {name: head[name] for name in ("content-type", "authorization") if name in head}
    async with own_client() as http:
        await http.post(f"http://{HOST}:{port}/{path}", content=body, headers=headers)


@asynccontextmanager
async def suite_agent(folder: Path) -> AsyncIterator[str]:
    """An agent for the suite; its URL."""
    agent = SuiteAgent()
    async with AsyncExitStack() as stack:
        url = f"sqlite:///{folder}/state/registry.db"
        api = await stack.enter_async_context(users_api(folder, url, RunningClock(), agent=agent))
        receiver = await stack.enter_async_context(receiving(folder))
        receiver.pass_on = _pass_on
        ada = await stack.enter_async_context(api.client())
        listener = stack.enter_context(socket.create_server((HOST, 0)))
        origin = f"http://{HOST}:{listener.getsockname()[1]}"
        application, sender = _calling(api, origin, receiver)
        sending = asyncio.ensure_future(sender.run())
        stack.push_async_callback(cancel, sending)
        caller = await make_caller(ada, push_hosts=[HOSTNAME, "example.com"], may_approve=True)
        app = Starlette(routes=[Mount(PREFIX, Adapter(application, api, agent, str(caller["key"])))])
        await stack.enter_async_context(served(app, listener))
        yield f"{origin}{PREFIX}/{api.ada.id}"


def _calling(api: UsersApi, origin: str, receiver: Receiver) -> tuple[A2A, PushSender]:
    """The application as the API has it, but for ``SuiteHandler``, and limits for a suite that never waits."""
    chat, rows, callers = api.process.chat, api.calling_rows, api.process.parts.callers
    assert callers is not None
    moment = iter(range(10**9))
    tasks, limits = AgentTasks(chat, rows.tasks), Limits(lambda: next(moment) * 60.0)

    async def check(caller: Caller) -> object:
        return await chat.running(caller.user_id)

    def refuse(request: Request, error: Exception) -> Response:
        return (
            problems.of_limit(request, error) if isinstance(error, TooManyError) else problems.of_ours(request, error)
        )

    handler = SuiteHandler(callers, tasks, TaskNotices(rows.pushes), limits)
    parts = A2AParts(origin, callers, limits, handler, refuse, check)  # type: ignore[arg-type]
    return A2A(parts), PushSender(rows.pushes, rows.callers, tasks, notification, receiver.network)


async def _run(suite: Path, python: str, options: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with suite_agent(Path(folder)) as url:
            command = [python, "run_tck.py", "--sut-host", url, *(options or ["--level", "must"])]
            process = await asyncio.create_subprocess_exec(*command, cwd=suite)
            return await process.wait()


async def _serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with suite_agent(Path(folder)) as url:
            print(url, flush=True)  # noqa: T201 - the command's answer
            await asyncio.Event().wait()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if sys.argv[1:]:
        sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
    asyncio.run(_serve())
