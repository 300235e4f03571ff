"""How far this machine's clock is from the platform's, by the platform's last answer."""

from contextlib import suppress
from math import isfinite
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.wire import strict_json
from hermesops.wire.errors import NodeError

OFF_S = 10.0
"""Seconds beyond which a clock is off, as for the platform's alert ``ClockOff``."""

_COUNTS_S = 600.0
"""Seconds for which an answer counts: the clock itself may have been set since."""


def offset(machine: Machine) -> float | None:
    """Seconds by which the platform's clock is ahead of this machine's; ``None`` where nothing recent tells.

    Raises:
        KeyError: What was noted is damaged; as for all others.
        NodeError: It cannot be read.
        TypeError: See ``KeyError``.
        ValueError: See ``KeyError``.
    """
    data = machine.files.read(machine.layout.clock)
    if data is None:
        return None
    raw = strict_json.parse_object(data)
    found, at = float(raw["offset_s"]), float(raw["at"])
    return found if isfinite(found) and abs(machine.system.now() - at) <= _COUNTS_S else None


def of_status(machine: Machine) -> dict[str, Any] | None:
    """The offset, and whether that is too much; ``None`` where it is not known."""
    found = None
    with suppress(KeyError, NodeError, TypeError, ValueError):
        found = offset(machine)
    return None if found is None else {"off": abs(found) > OFF_S, "offset_s": found}
