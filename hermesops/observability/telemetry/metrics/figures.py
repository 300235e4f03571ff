"""Figures of instances that operators look at: PromQL of each, now and over time, and how it is written. Pure.

Metrics are those that ``hermes-node metrics`` writes; the platform's ingest adds ``instance_id``.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from string import Template

LABEL = "instance_id"

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "·"
"""Stands for a stretch of time without a figure."""


class Figure(StrEnum):
    """Metrics of an instance, as ``top`` and ``trends`` show them."""

    UP = "up"
    MEMORY = "memory"
    RESTARTS = "restarts"
    ERRORS = "errors"
    TURN = "turn"
    DISK = "disk"


@dataclass(frozen=True)
class Expression:
    """PromQL of a figure; ``$of`` stands for matchers of labels, and may be empty.

    Attributes:
        now: One sample for each instance, over the last hour where it counts events.
        trend: The same for one point of many.
    """

    now: str
    trend: str


_MEMORY = "max by (instance_id) (hermes_gateway_memory_bytes{$of})"
_UP = "min by (instance_id) (hermes_agent_up{$of})"
_DISK = (
    'max by (instance_id) (hermes_data_bytes{state="used",$of}) '
    '/ max by (instance_id) (hermes_data_bytes{state="size",$of})'
)

EXPRESSIONS: Mapping[Figure, Expression] = {
    Figure.UP: Expression(_UP, _UP),
    Figure.MEMORY: Expression(_MEMORY, _MEMORY),
    Figure.RESTARTS: Expression(
        "sum by (instance_id) (increase(hermes_gateway_restarts_total{$of}[1h]))",
        "sum by (instance_id) (increase(hermes_gateway_restarts_total{$of}[2m]))",
    ),
    Figure.ERRORS: Expression(
        "sum by (instance_id) (increase(hermes_gateway_errors_total{$of}[1h]))",
        "sum by (instance_id) (increase(hermes_gateway_errors_total{$of}[2m]))",
    ),
    Figure.TURN: Expression(
        "max by (instance_id) (max_over_time(hermes_turn_seconds{$of}[1h]))",
        "max by (instance_id) (hermes_turn_seconds{$of})",
    ),
    Figure.DISK: Expression(_DISK, _DISK),
}

TOP = (Figure.MEMORY, Figure.RESTARTS, Figure.ERRORS, Figure.TURN, Figure.DISK)
"""Figures by which instances are ordered; the highest is the worst or busiest of each."""

TRENDS = (Figure.UP, Figure.MEMORY, Figure.TURN, Figure.ERRORS)
"""Figures of one instance that are shown over time."""


def now(figure: Figure, instances: Collection[str] | None = None) -> str:
    """PromQL of a figure of these instances, or of all."""
    return matching(EXPRESSIONS[figure].now, instances)


def trend(figure: Figure, instance: str) -> str:
    """PromQL of a figure of one instance over time."""
    return matching(EXPRESSIONS[figure].trend, (instance,))


def text(figure: Figure, value: float | None) -> str:
    """A figure as people read it; ``-`` for none."""
    if value is None:
        return "-"
    match figure:
        case Figure.UP:
            return "up" if value >= 1 else "down"
        case Figure.MEMORY:
            return f"{value / 1e6:.0f} MB"
        case Figure.TURN:
            return f"{value:.1f} s"
        case Figure.DISK:
            return f"{100 * value:.0f} %"
        case Figure.RESTARTS | Figure.ERRORS:
            # Prometheus extrapolates counts to the ends of the hour.
            return f"{value:.0f}"


def sparkline(values: Sequence[float | None], *, lowest: float | None = 0.0) -> str:
    """One sign a value, from the lowest to the highest; a gap where there is none.

    Args:
        lowest: What the lowest sign stands for; ``None`` for the lowest value.
    """
    known = [value for value in values if value is not None]
    if not known:
        return _GAP * len(values)
    low = min(known) if lowest is None else min(lowest, *known)
    step = (max(known) - low) / (len(_BARS) - 1)
    return "".join(_GAP if value is None else _BARS[round((value - low) / step) if step else 0] for value in values)


def matching(template: str, instances: Collection[str] | None) -> str:
    """PromQL from a template in which ``$of`` stands for matchers: of these instances, or of none."""
    if instances is None:
        return Template(template).substitute(of="")
    names = "|".join(sorted(re.escape(each) for each in instances)).replace("\\", "\\\\")
    return Template(template).substitute(of=f'{LABEL}=~"{names}"')
