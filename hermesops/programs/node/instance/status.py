"""``status``, ``health`` and ``probe`` of this machine: facts, judgements, and figures to compare.

A figure that cannot be taken is ``null``: it must not look like a good one. Nothing here changes the machine, except
the turn of ``probe``, which is taken on request only.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from hermesops.programs.node import VERSION
from hermesops.programs.node.instance import certificate, clock, drain, fencing, volume, warm
from hermesops.programs.node.instance.agent import gateway, installation, readiness
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.agent.installation import Base
from hermesops.programs.node.instance.personalise import is_written, missing_jobs, stored_payload
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release import inventory
from hermesops.programs.node.release.slots import slot
from hermesops.programs.node.release.slots.slot import SHOWN
from hermesops.programs.node.state import backup
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire import protocol, sha256
from hermesops.wire.errors import ExitCode, NodeError
from hermesops.wire.foreign_text import one_line
from hermesops.wire.protocol import Check, Payload, identity_from_json
from hermesops.wire.settings import platforms_of

ERROR_LOG = "logs/errors.log"
"""Warnings and worse, below the agent's home.

Source: ``hermes_logging.py`` of hermes-agent 0.18.2 and 0.19.0; times are the machine's local ones.
"""

_TAIL_BYTES = 512 * 1024
_LINE = re.compile(rb"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} (\w+)")
BAD = frozenset({b"ERROR", b"CRITICAL"})
"""Levels of an error in that log."""

_CGROUPS = "sys/fs/cgroup"
_MOST_PROCESSES = 1024
_ABLE = frozenset({"ok", "degraded"})
"""Gateways that take turns."""

_UNSET = frozenset({"", "[not set]", str(2**64 - 1)})

_CONNECTED = frozenset({"connected", "running", "ok"})


@dataclass(frozen=True)
class Health:
    """All checks of the agent; ``exit_code`` distinguishes a silent gateway from one that reports a failure."""

    checks: tuple[Check, ...]
    exit_code: ExitCode

    def to_json(self) -> dict[str, Any]:
        """The output of ``hermes-node health``, as JSON."""
        return {"ok": self.exit_code == 0, "checks": [asdict(check) for check in self.checks]}


def status(machine: Machine) -> dict[str, Any]:
    """The machine's instance, release and gateway; works on a machine without a user too."""
    identity, payload = machine.files.read(machine.layout.identity), machine.files.read(machine.layout.payload)
    lease = fencing.highest_token(machine)
    base = installation.load_base(machine.files, machine.layout.base)
    unit = gateway.observe(machine.system, base.unit)
    return {
        "node": {"version": VERSION, "protocol": protocol.VERSION, "takes": list(protocol.TAKES)},
        "identity": asdict(identity_from_json(identity)) if identity else None,
        # By this hermesops tells whether the machine has the newest payload, and all that was written of it.
        "payload": sha256.hexdigest(payload) if payload and is_written(machine, base, payload) else None,
        "release": _release(machine),
        "releases": inventory.of_status(machine),
        "gateway": {
            "unit": base.unit,
            "state": unit.state,
            "result": unit.properties.get("Result", ""),
            "restarts": unit.restarts,
            "exit_status": int(unit.properties.get("ExecMainStatus") or 0),
            "uptime_s": unit.uptime_s(machine.system.monotonic()),
            "enabled": unit.properties.get("UnitFileState", ""),
        },
        "busy": drain.work(machine) if identity and unit.is_running else None,
        "draining": drain.is_draining(machine),
        "fenced": fencing.is_fenced(machine),
        "restoring": backup.is_interrupted(machine),
        "warm": warm.is_warm(machine) and identity is None,
        "restart_needed": machine.files.read(machine.layout.stale) is not None
        # A token that the agent was not seen to read: the same payload again ends that.
        or machine.files.read(machine.layout.unread) is not None
        # An interrupted handover of a warm machine: its agent may still hold the placeholder.
        or (warm.is_warm(machine) and identity is not None),
        # Cron jobs of the payload that an interrupted run has not made.
        "jobs_missing": len(missing_jobs(machine, Payload.from_json(payload))) if payload else 0,
        "lease": str(lease) if lease else None,
        "volume": volume.show(machine),
        "certificate": certificate.of_status(machine),
        "clock": clock.of_status(machine),
    }


