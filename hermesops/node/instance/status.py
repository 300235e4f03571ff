"""What a look at this machine says: ``status`` states facts, ``health`` judges them. Nothing here changes anything."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from hermesops.node import VERSION, protocol
from hermesops.node.errors import NodeError, NotReadyError, UnhealthyError
from hermesops.node.instance import drain, fence, fencing_token, volume, warm
from hermesops.node.instance.agent import base_config as base_configuration
from hermesops.node.instance.agent import gateway, mcp_servers
from hermesops.node.instance.agent.api import Answer
from hermesops.node.instance.agent.base_config import Base
from hermesops.node.instance.agent.check import Check
from hermesops.node.instance.agent.messengers import platforms_of
from hermesops.node.instance.identity import certificate
from hermesops.node.instance.personalise import missing_jobs, stored_payload
from hermesops.node.machine import Machine
from hermesops.node.protocol import Payload, identity_from_json
from hermesops.node.release import inventory
from hermesops.node.release.documents.record import SHOWN
from hermesops.node.release.slots import links
from hermesops.node.state import backup
from hermesops.node.untrusted.foreign_text import one_line

_CONNECTED = frozenset({"connected", "running", "ok"})


@dataclass(frozen=True)
class Health:
    """All judgements; ``exit_code`` is 0, 4 when nobody answers, 8 when the gateway answers and something is wrong."""

    checks: tuple[Check, ...]
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        """As ``hermes-node health`` prints it."""
        return {"ok": self.exit_code == 0, "checks": [asdict(check) for check in self.checks]}


def status(machine: Machine) -> dict[str, Any]:
    """Whose machine this is, what runs on it and since when; works on a machine without a user too."""
    identity = machine.files.read(machine.layout.identity)
    base = base_configuration.load(machine.files, machine.layout.base)
    unit = gateway.look(machine.system, base.unit)
    return {
        "node": {"version": VERSION, "protocol": protocol.VERSION},
        "identity": asdict(identity_from_json(identity)) if identity else None,
        "payload": payload_digest(machine),
        "release": release(machine),
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
        "busy": drain.under_way(machine) if identity and unit.is_running else None,
        "draining": drain.is_draining(machine),
        "fenced": fence.is_fenced(machine),
        "restoring": backup.is_cut_short(machine),
        "warm": warm.is_warm(machine) and identity is None,
        # A handing over of a warm machine that was cut short: its agent may still hold the placeholder.
        "restart_needed": machine.files.read(machine.layout.stale) is not None
        # The same for a token that the agent was not seen to read: whoever hands the payload again ends that.
        or machine.files.read(machine.layout.unread) is not None
        or (warm.is_warm(machine) and identity is not None),
        "jobs_missing": jobs_missing(machine),
        "lease": _lease(machine),
        "volume": volume.told(machine),
        "certificate": certificate.of_status(machine),
    }


def _lease(machine: Machine) -> str | None:
    held = fencing_token.highest(machine)
    return str(held) if held else None


def payload_digest(machine: Machine) -> str | None:
    """SHA-256 of the payload this machine was last given, by which hermesops tells whether there is a newer one."""
    data = machine.files.read(machine.layout.payload)
    return hashlib.sha256(data).hexdigest() if data else None


def jobs_missing(machine: Machine) -> int:
    """How many cron jobs of the payload the agent has not been given: a run that made them was cut short."""
    data = machine.files.read(machine.layout.payload)
    return len(missing_jobs(machine, Payload.from_json(data))) if data else 0


def release(machine: Machine) -> dict[str, Any]:
    """The running slot: its id and what its record says."""
    running = links.current(machine)
    record = links.record_of(machine, running)
    return {**{name: record[name] for name in SHOWN if name in record}, "id": running or None}


def health(machine: Machine) -> Health:
    """Judge the agent on this machine."""
    try:
        payload = stored_payload(machine)
        base = base_configuration.load(machine.files, machine.layout.base)
    except NodeError as error:
        return Health((Check("instance", ok=False, detail=str(error)),), NotReadyError.exit_code)
    unit = gateway.look(machine.system, base.unit)
    first = [
        # systemd calls it active about a second after its API answers.
        Check(
            "unit", unit.state in {"active", "activating"}, f"{unit.state}, result {unit.properties.get('Result', '?')}"
        ),
        Check("release", bool(links.current(machine)), str(machine.layout.current)),
        *_closed(machine),
    ]
    alive = machine.system.ask(base.port, "/health")
    if alive.status != 200:  # noqa: PLR2004 - OK
        return Health((*first, Check("api", ok=False, detail=str(alive))), NotReadyError.exit_code)
    detailed = machine.system.ask(base.port, "/health/detailed", key=payload.secrets.api_server_key)
    told = (*_judge(detailed, payload), *_servers(machine, base, payload))
    checks = (*first, Check("api", ok=True), *told, _watchdog(unit))
    return Health(checks, 0 if all(check.ok for check in checks) else UnhealthyError.exit_code)


def _closed(machine: Machine) -> tuple[Check, ...]:
    """Why no gateway can run: its data are not there. Nothing where they are."""
    try:
        volume.refuse_closed(machine)
    except NodeError as error:
        return (Check("volume", ok=False, detail=str(error)),)
    return ()


def _judge(answer: Answer, payload: Payload) -> tuple[Check, ...]:
    if answer.status == 401:  # noqa: PLR2004 - unauthorised
        return (Check("key", ok=False, detail="the gateway does not accept this instance's API key: restart it"),)
    if not isinstance(answer.body, dict):
        return (Check("ready", ok=False, detail=str(answer)),)
    parts = answer.part("readiness", "checks")
    failing = [name for name in parts if answer.part("readiness", "checks", name).get("status") != "ok"]
    state = str(answer.body.get("gateway_state"))
    return (
        Check("key", ok=True),
        Check("ready", gateway.is_ok(answer), _shown(failing, answer) if failing else ""),
        Check("accepting", state == "running", one_line(state)),
        *_messengers(answer, payload),
    )


def _shown(failing: list[str], answer: Answer) -> str:
    parts = answer.part("readiness", "checks")
    return one_line(json.dumps({name: parts[name] for name in failing}))


def _messengers(answer: Answer, payload: Payload) -> tuple[Check, ...]:
    checks = []
    for name in sorted(platforms_of(payload.settings.messengers)):
        held = answer.part("platforms", name)
        state = str(held.get("state") or held.get("status") or "absent").lower()
        detail = " ".join(filter(None, (state, str(held.get("error_code") or ""))))
        checks.append(Check(f"messenger:{name}", state in _CONNECTED, one_line(detail)))
    return tuple(checks)


def _servers(machine: Machine, base: Base, payload: Payload) -> tuple[Check, ...]:
    names = sorted(payload.settings.mcp_servers)
    if not names:
        return ()
    with machine.files.opened_folder(machine.layout.home(base.home)) as home:
        log = machine.files.tail(home, mcp_servers.LOG, limit=mcp_servers.TAIL_BYTES).decode(errors="replace")
    found = mcp_servers.states(log, names)
    words = {True: "connected", False: "not connected", None: "the log says nothing of it"}
    return tuple(Check(f"mcp:{name}", found[name] is not False, words[found[name]]) for name in names)


def _watchdog(unit: gateway.Unit) -> Check:
    watched = unit.properties.get("WatchdogUSec", "0")
    if unit.properties.get("Type") == "simple":
        return Check("watchdog", ok=True, detail="none: this release's unit tells systemd nothing")
    return Check("watchdog", watched not in {"", "0", "infinity"}, watched)
