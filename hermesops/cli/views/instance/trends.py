"""The last hour of one instance: a sparkline for each figure."""

from typing import TYPE_CHECKING

from hermesops.views.observability.trends import TITLES

if TYPE_CHECKING:
    from hermesops.observability.telemetry.metrics.figures import Figure
    from hermesops.observability.telemetry.metrics.trends import Trends


def lines(trends: "Trends") -> list[str]:
    """A line a figure: the hour, and how it is now."""
    if trends.problem:
        return [f"last hour      not known: {trends.problem}"]
    return ["last hour, now:", *(_line(figure, values) for figure, values in trends.values.items())]


def _line(figure: "Figure", values: tuple[float | None, ...]) -> str:
    from hermesops.observability.telemetry.metrics.figures import sparkline, text

    return f"  {TITLES[figure]:<11}  {sparkline(values)}  {text(figure, values[-1])}"
