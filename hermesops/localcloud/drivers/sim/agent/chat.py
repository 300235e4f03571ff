"""Runs and sessions of simulated agents, as chats use them: kept in this process, and gone with it.

A run forgets itself when its gateway restarts, a session does not, as with the real one. ``RUN: command`` makes the
scripted model ask for the terminal; nothing is run, and a command with ``rm`` or ``sudo`` needs an approval first.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``, routes ``/v1/runs`` and ``/api/sessions``.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import httpx

from hermesops.localcloud.drivers.sim.agent.gateway import Gateway, ModelAccess

Reply = tuple[int, dict[str, Any]]

_DANGEROUS = re.compile(r"\b(rm|sudo)\b")
_APPROVAL_S = 60.0
_MOST_STEPS = 8
_MOST_MESSAGES = 1_000
_KEEP_ALIVE_S = 30.0
_TERMINAL = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Run a command",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


@dataclass
class _Run:
    """A run; ``start`` names the start of the gateway that it is of."""

    id: str
    session: str
    start: tuple[int, int]
    status: str = "queued"
    output: str = field(default="", repr=False)
    error: str = ""
    events: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue, repr=False)
    is_read: bool = False
    is_stopping: bool = False
    approval: asyncio.Future[str] | None = None
    task: asyncio.Task[None] | None = None

    def push(self, kind: str, **more: object) -> None:
        self.events.put_nowait({"event": kind, "run_id": self.id, "timestamp": time.time(), **more})


@dataclass
class _Machine:
    """The chats and runs of one simulated machine."""

    runs: dict[str, _Run] = field(default_factory=dict)
    sessions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    last_id: int = 0

    def say(self, session: str, role: str, content: str, **more: object) -> None:
        self.last_id += 1
        messages = self.sessions.setdefault(session, [])
        messages.append({"id": self.last_id, "role": role, "content": content, "timestamp": time.time(), **more})
        del messages[:-_MOST_MESSAGES]


class Chats:
    """The chats of all simulated agents.

    Args:
        http: Asks model routers.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._machines: dict[str, _Machine] = {}

    async def close(self) -> None:
        """End all runs of chats that are under way."""
        tasks = [run.task for machine in self._machines.values() for run in machine.runs.values() if run.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def active(self, machine_id: str, gateway: Gateway) -> int:
        """How many runs a gateway works on."""
        return sum(
            run.task is not None and not run.task.done() for run in self._machine(machine_id, gateway).runs.values()
        )

    def answer(
        self, machine_id: str, gateway: Gateway, method: str, path: str, body: Mapping[str, Any]
    ) -> Reply | None:
        """Answer one request; ``None`` for one that is about no chat."""
        machine = self._machine(machine_id, gateway)
        match method, path.strip("/").split("/"):
            case "POST", ["v1", "runs"] if isinstance(body.get("session_id"), str):
                return self._begin(machine, gateway, body)
            case _, ["v1", "runs", run_id, *rest] if run_id in machine.runs:
                return _of_run(machine.runs[run_id], method, rest, body)
            case "GET", ["api", "sessions"]:
                return HTTPStatus.OK, {"object": "list", "data": _listed(machine.sessions)}
            case "GET", ["api", "sessions", session, "messages"] if session in machine.sessions:
                return HTTPStatus.OK, {"object": "list", "session_id": session, "data": machine.sessions[session]}
            case "DELETE", ["api", "sessions", session] if machine.sessions.pop(session, None) is not None:
                return HTTPStatus.OK, {"object": "hermes.session.deleted", "id": session, "deleted": True}
        return None

    def events(self, machine_id: str, gateway: Gateway, method: str, path: str) -> AsyncIterator[bytes] | None:
        """The events of a run, once; ``None`` where there are none to be read."""
        parts = path.strip("/").split("/")
        if (method, parts[:2], parts[3:]) != ("GET", ["v1", "runs"], ["events"]):
            return None
        run = self._machine(machine_id, gateway).runs.get(parts[2])
        if run is None or run.is_read:
            return None
        run.is_read = True
        return _stream(run)

    def _machine(self, machine_id: str, gateway: Gateway) -> _Machine:
        machine, start = self._machines.setdefault(machine_id, _Machine()), _start_of(gateway)
        for run in [run for run in machine.runs.values() if run.start != start]:
            del machine.runs[run.id]
            if run.task:
                run.task.cancel()
        return machine

    def _begin(self, machine: _Machine, gateway: Gateway, body: Mapping[str, Any]) -> Reply:
        if gateway.is_draining:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": {"message": "draining", "code": "gateway_draining"}}
        question = body.get("input")
        if isinstance(question, list) and question and isinstance(question[-1], dict):
            question = question[-1].get("content")
        if not question:
            return HTTPStatus.BAD_REQUEST, {"error": {"message": "Missing 'input' field"}}
        run = _Run(f"run_{uuid4().hex}", str(body["session_id"]), _start_of(gateway))
        machine.runs[run.id] = run
        machine.say(run.session, "user", _text(question))
        history = [each for each in body.get("conversation_history") or [] if isinstance(each, dict)]
        messages: list[Mapping[str, Any]] = [*history, {"role": "user", "content": question}]
        run.task = asyncio.create_task(self._work(machine, gateway.model, run, messages))
        return HTTPStatus.ACCEPTED, {"run_id": run.id, "status": "started"}

    async def _work(self, machine: _Machine, model: ModelAccess, run: _Run, messages: list[Mapping[str, Any]]) -> None:
        run.status = "running"
        try:
            for _ in range(_MOST_STEPS):
                text, command = await self._ask(model, run, messages)
                if run.is_stopping:
                    run.status = "cancelled"
                    run.push("run.cancelled")
                    return
                if command is None:
                    machine.say(run.session, "assistant", text)
                    run.status, run.output = "completed", text
                    run.push("run.completed", output=text)
                    return
                machine.say(run.session, "assistant", "", tool_calls=[{"function": {"name": "terminal"}}])
                output = await _terminal(run, command)
                machine.say(run.session, "tool", output)
                messages += [
                    {"role": "assistant", "content": None, "tool_calls": [_called(command)]},
                    {"role": "tool", "tool_call_id": "call_1", "content": output},
                ]
            _fail(run, "the model asks for tools without an end")
        except httpx.HTTPError as error:
            _fail(run, f"the model does not answer: {type(error).__name__}")
        finally:
            run.events.put_nowait(None)

    async def _ask(
        self, model: ModelAccess, run: _Run, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, str | None]:
        """The model's next message: its text, and the command that it wants run."""
        question = {"model": model.model, "messages": list(messages), "stream": True, "tools": [_TERMINAL]}
        headers = {"authorization": f"Bearer {model.token}"}
        text, arguments = "", ""
        url = f"{model.base_url}/chat/completions"
        async with self._http.stream("POST", url, json=question, headers=headers) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                for delta in _deltas(line):
                    if piece := delta.get("content"):
                        text += piece
                        run.push("message.delta", delta=piece)
                    for call in delta.get("tool_calls") or ():
                        arguments += str(call.get("function", {}).get("arguments") or "")
        return text, str(json.loads(arguments).get("command", "")) if arguments else None


def _fail(run: _Run, why: str) -> None:
    run.status, run.error = "failed", why
    run.push("run.failed", error=why)


def _of_run(run: _Run, method: str, rest: Sequence[str], body: Mapping[str, Any]) -> Reply:
    match method, list(rest):
        case "GET", []:
            more = {"output": run.output} if run.status == "completed" else {"error": run.error} if run.error else {}
            return HTTPStatus.OK, {"object": "hermes.run", "run_id": run.id, "status": run.status, **more}
        case "POST", ["stop"]:
            run.is_stopping = True
            if run.status not in {"completed", "failed", "cancelled"}:
                run.status = "stopping"
            if run.approval and not run.approval.done():
                run.approval.set_result("deny")
            return HTTPStatus.OK, {"run_id": run.id, "status": "stopping"}
        case "POST", ["approval"]:
            if run.approval is None or run.approval.done():
                return HTTPStatus.CONFLICT, {
                    "error": {"message": "no pending approval", "code": "approval_not_pending"}
                }
            run.approval.set_result(str(body.get("choice")))
            run.status = "running"
            run.push("approval.responded", choice=body.get("choice"), resolved=1)
            return HTTPStatus.OK, {"run_id": run.id, "choice": body.get("choice"), "resolved": 1}
    return HTTPStatus.NOT_FOUND, {"error": {"message": "no such run", "code": "run_not_found"}}


async def _terminal(run: _Run, command: str) -> str:
    """What the terminal says about a command, which is not run."""
    run.push("tool.started", tool="terminal", preview=command[:80])
    choice = "once"
    if _DANGEROUS.search(command):
        run.approval = asyncio.get_running_loop().create_future()
        run.status = "waiting_for_approval"
        choices = ["once", "session", "always", "deny"]
        run.push("approval.request", command=command, description="it may delete files", choices=choices)
        choice = "deny"
        with contextlib.suppress(TimeoutError):
            choice = await asyncio.wait_for(run.approval, _APPROVAL_S)
        run.status = "stopping" if run.is_stopping else "running"
    run.push("tool.completed", tool="terminal", duration=0.0, error=choice == "deny")
    return f"BLOCKED: {command}" if choice == "deny" else f"(simulated) {command}"


async def _stream(run: _Run) -> AsyncIterator[bytes]:
    while True:
        try:
            event = await asyncio.wait_for(run.events.get(), _KEEP_ALIVE_S)
        except TimeoutError:
            yield b": keepalive\n\n"
            continue
        if event is None:
            yield b": stream closed\n\n"
            return
        yield f"data: {json.dumps(event)}\n\n".encode()


def _deltas(line: str) -> Sequence[Mapping[str, Any]]:
    if not line.startswith("data:") or line.endswith("[DONE]"):
        return ()
    return [choice.get("delta") or {} for choice in json.loads(line.removeprefix("data:")).get("choices") or ()]


def _called(command: str) -> dict[str, object]:
    arguments = json.dumps({"command": command})
    return {"id": "call_1", "type": "function", "function": {"name": "terminal", "arguments": arguments}}


def _listed(sessions: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, object]]:
    return [
        {
            "id": name,
            "source": "api_server",
            "title": str(messages[0]["content"])[:60] if messages else "",
            "started_at": messages[0]["timestamp"] if messages else None,
            "last_active": messages[-1]["timestamp"] if messages else None,
            "message_count": len(messages),
        }
        for name, messages in sessions.items()
    ]


def _text(question: object) -> str:
    if isinstance(question, list):
        return "\n".join(str(part.get("text", "")) for part in question if isinstance(part, dict) and "text" in part)
    return str(question)


def _start_of(gateway: Gateway) -> tuple[int, int]:
    return gateway.state.boot, gateway.state.starts
