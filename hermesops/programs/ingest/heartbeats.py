"""The latest heartbeat figures of each machine, kept by the gate and exposed as figures of this host.

Every few seconds the monitor checks whether each machine is alive. If that query read the machines' own series, the
machine with the most series would decide its duration. So the gate keeps the latest heartbeat figures, a handful for
each machine.
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
    """The kind of a heartbeat figure.

    Attributes:
        status: Of the gateway, where the figure is one of its health.
    """

    metric: bytes
    status: bytes = b""


_FIGURES = {metric: Figure(metric) for metric in _TOLD_AS}


def figure_of(metric: bytes, status: bytes) -> Figure | None:
    """The heartbeat figure of a machine's series; ``None`` for other series."""
    if metric != b"hermes_agent_health":
        return _FIGURES.get(metric)
    return Figure(metric, status) if _STATUS.fullmatch(status) else None


@dataclass(frozen=True, slots=True)
class FigureValue:
    """The latest value of one figure.

    Attributes:
        at_ms: Time of measurement on the machine, in milliseconds since 1970.
        received_s: Time of receipt, in seconds since 1970.
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
    """The known figures of one machine. Immutable, since it is read while others write."""

    instance_id: str
    cell: str
    machine: str
    figures: dict[Figure, FigureValue] = field(default_factory=dict)

    def after(self, heard: Iterable[tuple[Figure, FigureValue]], now_s: float) -> "Heartbeat":
        """Return a heartbeat that includes the figures of a new request."""
        figures = {figure: last for figure, last in self.figures.items() if now_s - last.received_s <= TOLD_S}
        for figure, fresh in heard:
            last = figures.get(figure)
            if (last is None and len(figures) < _MOST) or (last is not None and fresh.order >= last.order):
                figures[figure] = fresh
        return Heartbeat(self.instance_id, self.cell, self.machine, figures)

    def lines(self, now_s: float) -> Iterator[str]:
        """Render Prometheus lines; none for a machine without an instance or one that was silent for ``TOLD_S``."""
        if not self.instance_id:
            return
        who = f'instance_id="{self.instance_id}",cell="{self.cell}",machine="{self.machine}"'
        for figure, last in self.figures.items():
            if not 0 <= now_s - last.received_s <= TOLD_S:
                continue
            status = f',status="{figure.status.decode()}"' if figure.status else ""
            yield f"{PREFIX}{_TOLD_AS[figure.metric]}{{{who}{status}}} {last.value!r}"
            if figure.metric == _WRITTEN:
                yield f"{PREFIX}sampled_timestamp_seconds{{{who}}} {last.at_ms / 1000!r}"
