"""The worst or busiest instances by a figure of monitoring."""

from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.views.fleet import NAMED
from hermesops.views.observability.top import instances

if TYPE_CHECKING:
    from hermesops.observability.telemetry.metrics.top import Top


TOP_COLUMNS = ("user", "cell", "plan", "memory", "restarts", "errors", "turn", "disk")
"""Of the table of the worst or busiest instances."""


def top_table(top: "Top") -> list[dict[str, object]]:
    """Rows of the worst or busiest instances for people."""
    from hermesops.observability.telemetry.metrics.figures import TOP, text

    return [
        {**row, **{figure.value: text(figure, entry.figures.get(figure)) for figure in TOP}}
        for row, entry in zip(instances(top), top.instances, strict=True)
    ]


def top_notes(top: "Top") -> list[str]:
    """Agents and figures that are not known."""
    lines = list(top.problems)
    if top.without:
        named = ", ".join(top.without[:NAMED]) + (" …" if len(top.without) > NAMED else "")
        lines.append(f"without a figure of {top.by}: {counted(len(top.without), 'running agent')}, {named}")
    return lines
