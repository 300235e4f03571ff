"""An agent's API whose runs do what a test says, one event at a time, and that can die and come back.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``: runs live in memory, their events are read once, and
sessions are in a database.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass
class Run:
    """A run of the agent.

    Attributes:
        body: As it was asked.
    """

    id: str
    body: Mapping[str, Any]
    status: str = "running"
    output: str = ""
    events: asyncio.Queue[Mapping[str, Any] | None] = field(default_factory=asyncio.Queue)
    is_read: bool = False
    choices: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        content = self.body["input"]
        if isinstance(content, str):
            return content
        return "\n".join(part["text"] for part in content[-1]["content"] if part["type"] == "text")


@dataclass
class ScriptedAgent:
    """The agent.

    Attributes:
        loses: How many answers about new runs are lost, though the runs begin.
        drops: How many requests for runs are lost before they begin.
        lists: Whether it answers who asks for its sessions.
        hides: How many reads of a transcript are refused.
        reads: How many were not.
        stores: Whether a run's question comes into the transcript.
        says: Whether runs answer by themselves, with the question and an echo in pieces.
        bearers: Keys that it was asked with.
        titles: Of sessions, by their names.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    sessions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    loses: int = 0
    drops: int = 0
    hides: int = 0
    reads: int = 0
    stores: bool = True
    says: bool = True
    is_away: bool = False
    lists: bool = True
    posts: int = 0
    stops: int = 0
    last_id: int = 0
    bearers: set[str] = field(default_factory=set)
    titles: dict[str, str] = field(default_factory=dict)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/runs", self._begin, methods=["POST"]),
                Route("/v1/runs/{run}", self._run),
                Route("/v1/runs/{run}/events", self._events),
                Route("/v1/runs/{run}/stop", self._stop, methods=["POST"]),
                Route("/v1/runs/{run}/approval", self._approve, methods=["POST"]),
                Route("/health/detailed", self._health),
                Route("/api/sessions", self._sessions),
                Route("/api/sessions/{session}", self._delete, methods=["DELETE"]),
                Route("/api/sessions/{session}/messages", self._messages),
                Route("/api/jobs", self._jobs, methods=["GET", "POST"]),
                Route("/api/jobs/{job}", self._delete_job, methods=["DELETE"]),
                Route("/api/jobs/{job}/pause", self._pause_job, methods=["POST"]),
            ]
        )

    # What a test does to it

    def restart(self) -> None:
        """Die and come back: runs are forgotten, their events end, sessions stay."""
        for run in self.runs.values():
            run.events.put_nowait(None)
        self.runs.clear()

    def say(self, session: str, role: str, content: object, **more: object) -> None:
        self.last_id += 1
        row = {"id": self.last_id, "role": role, "content": content, "timestamp": 1_767_268_800 + self.last_id}
        self.sessions.setdefault(session, []).append({**row, **more})

    def push(self, run: Run, kind: str, **more: object) -> None:
        run.events.put_nowait({"event": kind, "run_id": run.id, **more})

    def end(self, run: Run, output: str) -> None:
        """Answer: into the transcript, then as the run's result."""
        self.say(str(run.body["session_id"]), "assistant", output)
        run.status, run.output = "completed", output
        self.push(run, "run.completed", output=output)
        run.events.put_nowait(None)

    @property
    def run(self) -> Run:
        """The newest one."""
        return list(self.runs.values())[-1]

    # Routes

    async def _begin(self, request: Request) -> Response:
        self._seen(request)
        self.posts += 1
        if self.is_away:
            return _error(503, "gateway_draining")
        if self.drops:
            self.drops -= 1
            return _error(500, "lost")
        body = await request.json()
        run = Run(f"run_{self.posts}", body)
        self.runs[run.id] = run
        if self.stores:
            self.say(body["session_id"], "user", run.text)
        if self.says:
            for piece in ("You said ", "it: ", run.text):
                self.push(run, "message.delta", delta=piece)
            self.end(run, f"You said it: {run.text}")
        if self.loses:
            self.loses -= 1
            return _error(500, "lost")
        return JSONResponse({"run_id": run.id, "status": "started"}, 202)

    async def _run(self, request: Request) -> Response:
        run = self.runs.get(request.path_params["run"])
        if run is None:
            return _error(404, "run_not_found")
        return JSONResponse({"run_id": run.id, "status": run.status, "output": run.output})

    async def _events(self, request: Request) -> Response:
        run = self.runs.get(request.path_params["run"])
        if run is None or run.is_read:
            return _error(404, "run_not_found")
        run.is_read = True

        async def events() -> AsyncIterator[str]:
            while (event := await run.events.get()) is not None:
                yield f"data: {json.dumps(event)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _stop(self, request: Request) -> Response:
        run = self.runs.get(request.path_params["run"])
        if run is None:
            return _error(404, "run_not_found")
        self.stops += 1
        run.status = "cancelled"
        self.push(run, "run.cancelled")
        run.events.put_nowait(None)
        return JSONResponse({"run_id": run.id, "status": "stopping"})

    async def _approve(self, request: Request) -> Response:
        run = self.runs.get(request.path_params["run"])
        if run is None:
            return _error(404, "run_not_found")
        choice = (await request.json())["choice"]
        run.choices.append(choice)
        self.push(run, "approval.responded", choice=choice)
        return JSONResponse({"resolved": 1})

    async def _health(self, _request: Request) -> Response:
        active = sum(run.status in {"running", "waiting_for_approval"} for run in self.runs.values())
        checks = {"background_queues": {"status": "ok", "active_api_runs": active}}
        return JSONResponse({"status": "ok", "readiness": {"checks": checks}})

    async def _sessions(self, _request: Request) -> Response:
        if not self.lists:
            await asyncio.Event().wait()
        data = [
            {
                "id": name,
                "title": self.titles.get(name, f"About {rows[0]['content']}"),
                "last_active": rows[-1]["timestamp"],
            }
            for name, rows in self.sessions.items()
        ]
        return JSONResponse({"object": "list", "data": data})

    async def _messages(self, request: Request) -> Response:
        if self.hides:
            self.hides -= 1
            return _error(503, "gateway_draining")
        self.reads += 1
        rows = self.sessions.get(request.path_params["session"])
        return _error(404, "session_not_found") if rows is None else JSONResponse({"object": "list", "data": rows})

    async def _delete(self, request: Request) -> Response:
        if self.sessions.pop(request.path_params["session"], None) is None:
            return _error(404, "session_not_found")
        return JSONResponse({"deleted": True})

    async def _jobs(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse({"jobs": list(self.jobs.values())})
        body = await request.json()
        if body["schedule"] == "never":
            return JSONResponse({"error": "Invalid schedule"}, 400)
        job = {**body, "id": f"{len(self.jobs):012x}", "enabled": True}
        self.jobs[job["id"]] = job
        return JSONResponse({"job": job})

    async def _delete_job(self, request: Request) -> Response:
        job = self.jobs.pop(request.path_params["job"], None)
        return _error(404, "Job not found") if job is None else JSONResponse({"ok": True})

    async def _pause_job(self, request: Request) -> Response:
        job = self.jobs[request.path_params["job"]]
        job["enabled"] = False
        return JSONResponse({"job": job})

    def _seen(self, request: Request) -> None:
        self.bearers.add(request.headers.get("authorization", ""))


def _error(status: int, code: str) -> Response:
    return JSONResponse({"error": {"message": code, "code": code}}, status)
