"""``relieve``: restart a gateway whose memory has grown, while the agent does nothing.

Agents keep memory that they no longer need: reports are of 300 MB that became 1.5 GB within 20 hours. At the unit's
limit the kernel would kill the gateway in the middle of a turn; a restart between turns costs nobody anything.

Source: hermes-agent issues 58817, 78993, 81625.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from hermesops.programs.node.instance import drain, fencing, volume
from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.instance.agent.installation import load_base
from hermesops.programs.node.instance.status import gateway_memory
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire import strict_json
from hermesops.wire.errors import NotReadyError

SHARE = 0.75
"""Of the unit's memory limit; the alert of a gateway near its limit comes at 0.9."""

UPTIME_S = 3600.0
"""A gateway that is this young and that large needs more than a restart."""

PAUSE_S = 6 * 3600.0
"""Seconds between two restarts: one that fills its memory faster is for a person, whom the alert calls."""


@dataclass(frozen=True)
class Figures:
    """Figures that decide about a restart; ``None`` for one that could not be taken.

    Attributes:
        memory: Bytes of the gateway and its children.
        limit: Bytes that its unit may have.
        uptime_s: Since the unit became active.
        work: Running turns and open connections.
        rested_s: Seconds since the last such restart in this boot.
    """

    memory: int | None
    limit: int | None
    uptime_s: float | None
    work: int | None
    rested_s: float | None


def why_not(figures: Figures) -> str:
    """The reason not to restart the gateway; empty if it is to be restarted. Pure. An unknown figure is a reason."""
    if figures.memory is None or not figures.limit:
        return "its memory or its limit is not known"
    if figures.memory < SHARE * figures.limit:
        return f"it has {figures.memory / figures.limit:.0%} of its limit"
    if figures.uptime_s is None or figures.uptime_s < UPTIME_S:
        return "it has not run for an hour"
    if figures.rested_s is not None and figures.rested_s < PAUSE_S:
        return "it was restarted less than 6 h ago"
    if figures.work is None:
        return "the agent does not report its work"
    return "the agent is working" if figures.work else ""


def relieve(machine: Machine) -> dict[str, Any]:
    """Restart the gateway if its memory has grown and the agent is idle; return whether it was, and the reason.

    Nothing is done while another hermes-node changes the machine.
    """
    try:
        with machine.files.locked(machine.layout.lock, limit_s=0.0):
            return _relieve(machine)
    except NotReadyError as error:
        return {"restarted": False, "why": str(error)}


def _relieve(machine: Machine) -> dict[str, Any]:
    unit = load_base(machine.files, machine.layout.base).unit
    observed = gateway.observe(machine.system, unit)
    if why := _held(machine, observed):
        return {"restarted": False, "why": why}
    figures = _figures(machine, observed)
    if why := why_not(figures):
        return {"restarted": False, "why": why, **asdict(figures)}
    # Before the restart: killed in between, it is a restart too few and never one too many.
    at = json.dumps({"at": machine.system.monotonic()}).encode()
    machine.files.write_if_changed(machine.layout.relief, at, PRIVATE)
    # One job of systemd's: stopped and not started, the gateway would look as if somebody wanted it down.
    machine.system.systemctl("restart", "--no-block", unit)
    return {"restarted": True, "why": "its memory has grown and the agent is idle", **asdict(figures)}


def _held(machine: Machine, unit: gateway.Unit) -> str:
    layout, read = machine.layout, machine.files.read
    reasons = (
        (unit.state != "active", f"the gateway is {unit.state}"),
        (read(layout.identity) is None, "this machine has no instance"),
        (fencing.is_fenced(machine), "this machine is fenced"),
        (read(layout.restoring) is not None, "the state is being replaced"),
        (read(layout.activation) is not None, "a change of release is unfinished"),
    )
    reason = next((why for holds, why in reasons if holds), "")
    return reason or ("the data volume is closed" if volume.is_closed(machine) else "")


def _figures(machine: Machine, unit: gateway.Unit) -> Figures:
    now, limit, work = machine.system.monotonic(), unit.properties.get("MemoryMax", ""), drain.work(machine)
    last = _last(machine)
    return Figures(
        memory=gateway_memory(machine, unit),
        limit=int(limit) if limit.isascii() and limit.isdecimal() else None,
        uptime_s=unit.uptime_s(now),
        work=None if work is None else work["runs"] + work["connections"],
        rested_s=None if last is None else now - last,
    )


def _last(machine: Machine) -> float | None:
    """Time of the last such restart in this boot; ``None`` for none, or for a damaged file."""
    try:
        return float(strict_json.parse_object(machine.files.read(machine.layout.relief) or b"{}")["at"])
    except (ValueError, TypeError, KeyError):
        return None
