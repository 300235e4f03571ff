"""The offset of this machine's clock from the platform's, by the platform's last answer."""

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
    """Seconds by which the platform's clock is ahead of this machine's; ``None`` without a recent measurement.

    Raises:
        KeyError: The stored measurement is damaged.
        NodeError: The stored measurement cannot be read.
        TypeError: See ``KeyError``.
        ValueError: See ``KeyError``.
    """
    data = machine.files.read(machine.layout.clock)
    if data is None:
        return None
    raw = strict_json.parse_object(data)
    offset_s, at = float(raw["offset_s"]), float(raw["at"])
    return offset_s if isfinite(offset_s) and abs(machine.system.now() - at) <= _COUNTS_S else None


def of_status(machine: Machine) -> dict[str, Any] | None:
    """The offset, and whether it is too large; ``None`` if it is unknown."""
    offset_s = None
    with suppress(KeyError, NodeError, TypeError, ValueError):
        offset_s = offset(machine)
    return None if offset_s is None else {"off": abs(offset_s) > OFF_S, "offset_s": offset_s}
