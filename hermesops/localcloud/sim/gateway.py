"""The gateway of a simulated machine: its systemd unit, and what the agent's API says but for turns of a chat.

It runs with what it read when it started, as the real one does: a file written later counts after a restart.

Source: hermes-agent 0.19.0's API server, and its managed scope as hermes-node writes it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from hermesops.localcloud.sim.disk import Disk
from hermesops.localcloud.sim.software import AGENT_VERSION, HOME, PORT, UNIT
from hermesops.localcloud.sim.store import Record, Store
from hermesops.node.errors import BadRequestError
from hermesops.node.messengers import platforms_of
from hermesops.node.render import PROVIDER, TOKEN_VARIABLE

_OCCASIONS = ("/etc/hermes-node/identity.json", "/etc/hermes-node/warm.json")
"""Conditions of the real unit: it starts only where one of these exists."""

_HINDRANCES = ("/etc/hermes-node/fenced", "/etc/hermes-node/restoring")
"""Conditions of the real unit: it does not start while one of these exists."""

MOOD = "/run/simulation/gateway"
"""A file of which a person can make a gateway unwell: ``silent``, ``degraded`` or ``crashed``."""


@dataclass
class State:
    """What is remembered of it.

    Attributes:
        boot: The boot that ``active`` and ``since`` are of.
        since: When it was started, in seconds since 1970.
        starts: How often it was started.
        environment: The managed environment as it was read at the start.
        config: The managed configuration as it was read at the start.
    """

    enabled: bool = True
    active: bool = False
    boot: int = 0
    since: float = 0.0
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    jobs: list[dict[str, Any]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class ModelAccess:
    """Where the agent finds its model."""

    base_url: str
    token: str = field(repr=False)
    model: str


class Gateway:
    """One machine's.

    Args:
        store: Where its state is kept.
        record: The machine.
        disk: Its disk.
        now: Seconds since 1970.
    """

    def __init__(self, store: Store, record: Record, disk: Disk, now: Callable[[], float]) -> None:
        self._store = store
        self._record = record
        self._disk = disk
        self._now = now
        held = store.unit(record.id)
        self._state = State(**json.loads(held)) if held else State()

    # The unit

    @property
    def is_active(self) -> bool:
        """Whether its process runs."""
        return self._state.active and self._state.boot == self._record.boots and self._mood != "crashed"

    @property
    def is_enabled(self) -> bool:
        """Whether a boot starts it."""
        return self._state.enabled

    def enable(self, *, enabled: bool) -> None:
        """Have a boot start it, or not."""
        self._state.enabled = enabled
        self._keep()

    def start(self) -> None:
        """Start it unless it runs, or nobody owns the machine yet."""
        if self.is_active or not any(map(self._disk.look, _OCCASIONS)) or any(map(self._disk.look, _HINDRANCES)):
            return
        self._disk.remove(MOOD)
        state = self._state
        state.active, state.boot, state.since, state.starts = True, self._record.boots, self._now(), state.starts + 1
        state.environment = self._environment()
        state.config = json.loads(self._text("/etc/hermes/config.yaml") or "{}")
        self._keep()

    def stop(self) -> None:
        """Stop it."""
        self._state.active = False
        self._keep()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The agent's cron jobs; a real one keeps them in its home."""
        return self._state.jobs

    def put_jobs(self, jobs: list[dict[str, Any]]) -> None:
        """Give the agent other cron jobs than it has."""
        self._state.jobs = jobs
        self._keep()

    def show(self) -> dict[str, str]:
        """Its properties, in systemd's words."""
        active, entered = self.is_active, self._state.since
        starting = active and self._now() < entered
        return {
            "Id": UNIT,
            "LoadState": "loaded",
            "ActiveState": ("activating" if starting else "active") if active else "inactive",
            "SubState": ("start" if starting else "running") if active else "dead",
            "Result": "signal" if self._mood == "crashed" else "success",
            "MainPID": str(100 + self._state.starts) if active else "0",
            "NRestarts": "0",
            "ExecMainStatus": "0",
            "ActiveEnterTimestampMonotonic": str(int(entered * 1e6)) if active and not starting else "0",
            "WatchdogUSec": "30s",
            "StatusText": "",
            "UnitFileState": "enabled" if self._state.enabled else "disabled",
            "ConditionResult": "yes" if self._state.starts else "no",
            "InvocationID": uuid5(NAMESPACE_OID, f"{self._record.id} {self._state.starts}").hex if active else "",
        }

    def _keep(self) -> None:
        self._store.put_unit(self._record.id, json.dumps(asdict(self._state)))

    def _text(self, path: str) -> str:
        entry = self._disk.look(path)
        return entry.data.decode(errors="replace") if entry else ""

    @property
    def _mood(self) -> str:
        return self._text(MOOD).strip()

    # The API

    def listens(self, port: int) -> bool:
        """Whether it has that port of the loopback open."""
        is_up = self.is_active and self._now() >= self._state.since
        return port == PORT and is_up and self._mood != "silent"

    def knows(self, key: str) -> bool:
        """Whether a bearer is the instance's API key."""
        return bool(key) and key == self._state.environment.get("API_SERVER_KEY")

    @property
    def is_draining(self) -> bool:
        """Whether it takes no more turns."""
        return self._disk.look(f"{HOME}/.drain_request.json") is not None

    @property
    def model(self) -> ModelAccess:
        """Where it finds its model."""
        config = self._state.config
        provider = config.get("providers", {}).get(PROVIDER, {})
        return ModelAccess(
            base_url=str(provider.get("base_url", "")),
            token=self._state.environment.get(TOKEN_VARIABLE, ""),
            model=str(config.get("model", {}).get("default", "")),
        )

    def answer(self, method: str, path: str, key: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a request to the API that is no turn of a chat."""
        path = path.partition("?")[0]
        if (method, path) in {("GET", "/health"), ("GET", "/v1/health")}:
            return HTTPStatus.OK, {"status": "ok", "version": AGENT_VERSION}
        if not self.knows(key):
            return HTTPStatus.UNAUTHORIZED, {"error": {"message": "Invalid API key", "code": "invalid_api_key"}}
        match method, path.strip("/").split("/"):
            case "GET", ["health", "detailed"]:
                return HTTPStatus.OK, self._health()
            case "GET", ["api", "jobs"]:
                return HTTPStatus.OK, {"jobs": self._state.jobs}
            case "POST", ["api", "jobs"]:
                job = {**body, "id": f"job{len(self._state.jobs) + 1}", "enabled": True}
                self._state.jobs.append(job)
                self._keep()
                return HTTPStatus.OK, {"job": job}
            case "POST", ["api", "jobs", job_id, "pause"]:
                return self._pause(job_id)
            case "POST", ["api", "sessions"]:
                return HTTPStatus.CREATED, {"session": {"id": body.get("id", "")}}
            case "POST", ["api", "sessions", _, "chat"]:
                return HTTPStatus.OK, self._silent_turn()
            case "DELETE", ["api", "sessions", _]:
                return HTTPStatus.OK, {"deleted": True}
        return HTTPStatus.NOT_FOUND, {"error": {"message": f"no {method} {path}", "code": "not_found"}}

    def _silent_turn(self) -> dict[str, Any]:
        """A turn that asks no router: it only makes the agent read its token and its model again, as the real one."""
        self._state.environment[TOKEN_VARIABLE] = self._environment().get(TOKEN_VARIABLE, "")
        self._state.config["model"] = json.loads(self._text("/etc/hermes/config.yaml") or "{}").get("model", {})
        self._keep()
        return {"object": "hermes.session.chat.completion", "message": {"role": "assistant", "content": ""}}

    def _environment(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self._text("/etc/hermes/.env").splitlines())
        return {name: value.strip("'") for name, sign, value in pairs if sign}

    def _pause(self, job_id: str) -> tuple[int, dict[str, Any]]:
        for job in self._state.jobs:
            if job["id"] == job_id:
                job["enabled"] = False
                self._keep()
                return HTTPStatus.OK, {"job": job}
        return HTTPStatus.NOT_FOUND, {"error": {"message": "no such job", "code": "not_found"}}

    def _health(self) -> dict[str, Any]:
        well = "degraded" if self._mood == "degraded" else "ok"
        return {
            "status": well,
            "version": AGENT_VERSION,
            "gateway_state": "draining" if self.is_draining else "running",
            "platforms": {name: {"state": "connected"} for name in sorted(self._platforms())},
            "readiness": {"checks": {"gateway": {"status": well}, "model": {"status": "ok"}}},
        }

    def _platforms(self) -> set[str]:
        found: set[str] = set()
        for name in self._state.environment:
            try:
                found |= platforms_of([name])
            except BadRequestError:
                continue  # a variable of no messenger
        return found
