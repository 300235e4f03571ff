"""The fleet's health and cost over time, and the gap of an agent around an operation, by queries of our dashboards.

A time without a figure is left out: it is not known, and no zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.metrics.figures import Figure, trend
from hermesops.observability.telemetry.metrics.prometheus import Metrics

NO_MONITORING = "there is no monitoring here"

_WITHIN_S = 5.0
"""Seconds that a page waits for a line."""

_MOST_LINES = 12
_MOST_POINTS = 240
"""Lines, and points of each, that are read."""

_BESIDE = timedelta(minutes=5)
"""Time before and after an operation that its gap is looked for in."""

_HEARTBEAT_S = 15.0
"""Seconds between two figures of an agent, at least."""

Points = Sequence[tuple[datetime, float]]


class Past(StrEnum):
    """Histories of the fleet."""

    HEALTH = "health"
    COST = "cost"


@dataclass(frozen=True)
class Stretch:
    """How a history is asked for.

    Attributes:
        promql: As a panel of a dashboard has it.
        label: Whose values are the lines' names; empty for one line.
    """

    promql: str
    label: str
    span: timedelta
    step_s: float


STRETCHES: Mapping[Past, Stretch] = {
    Past.HEALTH: Stretch(
        "sum by (condition) (hermesops_instance_condition == 1)", "condition", timedelta(days=1), 600.0
    ),
    Past.COST: Stretch("sum(hermesops_fleet_cost_usd_per_month)", "", timedelta(days=30), 4 * 3600.0),
}


@dataclass(frozen=True)
class History:
    """Lines of figures over a stretch of time.

    Attributes:
        lines: Points of each, oldest first, by its name; empty for the only one.
        problem: Why there is nothing; empty when there is something.
    """

    begin: datetime
    end: datetime
    step_s: float
    lines: Mapping[str, Points] = field(default_factory=dict)
    problem: str = ""

    @property
    def below_one_s(self) -> float:
        """Seconds for which the only line was below one: an agent did not answer."""
        return self.step_s * sum(value < 1 for _, value in self.lines.get("", ()))


async def history_of(client: MonitoringClient | None, past: Past, now: datetime) -> History:
    """A history of the fleet until now; one question, for which five seconds are waited at most."""
    stretch = STRETCHES[past]
    empty = History(now - stretch.span, now, stretch.step_s)
    return await _read(client, stretch.promql, stretch.label, empty)


async def gap_of(
    client: MonitoringClient | None,
    instance_id: InstanceId,
    began_at: datetime,
    ended_at: datetime | None,
    now: datetime,
) -> History:
    """Whether an agent answered from five minutes before an operation until five minutes after it.

    Args:
        ended_at: ``None`` while the operation has not ended.
    """
    begin, end = began_at - _BESIDE, min(now, (ended_at or now) + _BESIDE)
    step_s = max(_HEARTBEAT_S, (end - begin).total_seconds() / _MOST_POINTS)
    return await _read(client, trend(Figure.UP, instance_id), "", History(begin, end, step_s))


async def _read(client: MonitoringClient | None, promql: str, label: str, history: History) -> History:
    begin, end, step_s = history.begin, history.end, history.step_s
    if client is None:
        return History(begin, end, step_s, problem=NO_MONITORING)
    try:
        series = await Metrics(client).range(promql, begin=begin, end=end, step_s=step_s, within_s=_WITHIN_S)
    except HermesError as error:
        return History(begin, end, step_s, problem=error.message)
    lines = {part.labels.get(label, ""): part.points for part in series[:_MOST_LINES] if part.points}
    return History(begin, end, step_s, lines, "" if lines else "Prometheus has nothing of it")
