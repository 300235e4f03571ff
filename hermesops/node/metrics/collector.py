"""``metrics``: read every part on its own, and write what was read for node_exporter.

A part that fails, or does not end in time, is left out and counted; the others are written without it.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.node.machine import Machine
from hermesops.node.metrics import agent_log, databases, memory, parts
from hermesops.node.metrics.exposition import Sample, checked, render
from hermesops.node.system.files import Access
from hermesops.node.untrusted.foreign_text import one_line

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
    name: str
    samples: list[Sample]
    kept: dict[str, Any]
    error: str = ""


def collect(machine: Machine, *, named: Mapping[str, Part] = PARTS, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
    """Write the metrics; which parts could not be read, and why.

    Raises:
        NotReadyError: Their folder does not exist; hermes-metrics.service makes it.
    """
    started = machine.system.monotonic()
    remembered = memory.load(machine)
    done: queue.SimpleQueue[_Read] = queue.SimpleQueue()
    for name, part in named.items():
        # Daemons: one that hangs in the kernel must not keep the process from ending.
        arguments = (machine, name, part, dict(remembered.parts.get(name, {})), done)
        threading.Thread(target=_read, args=arguments, daemon=True).start()
    read = _taken(done, set(named), deadline_s)
    errors = {name: read[name].error if name in read else "not read in time" for name in named}
    failed = {name: why for name, why in errors.items() if why}
    remembered.errors += len(failed)
    remembered.parts |= {name: one.kept for name, one in read.items() if not one.error}
    samples = [
        *(sample for name in named if name in read for sample in read[name].samples),
        Sample("hermes_metrics_errors_total", remembered.errors),
        Sample("hermes_metrics_timestamp_seconds", round(machine.system.now(), 3)),
    ]
    path = machine.layout.metrics
    with machine.files.opened_folder(path.parent) as folder:
        machine.files.write(folder, path.name, render(samples), _READABLE)
    remembered.save(machine)
    return {
        "samples": len(samples),
        "failed": failed,
        "seconds": round(machine.system.monotonic() - started, 3),
    }


def _read(machine: Machine, name: str, part: Part, kept: dict[str, Any], done: "queue.SimpleQueue[_Read]") -> None:
    try:
        done.put(_Read(name, checked(part(machine, kept)), kept))
    except Exception as error:  # noqa: BLE001 - whatever a part meets, the others are written
        done.put(_Read(name, [], kept, one_line(f"{type(error).__name__}: {error}")))


def _taken(done: "queue.SimpleQueue[_Read]", missing: set[str], deadline_s: float) -> dict[str, _Read]:
    """What was read in time, by part."""
    until = time.monotonic() + deadline_s
    read: dict[str, _Read] = {}
    while missing - read.keys():
        try:
            one = done.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        read[one.name] = one
    return read
