"""The agent's API of a simulated machine, but for turns of a chat, which need a model router.

A run is a turn without a model: it takes time on the machine's clock, and its result follows from the release's faults.

Source: hermes-agent 0.19.0's API server.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from hermesops.localcloud.drivers.sim.agent.gateway import Gateway
from hermesops.localcloud.drivers.sim.agent.release_faults import ReleaseFault
from hermesops.wire.errors import BadRequestError
from hermesops.wire.settings import platforms_of

Reply = tuple[int, dict[str, Any]]


class Api:
    """The API of one machine's agent; made for one request of hermesops, or one run of hermes-node."""

    def __init__(self, gateway: Gateway, now: Callable[[], float]) -> None:
        self._gateway = gateway
        self._now = now
        self._runs: dict[str, float] = {}

    def answer(self, method: str, path: str, key: str, body: Mapping[str, Any]) -> Reply:
        """Answer one request to the agent's API."""
        path = path.partition("?")[0]
        if (method, path) in {("GET", "/health"), ("GET", "/v1/health")}:
            return HTTPStatus.OK, {"status": "ok", "version": self._gateway.state.version}
        if not self._gateway.knows(key):
            return HTTPStatus.UNAUTHORIZED, {"error": {"message": "Invalid API key", "code": "invalid_api_key"}}
        match method, path.strip("/").split("/"):
            case "GET", ["health", "detailed"]:
                return HTTPStatus.OK, self._health()
            case "GET", ["v1", "toolsets"]:
                return HTTPStatus.OK, {"object": "list", "platform": "api_server", "data": [_TOOLSET]}
            case method, ["v1", "runs", *rest]:
                return self._run(method, rest)
            case method, ["api", "jobs", *rest]:
                return self._job(method, rest, body)
            case method, ["api", "sessions", *rest]:
                return self._session(method, rest, body)
        return HTTPStatus.NOT_FOUND, {"error": {"message": f"no {method} {path}", "code": "not_found"}}

    # Sessions, of which nothing stays

    def _session(self, method: str, rest: list[str], body: Mapping[str, Any]) -> Reply:
        match method, rest:
            case "GET", []:
                return HTTPStatus.OK, {"object": "list", "data": []}
            case "POST", []:
                return HTTPStatus.CREATED, {"session": {"id": body.get("id", "")}}
            case "POST", [_, "chat"]:
                # It asks no router: it only makes the agent read its token and its model again, as the real one.
                self._gateway.read_again()
                message = {"role": "assistant", "content": ""}
                return HTTPStatus.OK, {"object": "hermes.session.chat.completion", "message": message}
            case "DELETE", [_]:
                return HTTPStatus.OK, {"deleted": True}
        return HTTPStatus.NOT_FOUND, {"error": {"message": "no such session", "code": "not_found"}}

    # Runs

    def _run(self, method: str, rest: list[str]) -> Reply:
        match method, rest:
            case "POST", []:
                if self._gateway.is_draining:
                    return HTTPStatus.SERVICE_UNAVAILABLE, {"error": {"code": "gateway_draining"}}
                run = f"run_{uuid4().hex}"
                self._runs[run] = self._now() + self._gateway.symptoms.turn_s(run)
                return HTTPStatus.ACCEPTED, {"run_id": run, "status": "started"}
            case "GET", [run] if run in self._runs:
                if self._now() < self._runs[run]:
                    return HTTPStatus.OK, {"run_id": run, "status": "running"}
                if not self._gateway.symptoms.takes_turns:
                    return HTTPStatus.OK, {"run_id": run, "status": "failed", "error": "this release takes no turns"}
                return HTTPStatus.OK, {"run_id": run, "status": "completed", "output": "pong"}
            case "POST", [run, "stop"] if run in self._runs:
                return HTTPStatus.OK, {"run_id": run, "status": "stopping"}
        return HTTPStatus.NOT_FOUND, {"error": {"message": "no such run", "code": "run_not_found"}}

    # Jobs

    def _job(self, method: str, rest: list[str], body: Mapping[str, Any]) -> Reply:
        jobs = self._gateway.jobs
        match method, rest:
            case "GET", []:
                return HTTPStatus.OK, {"jobs": [*jobs, *self._stuck()]}
            case "POST", []:
                job = {**body, "id": f"job{len(jobs) + 1}", "enabled": True}
                self._gateway.put_jobs([*jobs, job])
                return HTTPStatus.OK, {"job": job}
            case "POST", [job_id, "pause"]:
                for job in jobs:
                    if job["id"] == job_id:
                        job["enabled"] = False
                        self._gateway.put_jobs(jobs)
                        return HTTPStatus.OK, {"job": job}
        return HTTPStatus.NOT_FOUND, {"error": {"message": "no such job", "code": "not_found"}}

    def _stuck(self) -> list[dict[str, Any]]:
        """A job that the release keeps waiting."""
        waits_s = self._gateway.release_faults.get(ReleaseFault.QUEUE)
        if waits_s is None:
            return []
        due = datetime.fromtimestamp(self._now() - waits_s, UTC)
        return [{"id": "stuck", "name": "stuck", "enabled": True, "next_run_at": due.isoformat()}]

    # Health

    def _health(self) -> dict[str, Any]:
        well = "degraded" if self._gateway.mood == "degraded" else "ok"
        messenger = "disconnected" if self._gateway.mood == "disconnected" else "connected"
        return {
            "status": well,
            "version": self._gateway.state.version,
            "gateway_state": "draining" if self._gateway.is_draining else "running",
            "platforms": {name: {"state": messenger} for name in sorted(self._platforms())},
            "active_agents": int(self._gateway.mood == "busy"),
            "readiness": {"checks": {"gateway": {"status": well}, "model": {"status": "ok"}}},
        }

    def _platforms(self) -> set[str]:
        platforms: set[str] = set()
        for name in self._gateway.state.environment:
            try:
                platforms |= platforms_of([name])
            except BadRequestError:
                continue  # a variable of no messenger
        return platforms


_TOOLSET = {
    "name": "terminal",
    "label": "Terminal",
    "description": "Run commands",
    "enabled": True,
    "configured": True,
    "tools": ["process", "terminal"],
}
