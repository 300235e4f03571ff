"""The last hour of one instance: points for programs, sparklines for people."""

from datetime import timedelta
from typing import TYPE_CHECKING

from hermesops.views.shapes import timestamp

if TYPE_CHECKING:
    from hermesops.observability.telemetry.metrics.figures import Figure
    from hermesops.observability.telemetry.metrics.trends import Trends

_TITLES = {"up": "agent up", "memory": "memory", "turn": "turn", "errors": "errors"}


def shape(trends: "Trends") -> dict[str, object]:
    """The points of each figure, oldest first; where a time has none, it is left out."""
    from hermesops.observability.telemetry.metrics.trends import STEP_S

    return {
        "begin": timestamp(trends.begin),
        "step_s": STEP_S,
        "problem": trends.problem or None,
        "points": {
            figure.value: [
                [timestamp(trends.begin + number * timedelta(seconds=STEP_S)), value]
                for number, value in enumerate(values)
                if value is not None
            ]
            for figure, values in trends.values.items()
        },
    }


def lines(trends: "Trends") -> list[str]:
    """A line a figure: the hour, and how it is now."""
    if trends.problem:
        return [f"last hour      not known: {trends.problem}"]
    return ["last hour, now:", *(_line(figure, values) for figure, values in trends.values.items())]


def _line(figure: "Figure", values: tuple[float | None, ...]) -> str:
    from hermesops.observability.telemetry.metrics.figures import sparkline, text

    return f"  {_TITLES[figure]:<11}  {sparkline(values)}  {text(figure, values[-1])}"
