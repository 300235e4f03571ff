"""Shapes of figures over the last hour."""

from datetime import timedelta
from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.observability.telemetry.metrics.history import History
    from hermesops.observability.telemetry.metrics.trends import Trends

TITLES = {"up": "agent up", "memory": "memory", "turn": "turn", "errors": "errors"}
"""Of figures, by their names."""


def trends(last_hour: "Trends") -> dict[str, object]:
    """The points of each figure, oldest first; where a time has none, it is left out."""
    from hermesops.observability.telemetry.metrics.trends import STEP_S

    return {
        "begin": timestamp(last_hour.begin),
        "step_s": STEP_S,
        "problem": last_hour.problem or None,
        "points": {
            figure.value: [
                [timestamp(last_hour.begin + number * timedelta(seconds=STEP_S)), value]
                for number, value in enumerate(values)
                if value is not None
            ]
            for figure, values in last_hour.values.items()
        },
    }


def history(past: "History") -> dict[str, object]:
    """Lines of figures over a stretch of time, oldest first."""
    return {
        "begin": timestamp(past.begin),
        "end": timestamp(past.end),
        "step_s": past.step_s,
        "problem": past.problem or None,
        "lines": {name: [[timestamp(at), value] for at, value in points] for name, points in past.lines.items()},
    }
