"""Shapes of the worst or busiest instances by a figure of monitoring."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.observability.telemetry.metrics.top import Top


def instances(top: "Top") -> list[dict[str, object]]:
    """The worst or busiest instances: bytes, counts of the last hour, seconds, share of the disk; ``null`` unknown."""
    from hermesops.observability.telemetry.metrics.figures import TOP

    return [
        {
            "user": entry.instance.user,
            "instance_id": entry.instance.id,
            "cell": entry.cell,
            "plan": entry.instance.plan.value,
            **{figure.value: entry.figures.get(figure) for figure in TOP},
        }
        for entry in top.instances
    ]


def gaps(top: "Top") -> dict[str, object]:
    """The figure by which they are listed, and agents and figures that are not known."""
    return {"by": top.by.value, "without": list(top.without), "problems": list(top.problems)}
