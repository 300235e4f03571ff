"""``recover``: restart a gateway that systemd has given up, with growing pauses between attempts.

systemd restarts a gateway that ends, up to its start limit; then the unit stays failed, as it does after the agent's
own exit code for unusable settings. The cause may pass: a full disk, a port in use. A stopped gateway is inactive, and
one that is to stay down is fenced or disabled; none of these is started here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermesops.programs.node.instance import fencing, volume
from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.instance.agent.installation import load_base
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire import strict_json
from hermesops.wire.errors import NotReadyError

MOST = 6
"""Attempts within an hour; then the gateway stays down until the first of them is an hour ago."""

WINDOW_S = 3600.0
FIRST_PAUSE_S = 30.0
"""Seconds from the first attempt to the second; each further pause is twice as long."""

_LOCK_S = 0.0


@dataclass(frozen=True)
class Attempts:
    """Attempts of this boot.

    Attributes:
        at: Times of the attempts in the last hour, on the machine's monotonic clock, the oldest first.
        total: Number of attempts since the boot.
    """

    at: tuple[float, ...] = ()
    total: int = 0


def attempts(machine: Machine) -> Attempts:
    """The attempts of this boot; none where the file is damaged."""
    data = machine.files.read(machine.layout.recoveries)
    try:
        raw = strict_json.parse_object(data or b"{}")
        return Attempts(tuple(float(at) for at in raw.get("at", ())), int(raw.get("total", 0)))
    except (ValueError, TypeError):
        return Attempts()


def pause_s(at: Sequence[float], now: float) -> float:
    """Seconds until the next attempt may be made; 0 for at once. Pure.

    ``at`` are the attempts so far, the oldest first, on the clock of ``now``.
    """
    recent = [each for each in at if now - each < WINDOW_S]
    if not recent:
        return 0.0
    if len(recent) >= MOST:
        return recent[-MOST] + WINDOW_S - now
    return max(0.0, recent[-1] + FIRST_PAUSE_S * 2.0 ** (len(recent) - 1) - now)


def recover(machine: Machine) -> dict[str, Any]:
    """Start the gateway if systemd has given it up and it is to run; return whether it was started, and the reason.

    Nothing is done while another hermes-node changes the machine.
    """
    try:
        with machine.files.locked(machine.layout.lock, limit_s=_LOCK_S):
            return _recover(machine)
    except NotReadyError as error:
        return {"started": False, "why": str(error)}


def _recover(machine: Machine) -> dict[str, Any]:
    unit = load_base(machine.files, machine.layout.base).unit
    observed = gateway.observe(machine.system, unit)
    if why := _why_not(machine, observed):
        return {"started": False, "why": why}
    now, before = machine.system.monotonic(), attempts(machine)
    pause = pause_s(before.at, now)
    if pause > 0:
        return {"started": False, "why": f"the next attempt is in {pause:.0f} s", "attempts": before.total}
    at = [*(each for each in before.at if now - each < WINDOW_S), now]
    # Before the start: killed in between, it is an attempt too many and never one too few.
    data = json.dumps({"at": at, "total": before.total + 1}).encode()
    machine.files.write_if_changed(machine.layout.recoveries, data, PRIVATE)
    gateway.start(machine.system, unit)
    return {
        "started": True,
        "why": f"systemd gave it up: {observed.properties.get('Result', '')}",
        "attempts": before.total + 1,
    }


def _why_not(machine: Machine, unit: gateway.Unit) -> str:
    """The reason not to start this gateway; empty if it is to be started."""
    layout, read = machine.layout, machine.files.read
    reasons = (
        (unit.state != "failed", f"the gateway is {unit.state}"),
        (unit.properties.get("UnitFileState") != "enabled", "its unit is not enabled"),
        (read(layout.identity) is None, "this machine has no instance"),
        (fencing.is_fenced(machine), "this machine is fenced"),
        (read(layout.restoring) is not None, "the state is being replaced"),
        (read(layout.activation) is not None, "a change of release is unfinished"),
    )
    reason = next((why for holds, why in reasons if holds), "")
    return reason or ("the data volume is closed" if volume.is_closed(machine) else "")
