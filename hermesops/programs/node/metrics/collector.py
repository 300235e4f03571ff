"""``metrics``: read every part separately, and write the samples for node_exporter.

A part that fails, or does not end in time, is left out and counted; the others are written without it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.metrics import agent_log, databases, memory, parts
from hermesops.programs.node.metrics.exposition import Sample, checked, render
from hermesops.programs.node.system.files import Access
from hermesops.wire.foreign_text import one_line

DEADLINE_S = 8.0
"""Seconds for all parts together: the next run begins after 15."""

Part = Callable[[Machine, dict[str, Any]], Iterable[Sample]]
"""Reads some samples; the second argument is what it remembers from run to run, which it may change."""

PARTS: Mapping[str, Part] = {
    "node": parts.node,
    "release": parts.release,
    "certificate": parts.own_certificate,
    "router_token": parts.router_token,
    "clock": parts.clock_offset,
    "data": parts.data,
    "backup": parts.backup,
    "gateway": parts.gateway_unit,
    "agent": parts.agent,
    "queue": parts.queue,
    "agent_log": agent_log.read,
    "databases": databases.read,
}

_READABLE = Access(0o644)


@dataclass(frozen=True)
class _Read:
    samples: list[Sample]
    counters: dict[str, Any]


def collect(machine: Machine, *, named: Mapping[str, Part] = PARTS, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
    """Write the metrics; return the parts that failed, with their errors.

    Raises:
        NotReadyError: Their folder does not exist; hermes-metrics.service makes it.
    """
    started = machine.system.monotonic()
    remembered = memory.load(machine)
    calls = {name: partial(_read, machine, part, dict(remembered.parts.get(name, {}))) for name, part in named.items()}
    ended = machine.in_time(calls, deadline_s=deadline_s)
    read = {name: result for name, result in ended.items() if isinstance(result, _Read)}
    failed = {name: _why(ended.get(name)) for name in named if name not in read}
    remembered.errors += len(failed)
    remembered.parts |= {name: result.counters for name, result in read.items()}
    samples = [
        *(sample for name in named if name in read for sample in read[name].samples),
        Sample("hermes_metrics_errors_total", remembered.errors),
        Sample("hermes_metrics_timestamp_seconds", round(machine.system.now(), 3)),
    ]
    path = machine.layout.metrics
    with machine.files.opened_folder(path.parent) as folder:
        machine.files.write(folder, path.name, render(samples), _READABLE)
    remembered.save(machine)
    return {"samples": len(samples), "failed": failed, "seconds": round(machine.system.monotonic() - started, 3)}


def _read(machine: Machine, part: Part, counters: dict[str, Any]) -> _Read:
    return _Read(checked(part(machine, counters)), counters)


def _why(error: Exception | None) -> str:
    return "not read in time" if error is None else one_line(f"{type(error).__name__}: {error}")
