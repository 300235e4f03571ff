"""The last hour of one instance, by figures of the platform's Prometheus; a short question that may go unanswered."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.metrics.figures import TRENDS, Figure, trend
from hermesops.observability.telemetry.metrics.prometheus import Metrics

SPAN = timedelta(hours=1)
STEP_S = 120.0

_WITHIN_S = 2.0
"""Seconds that whoever looks at an instance waits for this."""

_POINTS = int(SPAN.total_seconds() / STEP_S) + 1


@dataclass(frozen=True)
class Trends:
    """Figures over the last hour.

    Attributes:
        begin: The time of the first value; each further one is ``STEP_S`` later.
        values: By figure; ``None`` where Prometheus has none at that time.
        problem: Why there is nothing; empty when there is something.
    """

    begin: datetime
    values: Mapping[Figure, tuple[float | None, ...]] = field(default_factory=dict)
    problem: str = ""


async def trends_of(client: MonitoringClient | None, instance_id: InstanceId, now: datetime) -> Trends:
    """The last hour of an instance: one query for each figure, all at once."""
    begin = now - SPAN
    if client is None:
        return Trends(begin, problem="there is no monitoring here")
    metrics = Metrics(client)
    try:
        answers = await asyncio.gather(*(_values(metrics, figure, instance_id, begin) for figure in TRENDS))
    except HermesError as error:
        return Trends(begin, problem=error.message)
    values = dict(zip(TRENDS, answers, strict=True))
    if all(value is None for some in values.values() for value in some):
        return Trends(begin, problem="Prometheus has nothing of it")
    return Trends(begin, values)


async def _values(
    metrics: Metrics, figure: Figure, instance_id: InstanceId, begin: datetime
) -> tuple[float | None, ...]:
    series = await metrics.range(
        trend(figure, instance_id), begin=begin, end=begin + SPAN, step_s=STEP_S, within_s=_WITHIN_S
    )
    values: list[float | None] = [None] * _POINTS
    for part in series:
        for at, value in part.points:
            place = round((at - begin).total_seconds() / STEP_S)
            if 0 <= place < _POINTS:
                values[place] = value
    return tuple(values)
