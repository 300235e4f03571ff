"""Lines of figures over time, drawn as SVG on the server. Pure.

A time without a value breaks the line: what is not known is not drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

WIDTH, HEIGHT = 240, 40
"""Of a plot, in its own units."""

_EDGE = 2
"""Room above and below the line."""


@dataclass(frozen=True)
class Plot:
    """A line.

    Attributes:
        lines: Points of each unbroken part, as the attribute ``points`` of a polyline has them
            (https://svgwg.org/svg2-draft/shapes.html#PolylineElementPointsAttribute).
        lowest, highest, last: Values; ``None`` where none is known.
    """

    lines: Sequence[str]
    lowest: float | None
    highest: float | None
    last: float | None
    width: int = WIDTH
    height: int = HEIGHT


def plot_of(points: Iterable[tuple[datetime, float]], begin: datetime, end: datetime, *, gap_s: float) -> Plot:
    """The line of points between two times.

    Args:
        points: Times and values, oldest first; those outside are left out.
        gap_s: Seconds between two points from which on the line is broken.
    """
    known = [(at, value) for at, value in points if begin <= at <= end]
    if not known or end <= begin:
        return Plot((), None, None, None)
    values = [value for _, value in known]
    lowest, highest, whole_s = min(0.0, *values), max(values), (end - begin).total_seconds()

    def place(at: datetime, value: float) -> str:
        level = (value - lowest) / (highest - lowest) if highest > lowest else 0.5
        x, y = (at - begin).total_seconds() / whole_s, 1 - level
        return f"{WIDTH * x:.1f},{_EDGE + (HEIGHT - 2 * _EDGE) * y:.1f}"

    parts: list[list[str]] = []
    before: datetime | None = None
    for at, value in known:
        if before is None or (at - before).total_seconds() >= gap_s:
            parts.append([])
        parts[-1].append(place(at, value))
        before = at
    # A single point has no length: it is drawn as a short line.
    lines = [" ".join(part if len(part) > 1 else [*part, _beside(part[0])]) for part in parts]
    return Plot(lines, min(values), highest, values[-1])


def plots_of(history: Mapping[str, Any]) -> Mapping[str, Plot]:
    """A plot of each line of a history, by its name.

    Args:
        history: As ``hermesops.views.observability.trends.history`` has it.
    """
    begin, end = datetime.fromisoformat(history["begin"]), datetime.fromisoformat(history["end"])
    return {
        name: plot_of(
            [(datetime.fromisoformat(at), value) for at, value in points], begin, end, gap_s=2 * history["step_s"]
        )
        for name, points in history["lines"].items()
    }


def _beside(point: str) -> str:
    x, y = point.split(",")
    return f"{float(x) + 1:.1f},{y}"
