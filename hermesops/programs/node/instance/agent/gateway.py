"""The gateway on this machine: its systemd unit, its HTTP API on loopback, its due cron jobs, its MCP servers.

Source: hermes-agent 0.19.0; its log lines of MCP servers (``tools/mcp_tool.py``) as observed on 2026-11-22.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.ports import System
from hermesops.wire.protocol import says_ok

AGENT_LOG = "logs/agent.log"
"""The agent's log, below its home."""

AGENT_LOG_BYTES = 512 * 1024
"""How much of its end is read."""

_CONNECTED = re.compile(r"MCP server '([^']+)' \([^)]*\): registered (\d+) tool")
_LOST = re.compile(r"Failed to connect to MCP server '([^']+)'|MCP server '([^']+)' failed initial connection")
_PROPERTIES = (
    *("ActiveState", "SubState", "Result", "MainPID", "NRestarts", "ExecMainStatus", "ActiveEnterTimestampMonotonic"),
    *("Type", "WatchdogUSec", "StatusText", "UnitFileState", "ConditionResult", "ControlGroup", "MemoryCurrent"),
    "MemoryMax",
)
_OUTCOMES = {"ok": "ok", "error": "failed"}
"""Of the last run of a job, as hermes-agent calls them."""

_RUNNING = frozenset({"active", "activating", "reloading", "deactivating"})


@dataclass(frozen=True)
class Unit:
    """The gateway's unit, as systemd shows it."""

    properties: Mapping[str, str]

    @property
    def state(self) -> str:
        """The unit's ActiveState, as systemd names it."""
        return self.properties.get("ActiveState", "unknown")

    @property
    def is_running(self) -> bool:
        """Whether a process runs, is being started, or is being stopped."""
        return self.state in _RUNNING

    @property
    def restarts(self) -> int:
        """Number of restarts by systemd since the last manual start."""
        return int(self.properties.get("NRestarts") or 0)

    def uptime_s(self, now: float) -> float | None:
        """Seconds since the unit became active, on the machine's monotonic clock; ``None`` if it is not active."""
        entered = int(self.properties.get("ActiveEnterTimestampMonotonic") or 0)
        if self.state != "active" or not entered:
            return None
        return round(now - entered / 1e6, 1)


def observe(system: System, unit: str) -> Unit:
    """Query the state of a unit from systemd."""
    output = system.systemctl("show", unit, f"--property={','.join(_PROPERTIES)}")
    pairs = (line.partition("=") for line in output.splitlines())
    return Unit({name: value for name, _, value in pairs})


def start(system: System, unit: str) -> None:
    """Start a unit that is not running; returns at once, and the caller checks readiness."""
    system.systemctl("reset-failed", unit, check=False)
    system.systemctl("start", "--no-block", unit)


def restart(system: System, unit: str) -> None:
    """Stop a unit, which finishes its work, and start it again; returns when it has stopped."""
    system.systemctl("stop", unit)
    start(system, unit)


def wait_until_healthy(system: System, port: int, key: str, *, timeout_s: float) -> Answer:
    """Wait until the gateway reports that it is healthy; return the last answer, also after the timeout."""
    deadline = system.monotonic() + timeout_s
    while True:
        answer = system.ask(port, "/health")
        if answer.status == HTTPStatus.OK:
            answer = system.ask(port, "/health/detailed", key=key)
            if answer.status == HTTPStatus.UNAUTHORIZED or is_ok(answer):
                return answer
        if system.monotonic() >= deadline:
            return answer
        system.sleep(0.1)


def is_ok(answer: Answer) -> bool:
    """Whether a detailed health answer reports no failure; its status code is 200 even when it does."""
    return answer.status == HTTPStatus.OK and says_ok(answer.body)


def overdue_jobs(system: System, port: int, key: str, *, largest: int | None = None) -> list[float] | None:
    """Seconds since each due cron job became due; ``None`` if the agent does not answer with its jobs.

    ``largest`` is the limit of the answer in bytes, as of ``api.ask``.
    """
    jobs = read_jobs(system, port, key, largest=largest)
    return None if jobs is None else overdue(jobs, system.now())


def read_jobs(system: System, port: int, key: str, *, largest: int | None = None) -> list[dict[str, Any]] | None:
    """The agent's cron jobs as its API has them; ``None`` if it does not answer with them. As ``overdue_jobs``."""
    return system.ask(port, "/api/jobs", key=key, largest=largest).objects("jobs")


def overdue(jobs: Iterable[dict[str, Any]], now: float) -> list[float]:
    """Seconds since each due job became due. Pure."""
    waits = [_overdue_s(job, now) for job in jobs]
    return [seconds for seconds in waits if seconds is not None]


def ended(jobs: Iterable[dict[str, Any]], now: float, within_s: float) -> Mapping[str, int]:
    """How many jobs ended their last run within some seconds, by its outcome, ``ok`` or ``failed``. Pure.

    A run that is interrupted by a shutdown of the gateway, or whose message is not delivered, does not count as failed.

    Source: ``mark_job_run`` in ``cron/jobs.py`` of hermes-agent 0.19.0.
    """
    counts = dict.fromkeys(_OUTCOMES.values(), 0)
    for job in jobs:
        outcome = _OUTCOMES.get(str(job.get("last_status")))
        if outcome and 0 <= now - _time_of(job, "last_run_at") <= within_s:
            counts[outcome] += 1
    return counts


def _overdue_s(job: dict[str, Any], now: float) -> float | None:
    due = _time_of(job, "next_run_at")
    return now - due if bool(job.get("enabled", True)) and due <= now else None


def _time_of(job: dict[str, Any], name: str) -> float:
    """A time of a job in seconds since 1970; infinite where there is none."""
    try:
        return datetime.fromisoformat(str(job[name])).timestamp()
    except (KeyError, ValueError, OverflowError):
        return math.inf


def mcp_states(log: str, names: Iterable[str]) -> Mapping[str, bool | None]:
    """The last state of each MCP server in a log: connected, not connected, or ``None`` for unknown.

    hermes-agent's API does not report them.
    """
    states: dict[str, bool | None] = dict.fromkeys(names)
    for line in log.splitlines():
        name, connected = "", False
        if match := _CONNECTED.search(line):
            name, connected = match[1], True
        elif match := _LOST.search(line):
            name = match[1] or match[2]
        if name in states:
            states[name] = connected
    return states
