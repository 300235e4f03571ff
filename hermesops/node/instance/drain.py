"""``drain`` and ``undrain``: an agent that finishes what it is at and takes nothing new.

Source: ``gateway/drain_control.py`` of hermes-agent 0.19.0. It reads the marker once a second, refuses new turns while
it is there and holds cron jobs back, which run afterwards. ``active_agents`` counts turns, API runs and cron jobs
under way, and for a moment misses one that is just beginning: open connections tell of that.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hermesops.node.errors import NodeError, NotReadyError
from hermesops.node.instance import fencing_token
from hermesops.node.instance.agent import cron_jobs, gateway
from hermesops.node.instance.agent.installation import Agent, agent_of, is_running
from hermesops.node.instance.personalise import stored_payload
from hermesops.node.layout import DRAIN_MARKER
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken

_EVERY_S = 0.25
_DUE_S = 75.0
"""A job that is due is dispatched within the minute of the agent's ticker."""

_GLANCE_S = 2.0
"""Seconds that an agent has to say what it is at where nobody waits for it to finish."""

_MOST = 1_000_000
"""More runs than any machine has."""

_SETTLED_S = 1.5
"""From the marker on, until the agent has read it and refuses what comes."""


def drain(machine: Machine, *, deadline_s: float, lease: FencingToken | None) -> tuple[dict[str, Any], bool]:
    """Have the agent finish what it is at; what it is still at when the time is up, and whether that is nothing.

    The marker stays either way: a gateway that was not drained goes on draining until ``undrain``.

    Args:
        machine: Which.
        deadline_s: Seconds it may take.
        lease: Under which this is done.

    Raises:
        NotReadyError: The gateway runs, and does not say what it is at.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        agent = agent_of(machine)
        busy = finish_work(machine, agent, deadline_s=deadline_s)
    drained = is_idle(busy)
    return {"drained": drained, "busy": busy, "seconds": round(machine.system.monotonic() - started, 3)}, drained


def _never() -> bool:
    return False


def finish_work(
    machine: Machine, agent: Agent, *, deadline_s: float, is_cancelled: Callable[[], bool] = _never
) -> dict[str, int]:
    """Have the agent take nothing new, and wait until it is at nothing; what it is at in the end.

    The caller holds the machine's lock.

    Args:
        machine: Which.
        agent: Its.
        deadline_s: Seconds it may take.
        is_cancelled: Asked meanwhile whether to wait no longer.
    """
    started = machine.system.monotonic()
    is_nobodys = machine.files.read(machine.layout.identity) is None
    if is_nobodys or not is_running(machine, agent):
        return {"runs": 0, "connections": 0, "cron_due": 0}
    due_until = started + min(deadline_s / 2, _DUE_S)
    _await_due(machine, agent, lambda: is_cancelled() or machine.system.monotonic() >= due_until)
    with machine.files.opened_folder(agent.home.path) as folder:
        machine.files.write(folder, DRAIN_MARKER, json.dumps({"action": "drain"}).encode(), agent.home.access)
    machine.system.sleep(_SETTLED_S)
    return _finish(machine, agent, lambda: is_cancelled() or machine.system.monotonic() >= started + deadline_s)


def under_way(machine: Machine) -> dict[str, int] | None:
    """What a user's agent that runs is at just now, which nothing is done about; ``None`` where it does not say.

    It never keeps anybody from looking at the machine: the agent may answer anything, and take its time.
    """
    try:
        return _at_work(machine, agent_of(machine), _key(machine), timeout_s=_GLANCE_S)
    except Exception:  # noqa: BLE001 - whatever it answers, the rest of the look stands
        return None


def is_idle(busy: Mapping[str, int]) -> bool:
    """Whether nothing would be cut off; a job that came due meanwhile waits for the gateway that comes next."""
    return not busy["runs"] and not busy["connections"]


def undrain(machine: Machine, *, lease: FencingToken | None) -> dict[str, Any]:
    """Have the agent take turns again."""
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        machine.remove(agent_of(machine).home.path / DRAIN_MARKER)
    return {"drained": False}


def is_draining(machine: Machine) -> bool:
    """Whether the marker is there."""
    try:
        with machine.files.opened_folder(agent_of(machine).home.path) as folder:
            return machine.files.exists(folder, DRAIN_MARKER)
    except NodeError:
        return False


def _await_due(machine: Machine, agent: Agent, is_over: Callable[[], bool]) -> None:
    while _due(machine, agent, _key(machine)) and not is_over():
        machine.system.sleep(_EVERY_S * 4)


def _finish(machine: Machine, agent: Agent, is_over: Callable[[], bool]) -> dict[str, int]:
    key = _key(machine)
    while True:
        busy = _busy(machine, agent, key)
        if is_idle(busy) or is_over() or not is_running(machine, agent):
            return busy
        machine.system.sleep(_EVERY_S)


def _busy(machine: Machine, agent: Agent, key: str) -> dict[str, int]:
    return {**_at_work(machine, agent, key), "cron_due": _due(machine, agent, key)}


def _at_work(machine: Machine, agent: Agent, key: str, *, timeout_s: float = 5.0) -> dict[str, int]:
    runs = _runs(machine, agent, key, timeout_s=timeout_s)
    return {"runs": runs, "connections": machine.system.connections(agent.base.port)}


def _runs(machine: Machine, agent: Agent, key: str, *, timeout_s: float) -> int:
    answer = machine.system.ask(agent.base.port, "/health/detailed", key=key, timeout_s=timeout_s)
    if not isinstance(answer.body, dict):
        if gateway.look(machine.system, agent.base.unit).is_running:
            raise NotReadyError(f"the gateway does not say what it is at: {answer}")
        return 0
    queues = answer.part("readiness", "checks", "background_queues")
    return max(_count(answer.body.get("active_agents")), _count(queues.get("active_api_runs")))


def _count(value: object) -> int:
    return min(max(value, 0), _MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def _due(machine: Machine, agent: Agent, key: str) -> int:
    return len(cron_jobs.overdue(machine.system, agent.base.port, key) or ())


def _key(machine: Machine) -> str:
    return stored_payload(machine).secrets.api_server_key
