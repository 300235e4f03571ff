"""What was last heard of each machine, kept and told by the platform itself.

Whether a machine lives is asked every few seconds, of all at once. Were it looked up among what machines send, the one
that sends most would decide how long that takes for all. So the newest figures of a heartbeat are kept here, a handful
for each machine, and Prometheus reads them as figures of this host.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

TOLD_S = 60.0
"""Seconds for which a figure is told that did not come again; rules look back further."""

PREFIX = "hermes_platform_heartbeat_"

_WRITTEN = b"hermes_metrics_timestamp_seconds"
_TOLD_AS = {
    _WRITTEN: "timestamp_seconds",
    b"hermes_clock_offset_seconds": "clock_offset_seconds",
    b"hermes_fenced": "fenced",
    b"hermes_agent_health": "agent_health",
}
_STATUS = re.compile(rb"[a-z]{1,16}")
_MOST = 16
"""Figures of a machine; hermes-node sends eight."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Which figure of a heartbeat a series is.

    Attributes:
        status: Of the gateway, where the figure is one of its health.
    """

    metric: bytes
    status: bytes = b""


_FIGURES = {metric: Figure(metric) for metric in _TOLD_AS}


def figure_of(metric: bytes, status: bytes) -> Figure | None:
    """The figure that a series of a machine is; ``None`` for most."""
    if metric != b"hermes_agent_health":
        return _FIGURES.get(metric)
    return Figure(metric, status) if _STATUS.fullmatch(status) else None


@dataclass(frozen=True, slots=True)
class FigureValue:
    """One figure as it last came.

    Attributes:
        at_ms: When the machine took it, in milliseconds since 1970.
        received_s: When it came here, in seconds since 1970.
    """

    at_ms: int
    value: float
    received_s: float

    @property
    def order(self) -> tuple[int, float]:
        """The later one counts; of several of one time the largest."""
        return self.at_ms, self.value


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What is known of one machine. It is replaced, never changed: it is read while others write."""

    instance_id: str
    cell: str
    machine: str
    figures: dict[Figure, FigureValue] = field(default_factory=dict)

    def after(self, heard: Iterable[tuple[Figure, FigureValue]], now_s: float) -> "Heartbeat":
        """The same with what came in a request."""
        figures = {one: last for one, last in self.figures.items() if now_s - last.received_s <= TOLD_S}
        for one, fresh in heard:
            last = figures.get(one)
            if (last is None and len(figures) < _MOST) or (last is not None and fresh.order >= last.order):
                figures[one] = fresh
        return Heartbeat(self.instance_id, self.cell, self.machine, figures)

    def lines(self, now_s: float) -> Iterator[str]:
        """As Prometheus reads it; nothing of a machine without an instance, or that was not heard lately."""
        if not self.instance_id:
            return
        who = f'instance_id="{self.instance_id}",cell="{self.cell}",machine="{self.machine}"'
        for one, last in self.figures.items():
            if not 0 <= now_s - last.received_s <= TOLD_S:
                continue
            status = f',status="{one.status.decode()}"' if one.status else ""
            yield f"{PREFIX}{_TOLD_AS[one.metric]}{{{who}{status}}} {last.value!r}"
            if one.metric == _WRITTEN:
                yield f"{PREFIX}sampled_timestamp_seconds{{{who}}} {last.at_ms / 1000!r}"
