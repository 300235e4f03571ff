"""The computer as hermes-node sees it: accounts, systemd, the agent's API and a clock, for all tests of hermes-node."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.system.files import Access
from tests.support.crash.death import raise_killed

KEY = "k" * 64
"""Bearer of the agent's API."""


@dataclass(frozen=True)
class ApiRequest:
    """A request to the agent's API.

    Attributes:
        step: Method and path.
    """

    step: tuple[str, str]
    key: str
    body: Mapping[str, Any] | None
    timeout_s: float
    largest: int | None

    @property
    def path(self) -> str:
        return self.step[1]


@dataclass
class FakeSystem:
    """Implements ``System``; a test that needs another gateway overrides ``control`` or ``answer``.

    Attributes:
        work: How many agents are active, look by look; the last stays.
        open_connections: The same of connections.
        jobs: The agent's scheduled jobs.
        stopped: How often the gateway was stopped.
        is_well: Whether the agent calls itself well.
        fixed_answer: The agent's answer to everything; ``None`` for the usual ones.
        killed_at: First word of ``systemctl`` or path of the API at which hermes-node dies.
    """

    running: bool = False
    now_s: float = 0.0
    work: list[int] = field(default_factory=lambda: [0])
    open_connections: list[int] = field(default_factory=lambda: [0])
    jobs: list[dict[str, Any]] = field(default_factory=list)
    stopped: int = 0
    is_well: bool = True
    fixed_answer: Answer | None = None
    killed_at: str = ""

    def account(self, _user: str) -> Access:
        return Access(0o600, os.geteuid(), os.getegid())

    def systemctl(self, *words: str, check: bool = True) -> str:  # noqa: ARG002 - the Protocol's
        if words[0] == self.killed_at:
            raise_killed()
        return self.control(*words)

    def control(self, *words: str) -> str:
        """Carry out a command of ``systemctl``; its output."""
        self.stopped += words[0] == "stop"
        self.running = {"start": True, "stop": False}.get(words[0], self.running)
        return self.shown()

    def shown(self) -> str:
        """The gateway's unit as ``systemctl show`` prints it."""
        return f"ActiveState={'active' if self.running else 'inactive'}\n"

    def connections(self, _port: int) -> int:
        return next_of(self.open_connections)

    def now(self) -> float:
        return 1_800_000_000 + self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def ask(
        self,
        _port: int,
        path: str,
        *,
        key: str = "",
        body: Mapping[str, Any] | None = None,
        method: str = "",
        timeout_s: float = 5.0,
        largest: int | None = None,
    ) -> Answer:
        assert timeout_s > 0
        assert largest is None or largest > 0
        if path == self.killed_at:
            raise_killed()
        step = (method or ("GET" if body is None else "POST"), path)
        if self.fixed_answer is not None:
            return self.fixed_answer
        return self.answer(ApiRequest(step, key, body, timeout_s, largest))

    def answer(self, request: ApiRequest) -> Answer:
        """The agent's answer."""
        if request.path == "/health":
            return Answer(200 if self.running else 0, {})
        assert request.key == KEY
        match request.step:
            case "GET", "/health/detailed":
                status = "ok" if self.is_well else "degraded"
                return Answer(200, {"status": status, "active_agents": next_of(self.work)})
            case "POST", "/api/jobs":
                assert request.body is not None
                self.jobs.append({"id": str(len(self.jobs)), "enabled": True, **request.body})
                return Answer(200, {"job": self.jobs[-1]})
            case "POST", path if path.endswith("/pause"):
                self.jobs[int(path.split("/")[3])]["enabled"] = False
                return Answer(200, {})
            case "GET", path if path.startswith("/api/jobs"):
                return Answer(200, {"jobs": self.jobs})
        return Answer(404, {})


def next_of(values: list[int]) -> int:
    """The first value, which is dropped unless it is the last one."""
    return values.pop(0) if len(values) > 1 else values[0]