def _release(machine: Machine) -> dict[str, Any]:
    """The running slot: its id and the descriptive fields of its record."""
    running = slot.current(machine)
    record = slot.record_of(machine, running)
    return {**{name: record[name] for name in SHOWN if name in record}, "id": running or None}


def health(machine: Machine) -> Health:
    """Judge the agent on this machine."""
    try:
        payload = stored_payload(machine)
        base = installation.load_base(machine.files, machine.layout.base)
    except NodeError as error:
        return Health((Check("instance", ok=False, detail=str(error)),), ExitCode.NOT_READY)
    unit = gateway.observe(machine.system, base.unit)
    closed: tuple[Check, ...] = ()
    try:
        volume.refuse_closed(machine)
    except NodeError as error:
        closed = (Check("volume", ok=False, detail=str(error)),)
    first = [
        # systemd calls it active about a second after its API answers.
        Check(
            "unit", unit.state in {"active", "activating"}, f"{unit.state}, result {unit.properties.get('Result', '?')}"
        ),
        Check("release", bool(slot.current(machine)), str(machine.layout.current)),
        *closed,
    ]
    alive = machine.system.ask(base.port, "/health")
    if alive.status != HTTPStatus.OK:
        return Health((*first, Check("api", ok=False, detail=str(alive))), ExitCode.NOT_READY)
    detailed = machine.system.ask(base.port, "/health/detailed", key=payload.secrets.api_server_key)
    checks = (
        *first,
        Check("api", ok=True),
        *_judge(detailed, payload),
        *_servers(machine, base, payload),
        _watchdog(unit),
    )
    return Health(checks, ExitCode.OK if all(check.ok for check in checks) else ExitCode.FAILED)


def _judge(answer: Answer, payload: Payload) -> tuple[Check, ...]:
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return (Check("key", ok=False, detail="the gateway does not accept this instance's API key: restart it"),)
    if not isinstance(answer.body, dict):
        return (Check("ready", ok=False, detail=str(answer)),)
    parts = answer.part("readiness", "checks")
    failing = [name for name in parts if answer.part("readiness", "checks", name).get("status") != "ok"]
    shown = one_line(json.dumps({name: parts[name] for name in failing})) if failing else ""
    state = str(answer.body.get("gateway_state"))
    return (
        Check("key", ok=True),
        Check("ready", gateway.is_ok(answer), shown),
        Check("accepting", state == "running", one_line(state)),
        *_messengers(answer, payload),
    )


def _messengers(answer: Answer, payload: Payload) -> tuple[Check, ...]:
    checks = []
    for name, is_connected in messengers_connected(answer, payload).items():
        platform = answer.part("platforms", name)
        detail = " ".join(filter(None, (_messenger_state(platform), str(platform.get("error_code") or ""))))
        checks.append(Check(f"messenger:{name}", is_connected, one_line(detail)))
    return tuple(checks)


def messengers_connected(answer: Answer, payload: Payload) -> dict[str, bool]:
    """Whether each of the instance's messengers is connected, by the answer to ``/health/detailed``."""
    names = sorted(platforms_of(payload.settings.messengers))
    return {name: _messenger_state(answer.part("platforms", name)) in _CONNECTED for name in names}


def _messenger_state(platform: Mapping[str, Any]) -> str:
    return str(platform.get("state") or platform.get("status") or "absent").lower()


def _servers(machine: Machine, base: Base, payload: Payload) -> tuple[Check, ...]:
    names = sorted(payload.settings.mcp_servers)
    if not names:
        return ()
    with machine.files.opened_folder(machine.layout.home(base.home)) as home:
        log = machine.files.tail(home, gateway.AGENT_LOG, limit=gateway.AGENT_LOG_BYTES).decode(errors="replace")
    states = gateway.mcp_states(log, names)
    words = {True: "connected", False: "not connected", None: "the log does not mention it"}
    return tuple(Check(f"mcp:{name}", states[name] is not False, words[states[name]]) for name in names)


def _watchdog(unit: gateway.Unit) -> Check:
    watched = unit.properties.get("WatchdogUSec", "0")
    if unit.properties.get("Type") == "simple":
        return Check("watchdog", ok=True, detail="none: this release's unit tells systemd nothing")
    return Check("watchdog", watched not in {"", "0", "infinity"}, watched)


