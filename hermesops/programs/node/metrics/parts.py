"""The parts of the metrics that read the present state of the machine and its gateway.

Each part reads one source. Unknown figures are left out: they must look neither good nor bad.
"""

import re
from collections.abc import Iterator
from typing import Any

from hermesops.programs.node import VERSION
from hermesops.programs.node.instance import certificate, clock, drain, fencing, recovery, status, volume
from hermesops.programs.node.instance.agent import gateway, installation
from hermesops.programs.node.instance.agent.installation import Base
from hermesops.programs.node.instance.personalise import stored_payload
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.metrics.exposition import Sample
from hermesops.programs.node.metrics.memory import number
from hermesops.programs.node.release import activation
from hermesops.programs.node.release.slots import slot
from hermesops.wire import strict_json
from hermesops.wire.protocol import Payload, identity_from_json

HEALTHS = ("ok", "degraded", "draining", "refused", "silent")
"""What ``status.gateway_health`` may say."""

MESSENGERS = ("telegram", "discord", "slack", "whatsapp")
"""Those that are watched."""

_ANSWERING = frozenset({"ok", "degraded", "draining"})
_UNIT_OF = {"full": "hermes-prometheus.service", "lean": "hermes-vmagent.service"}
"""What each profile of role ``hermes_monitoring`` alone installs."""

_ANSWER_S = 3.0
_ANSWER_BYTES = 1 << 20
"""Far more than an agent says of its health or its jobs; parsed, a hostile megabyte takes tens of them."""

_JOBS_COUNT_S = 3600.0
"""Seconds for which the last run of a job counts."""

_TURN_COUNTS_S = 600.0
"""Seconds for which the turn of a probe is shown: afterwards it would be taken for the present."""

_DISTRIBUTION = re.compile(rb"""^(ID|VERSION_ID)=["']?([a-z0-9._-]{1,32})["']?$""", re.MULTILINE)
_TOKEN = re.compile(r"hm2\.[0-9A-Za-z-]{1,64}\.[0-9]{1,10}\.([0-9]{1,11})\.[0-9a-f]{40}", re.ASCII)
"""A token for the model router; the third number is its expiry, in seconds since 1970 (``model.billing.route``)."""

Counters = dict[str, Any]
"""Counters and read positions of logs that a part keeps from run to run."""


