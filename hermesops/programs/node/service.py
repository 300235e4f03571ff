"""``metrics`` and ``orders`` as resident services if their unit sets an interval; else they run once.

The unit sets a variable, not an option, so that units and programs of any two releases fit: an older program runs once,
and its timer starts it again. Only the modules of the one service are imported, as they stay in memory.
"""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from hermesops.programs.node.answer import printed
from hermesops.programs.node.machine import Machine, this_machine
from hermesops.programs.node.system import resident
from hermesops.wire import core_dump
from hermesops.wire.errors import ExitCode

VARIABLE = "HERMES_NODE_EVERY_S"
"""Seconds from the end of a run to the next one: ``15``, or ``25-35`` for a random pause of these, so that a fleet does
not come at once."""

_PAUSE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)


@dataclass(frozen=True)
class _Service:
    """A service: its function, time limit and exit codes.

    Attributes:
        module: Module of its function.
        function: Makes one run on a machine; returns the result.
        limit_s: Seconds after which a run is killed.
        goes_on: Exit codes that another run follows; with any other one the unit fails, and its timer starts it again.
    """

    module: str
    function: str
    limit_s: float
    goes_on: frozenset[int]


_SERVICES = {
    "metrics": _Service(f"{__package__}.metrics.collector", "collect", 30.0, frozenset({ExitCode.OK})),
    # Where the platform does not answer, it is asked again.
    "orders": _Service(f"{__package__}.orders.poll", "ask", 60.0, frozenset({ExitCode.OK, ExitCode.NOT_READY})),
}


def main() -> int:
    """Be the service that the arguments name until its program is replaced or a run fails; return the exit code."""
    os.umask(0o077)
    core_dump.forbid()
    service, machine = _SERVICES[sys.argv[1]], this_machine()
    run = cast("Callable[[Machine], dict[str, Any]]", getattr(import_module(service.module), service.function))
    return resident.stay(
        lambda: printed(lambda: (run(machine), ExitCode.OK), sys.stdout, sys.stderr),
        limit_s=service.limit_s,
        pause_s=pause(os.environ[VARIABLE]),
        goes_on=service.goes_on,
        program=Path(sys.argv[0]),
    )


def pause(every: str) -> Callable[[], float]:
    """Parse the variable into a function that draws the seconds between two runs.

    Raises:
        ValueError: The value is malformed.
    """
    match = _PAUSE.fullmatch(every)
    if match is None:
        raise ValueError(f"{VARIABLE} is {every!r}, not seconds")
    return partial(_between, float(match[1]), float(match[2] or match[1]))


def _between(least: float, most: float) -> float:
    """A number that nobody foresees; ``random`` would be half a megabyte of a process that stays."""
    return least + (most - least) * int.from_bytes(os.urandom(2)) / 0xFFFF