def probe(machine: Machine, *, since: float | None, turn_s: float) -> dict[str, Any]:
    """Take the figures.

    Errors are counted ``since`` then, in seconds since 1970, if at all. A turn may take ``turn_s``; 0 for none. Its
    outcome is noted for ``metrics``. An agent with its user's own provider takes none: the user would pay for it.

    Raises:
        NotReadyError: The machine has no instance yet, or the session of the turn could not be removed.
    """
    payload = stored_payload(machine)
    key, takes_turns = payload.secrets.api_server_key, payload.settings.endpoint is None
    base = installation.load_base(machine.files, machine.layout.base)
    unit = gateway.observe(machine.system, base.unit)
    answers = gateway_health(machine, machine.system.ask(base.port, "/health/detailed", key=key))
    taken = (
        readiness.take_turn(machine.system, base.port, key, timeout_s=turn_s)
        if turn_s > 0 and takes_turns and answers in _ABLE
        else None
    )
    if taken:
        turn = {"ok": taken.ok, "seconds": taken.seconds, "at": machine.system.now()}
        machine.files.write_if_changed(machine.layout.last_turn, json.dumps(turn).encode(), PRIVATE)
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
        "memory_bytes": gateway_memory(machine, unit),
        "queue_age_s": None if waits is None else round(max(waits, default=0.0), 3),
        "turn": asdict(taken) if taken else None,
        "takes_turns": takes_turns,
    }


def gateway_health(machine: Machine, answer: Answer) -> str:
    """The gateway's answer to ``/health/detailed``, in the words of hermesops."""
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return "refused"
    if not isinstance(answer.body, dict) or "status" not in answer.body:
        return "silent"
    if drain.is_draining(machine):
        return "draining"
    return "ok" if gateway.is_ok(answer) else "degraded"


def _errors(machine: Machine, base: Base, since: float) -> dict[str, Any] | None:
    """Number of errors in the log since a time, and whether the part that was read covers all of that time."""
    try:
        with machine.files.opened_folder(machine.layout.home(base.home)) as home:
            log = machine.files.tail(home, ERROR_LOG, limit=_TAIL_BYTES)
    except NodeError:
        return None
    timestamps = [(_timestamp(match[1]), match[2]) for line in log.splitlines() if (match := _LINE.match(line))]
    count = sum(timestamp >= since and level in BAD for timestamp, level in timestamps)
    is_whole = len(log) < _TAIL_BYTES or (bool(timestamps) and timestamps[0][0] < since)
    return {"count": count, "complete": is_whole}


def _timestamp(text: bytes) -> float:
    try:
        return time.mktime(time.strptime(text.decode(), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def gateway_memory(machine: Machine, unit: gateway.Unit) -> int | None:
    """Bytes of the gateway and its children, without caches where the kernel counts them apart.

    Where it counts no memory by unit, that of the unit's processes is added up. Source: proc(5), ``/proc/PID/status``.
    """
    root, group = machine.layout.root, unit.properties.get("ControlGroup", "").strip("/")
    if group and ".." not in group:
        anonymous = _figure(machine.files.read(root / _CGROUPS / group / "memory.stat"), b"anon ")
        if anonymous is not None:
            return anonymous
    current = unit.properties.get("MemoryCurrent", "")
    if current not in _UNSET:
        return int(current)
    processes = _processes(machine, group) or [unit.properties.get("MainPID", "0")]
    sizes = [_figure(machine.files.read(root / "proc" / each / "status"), b"RssAnon:") for each in processes]
    kilobytes = [size for size in sizes if size is not None]  # of one that ended meanwhile there is none
    return sum(kilobytes) * 1024 if kilobytes else None


def _processes(machine: Machine, group: str) -> list[str]:
    """Process ids of a unit, up to the limit of a unit; none if its control group is not found.

    Source: cgroups(7): in version 1 systemd has a hierarchy of its own, in a hybrid there may be both.
    """
    for hierarchy in ("", "systemd", "unified") if group and ".." not in group else ():
        listed = machine.files.read(machine.layout.root / _CGROUPS / hierarchy / group / "cgroup.procs")
        if listed:
            return [line for line in listed.decode(errors="replace").split() if line.isdecimal()][:_MOST_PROCESSES]
    return []


def _figure(text: bytes | None, name: bytes) -> int | None:
    lines = (text or b"").splitlines()
    return next((int(line[len(name) :].split()[0]) for line in lines if line.startswith(name)), None)
