"""``drain`` and ``undrain``: an agent finishes its work and accepts nothing new.

Source: ``gateway/drain_control.py`` of hermes-agent 0.19.0. It reads the marker once a second, refuses new turns while
it is there and holds cron jobs back, which run afterwards. ``active_agents`` counts running turns, API runs and cron
jobs, and for a moment misses one that is just beginning: open connections show that.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.agent.installation import Agent, agent_of, is_running
from hermesops.programs.node.instance.personalise import stored_payload
from hermesops.programs.node.machine import Machine
from hermesops.wire.errors import NodeError, NotReadyError
from hermesops.wire.layout import DRAIN_MARKER
from hermesops.wire.protocol import FencingToken

_EVERY_S = 0.25
_DUE_S = 75.0
"""A job that is due is dispatched within the minute of the agent's ticker."""

_STATUS_S = 2.0
"""Seconds that an agent has to report its work to ``status``."""

_MOST = 1_000_000
"""More runs than any machine has."""

_SETTLED_S = 1.5
"""Seconds from the marker until the agent has read it and refuses new work."""


def drain(machine: Machine, *, deadline_s: float, lease: FencingToken | None) -> tuple[dict[str, Any], bool]:
    """Let the agent finish its work; return the work that is left at the timeout, and whether it is none.

    The marker stays either way: a gateway that was not drained continues to drain until ``undrain``.

    Raises:
        NotReadyError: As ``finish_work``.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        agent = agent_of(machine)
        busy = finish_work(machine, agent, deadline_s=deadline_s)
    drained = is_idle(busy)
    return {"drained": drained, "busy": busy, "seconds": round(machine.system.monotonic() - started, 3)}, drained


def finish_work(
    machine: Machine, agent: Agent, *, deadline_s: float, is_cancelled: Callable[[], bool] = lambda: False
) -> dict[str, int]:
    """Stop new work and wait until the agent has finished; return the work that is left.

    The caller holds the machine's lock; ``is_cancelled`` is called meanwhile and may end the wait.

    Raises:
        NotReadyError: The gateway runs, and at the end of the time it still does not report its work.
    """
    system, started = machine.system, machine.system.monotonic()
    is_unassigned = machine.files.read(machine.layout.identity) is None
    if is_unassigned or not is_running(machine, agent):
        return {"runs": 0, "connections": 0, "cron_due": 0}
    key, due_until = _key(machine), started + min(deadline_s / 2, _DUE_S)
    while _due(machine, agent, key) and not is_cancelled() and system.monotonic() < due_until:
        system.sleep(_EVERY_S * 4)
    with machine.files.opened_folder(agent.home.path) as folder:
        machine.files.write(folder, DRAIN_MARKER, json.dumps({"action": "drain"}).encode(), agent.home.access)
    system.sleep(_SETTLED_S)
    while True:
        is_over = is_cancelled() or system.monotonic() >= started + deadline_s
        try:
            busy = {**_work(machine, agent, key), "cron_due": _due(machine, agent, key)}
        except NotReadyError:  # it may only be starting
            if is_over:
                raise
        else:
            if is_idle(busy) or is_over or not is_running(machine, agent):
                return busy
        system.sleep(_EVERY_S)


def work(machine: Machine) -> dict[str, int] | None:
    """The present work of a user's running agent; ``None`` where it does not report it.

    It never fails: the agent may answer anything, and take its time.
    """
    try:
        return _work(machine, agent_of(machine), _key(machine), timeout_s=_STATUS_S)
    except Exception:  # noqa: BLE001 - whatever it answers, the rest of the status stands
        return None


def is_idle(busy: Mapping[str, int]) -> bool:
    """Whether nothing would be interrupted; a job that came due meanwhile waits for the next gateway."""
    return not busy["runs"] and not busy["connections"]


def undrain(machine: Machine, *, lease: FencingToken | None) -> dict[str, Any]:
    """Let the agent take turns again."""
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        machine.remove(agent_of(machine).home.path / DRAIN_MARKER)
    return {"drained": False}


def is_draining(machine: Machine) -> bool:
    """Whether the agent's drain marker exists."""
    try:
        with machine.files.opened_folder(agent_of(machine).home.path) as folder:
            return machine.files.exists(folder, DRAIN_MARKER)
    except NodeError:
        return False


def _work(machine: Machine, agent: Agent, key: str, *, timeout_s: float = 5.0) -> dict[str, int]:
    answer = machine.system.ask(agent.base.port, "/health/detailed", key=key, timeout_s=timeout_s)
    if not isinstance(answer.body, dict) and is_running(machine, agent):
        raise NotReadyError(f"the gateway does not report its work: {answer}")
    return {"runs": runs_in(answer), "connections": machine.system.connections(agent.base.port)}


def runs_in(answer: Answer) -> int:
    """Number of runs in an answer to ``/health/detailed``; 0 for any other answer."""
    queues = answer.part("readiness", "checks", "background_queues")
    return max(_count(answer.part().get("active_agents")), _count(queues.get("active_api_runs")))


def _count(value: object) -> int:
    return min(max(value, 0), _MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def _due(machine: Machine, agent: Agent, key: str) -> int:
    return len(gateway.overdue_jobs(machine.system, agent.base.port, key) or ())


def _key(machine: Machine) -> str:
    return stored_payload(machine).secrets.api_server_key