def node(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Facts about the machine: its programs, its instance, its fence."""
    profiles = [name for name, unit in _UNIT_OF.items() if machine.files.read(machine.layout.unit(unit)) is not None]
    fields = dict(_DISTRIBUTION.findall(machine.files.read(machine.layout.os_release) or b""))
    words = [fields[name].decode() for name in (b"ID", b"VERSION_ID") if name in fields]
    labels = {
        "version": VERSION,
        "profile": profiles[0] if profiles else "none",
        "distribution": "-".join(words) or "unknown",
    }
    yield Sample("hermes_node_info", 1, labels)
    yield Sample("hermes_personalised", machine.files.read(machine.layout.identity) is not None)
    yield Sample("hermes_fenced", fencing.is_fenced(machine))
    yield Sample("hermes_break_glass_open", machine.files.read(machine.layout.break_glass) is not None)


def release(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """The running slot, and whether a change of release is unfinished."""
    name = slot.current(machine)
    if name:
        release_id = str(slot.record_of(machine, name).get("id") or "unknown")
        yield Sample("hermes_release_info", 1, {"release": release_id, "slot": name})
    yield Sample("hermes_release_change_pending", activation.load(machine) is not None)


def own_certificate(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Expiry of the machine's own certificate."""
    not_after = certificate.show(machine).get("not_after")
    if not_after is not None:
        yield Sample("hermes_certificate_not_after_timestamp_seconds", not_after)


def router_token(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Expiry of the instance's token for the model router."""
    payload = _payload(machine)
    match = _TOKEN.fullmatch(payload.secrets.model_token) if payload else None
    if match:
        yield Sample("hermes_router_token_not_after_timestamp_seconds", int(match[1]))


def clock_offset(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Offset of the machine's clock from the platform's, at the platform's last answer."""
    offset_s = clock.offset(machine)
    if offset_s is not None:
        yield Sample("hermes_clock_offset_seconds", offset_s)


def data(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Size and free space of the file system of the user's data."""
    shown = volume.show(machine)
    if shown is not None:
        for state in ("used", "size"):
            yield Sample("hermes_data_bytes", shown[state], {"state": state})


def backup(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Time of the instance's last backup from this machine."""
    record, identity = machine.files.read(machine.layout.last_backup), machine.files.read(machine.layout.identity)
    if record is None or identity is None:
        return
    raw = strict_json.parse_object(record)
    if raw["instance"] == identity_from_json(identity).instance:
        yield Sample("hermes_last_backup_timestamp_seconds", float(raw["at"]))


def gateway_unit(machine: Machine, counters: Counters) -> Iterator[Sample]:
    """The gateway's unit: whether it is active, how often it was restarted, its memory, and a probe's last turn."""
    unit = gateway.observe(machine.system, _base(machine).unit)
    yield Sample("hermes_gateway_up", unit.state == "active")
    by_us = recovery.attempts(machine).total
    yield Sample("hermes_gateway_restarts_total", _restarts(unit.restarts, counters) + by_us)
    memory, most = status.gateway_memory(machine, unit), unit.properties.get("MemoryMax", "")
    if memory is not None and unit.is_running:
        yield Sample("hermes_gateway_memory_bytes", memory)
    if most.isascii() and most.isdecimal():
        yield Sample("hermes_gateway_memory_max_bytes", int(most))
    uptime_s = unit.uptime_s(machine.system.monotonic())
    turn = machine.files.read(machine.layout.last_turn)
    if turn is not None and uptime_s is not None:
        raw = strict_json.parse_object(turn)
        age_s = machine.system.now() - float(raw["at"])
        if raw["ok"] is True and 0 <= age_s <= min(uptime_s, _TURN_COUNTS_S):
            yield Sample("hermes_turn_seconds", float(raw["seconds"]))


def _restarts(shown: int, counters: Counters) -> int:
    """Restarts by systemd in this boot: it counts from 0 again whenever somebody starts the unit."""
    last = number(counters, "shown")
    counters["total"] = number(counters, "total") + (shown - last if shown >= last else shown)
    counters["shown"] = shown
    return number(counters, "total")


def agent(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """The answer of the gateway's API: health, messengers and present work."""
    occupant = slot.occupant(machine)
    if occupant is None:
        return
    key, port = occupant.secrets.api_server_key, _base(machine).port
    answer = machine.system.ask(port, "/health/detailed", key=key, timeout_s=_ANSWER_S, largest=_ANSWER_BYTES)
    health = status.gateway_health(machine, answer)
    for each in HEALTHS:
        yield Sample("hermes_agent_health", each == health, {"status": each})
    is_up = health in _ANSWERING
    yield Sample("hermes_agent_up", is_up)
    if is_up:
        yield Sample("hermes_runs_in_flight", drain.runs_in(answer))
        for name, is_connected in status.messengers_connected(answer, occupant).items():
            if name in MESSENGERS:
                yield Sample("hermes_messenger_connected", is_connected, {"messenger": name})


def queue(machine: Machine, _counters: Counters) -> Iterator[Sample]:
    """Seconds since the agent's cron jobs became due, and the outcomes of those that ran within the hour.

    Jobs that the user's own model provider answers have no outcome here: whatever it refuses is between those two.
    """
    payload = _payload(machine)
    if payload is None:
        return
    key, port = payload.secrets.api_server_key, _base(machine).port
    jobs, now = gateway.read_jobs(machine.system, port, key, largest=_ANSWER_BYTES), machine.system.now()
    if jobs is not None:
        yield Sample("hermes_queue_age_seconds", round(max(gateway.overdue(jobs, now), default=0.0), 3))
        is_routed = payload.settings.endpoint is None
        for outcome, count in gateway.ended(jobs, now, _JOBS_COUNT_S).items() if is_routed else ():
            yield Sample("hermes_jobs_ended", count, {"outcome": outcome})


def _base(machine: Machine) -> Base:
    return installation.load_base(machine.files, machine.layout.base)


def _payload(machine: Machine) -> Payload | None:
    """The user's payload; ``None`` on a machine without one."""
    if machine.files.read(machine.layout.identity) is None:
        return None
    return stored_payload(machine)
