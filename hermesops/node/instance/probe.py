"""``probe``: figures of the agent's health, to be compared with earlier ones and with other agents.

A figure that cannot be taken is ``null``: it must not look like a good one. Nothing is changed but for the turn, which
is only taken when asked for.
"""

import re
import time
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from hermesops.node.errors import NodeError
from hermesops.node.instance import drain
from hermesops.node.instance.agent import gateway, installation, readiness
from hermesops.node.instance.agent.installation import Base
from hermesops.node.instance.personalise import stored_payload
from hermesops.node.machine import Machine
from hermesops.node.release.slots import slot

_LOG = "logs/errors.log"
"""Warnings and worse, below the agent's home.

Source: ``hermes_logging.py`` of hermes-agent 0.18.2 and 0.19.0; times are the machine's local ones.
"""

_TAIL_BYTES = 512 * 1024
_LINE = re.compile(rb"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} (\w+)")
_BAD = frozenset({b"ERROR", b"CRITICAL"})
_CGROUPS = "sys/fs/cgroup"
_ABLE = frozenset({"ok", "degraded"})
"""Gateways that take turns."""

_UNSET = frozenset({"", "[not set]", str(2**64 - 1)})


def probe(machine: Machine, *, since: float | None, turn_s: float) -> dict[str, Any]:
    """Take the figures.

    Errors are counted ``since`` then, in seconds since 1970, if at all. A turn may take ``turn_s``; 0 for none.

    Raises:
        NotReadyError: The machine has no instance yet, or the session of the turn could not be removed.
    """
    key = stored_payload(machine).secrets.api_server_key
    base = installation.load_base(machine.files, machine.layout.base)
    unit = gateway.observe(machine.system, base.unit)
    answers = _answers(machine, base, key)
    taken = (
        readiness.take_turn(machine.system, base.port, key, timeout_s=turn_s)
        if turn_s > 0 and answers in _ABLE
        else None
    )
    waits = gateway.overdue_jobs(machine.system, base.port, key)
    return {
        "at": machine.system.now(),
        "since": since,
        "release": slot.current(machine) or None,
        "gateway": answers,
        "unit": unit.state,
        "uptime_s": unit.uptime_s(machine.system.monotonic()),
        "restarts": unit.restarts,
        "errors": None if since is None else _errors(machine, base, since),
        "memory_bytes": _memory(machine, unit),
        "queue_age_s": None if waits is None else round(max(waits, default=0.0), 3),
        "turn": asdict(taken) if taken else None,
    }


def _answers(machine: Machine, base: Base, key: str) -> str:
    """The gateway's own report, in the words of hermesops."""
    answer = machine.system.ask(base.port, "/health/detailed", key=key)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return "refused"
    if not isinstance(answer.body, dict) or "status" not in answer.body:
        return "silent"
    if drain.is_draining(machine):
        return "draining"
    return "ok" if gateway.is_ok(answer) else "degraded"


def _errors(machine: Machine, base: Base, since: float) -> dict[str, Any] | None:
    """How many errors the log has since then, and whether the part that was read covers all of that time."""
    try:
        with machine.files.opened_folder(machine.layout.home(base.home)) as home:
            log = machine.files.tail(home, _LOG, limit=_TAIL_BYTES)
    except NodeError:
        return None
    moments = [(_moment(found[1]), found[2]) for line in log.splitlines() if (found := _LINE.match(line))]
    count = sum(moment >= since and level in _BAD for moment, level in moments)
    is_whole = len(log) < _TAIL_BYTES or (bool(moments) and moments[0][0] < since)
    return {"count": count, "complete": is_whole}


def _moment(text: bytes) -> float:
    try:
        return time.mktime(time.strptime(text.decode(), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def _memory(machine: Machine, unit: gateway.Unit) -> int | None:
    """Bytes of the gateway and its children: without caches where the kernel counts them apart."""
    group = unit.properties.get("ControlGroup", "").strip("/")
    if group and ".." not in group:
        text = machine.files.read(machine.layout.root / _CGROUPS / group / "memory.stat") or b""
        for line in text.splitlines():
            name, _, value = line.partition(b" ")
            if name == b"anon":
                return int(value)
    current = unit.properties.get("MemoryCurrent", "")
    return _anonymous(machine, unit.properties.get("MainPID", "0")) if current in _UNSET else int(current)


def _anonymous(machine: Machine, pid: str) -> int | None:
    """Bytes of one process alone, where the kernel counts no memory by unit.

    Source: proc(5), ``/proc/PID/status``.
    """
    text = machine.files.read(machine.layout.root / "proc" / pid / "status") or b""
    for line in text.splitlines():
        name, _, value = line.partition(b":")
        if name == b"RssAnon":
            return int(value.split()[0]) * 1024
    return None
