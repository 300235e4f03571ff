"""Figures of the platform's Prometheus, with labels. Non-finite values are left out: a gap is never a figure.

Source: Prometheus HTTP API v1, ``/query``, ``/query_range``, ``/rules`` and ``/alerts``; ``keepFiringSince`` is in its
``web/api/v1/api.go`` since 2.42.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermesops.errors import HermesError
from hermesops.model.fleet.alert import WATCHDOG, Alert
from hermesops.observability.telemetry.client import WITHIN_S, MonitoringClient, Question
from hermesops.observability.telemetry.metrics import prometheus_answer
from hermesops.observability.telemetry.metrics.prometheus_answer import (
    WRONG,
    Figures,
    Sample,
    labels_of,
    text,
    unreadable,
    whole,
)

_API, _WHOM = "/prometheus/api/v1", "Prometheus"
_MOST_SERIES = 20_000
_MOST_POINTS = 400_000
"""Series, and points of all series together, of an answer that are read."""

_HOLDS_WITHIN_S = 3.0
"""Seconds for the conditions of alerts: whoever asks for alerts can do without them."""


@dataclass(frozen=True)
class Series:
    """Figures of one series, oldest first.

    Attributes:
        points: Times in UTC, and finite values.
    """

    labels: Mapping[str, str]
    points: tuple[tuple[datetime, float], ...]


class Metrics:
    """One Prometheus, behind the platform's monitoring."""

    def __init__(self, client: MonitoringClient) -> None:
        self._client = client

    async def instant(
        self, promql: str, *, at: datetime | None = None, within_s: float = WITHIN_S
    ) -> tuple[Sample, ...]:
        """The figures of an expression at a moment, by default now.

        Raises:
            WrongQuestionError: The expression is wrong.
            RefusedError: Prometheus does not answer us.
            UnavailableError: It does not answer, with a part only, or with no figures.
        """
        samples = await self._vector(promql, at, within_s)
        return tuple(sample for sample in samples if math.isfinite(sample.value))

    async def by_label(
        self, promql: str, label: str, *, at: datetime | None = None, within_s: float = WITHIN_S
    ) -> Figures:
        """Evaluate a query now or at a time; values by the value of one label. Raises as ``instant``."""
        return prometheus_answer.by_label(await self._vector(promql, at, within_s), label)

    async def _vector(self, promql: str, at: datetime | None, within_s: float) -> tuple[Sample, ...]:
        when = (("time", f"{at.timestamp():.3f}"),) if at else ()
        params = (("query", promql), ("timeout", f"{within_s:g}s"), *when)
        return prometheus_answer.vector(await self._data("query", params, within_s), whom=_WHOM, most=_MOST_SERIES)

    async def range(
        self, promql: str, *, begin: datetime, end: datetime, step_s: float, within_s: float = WITHIN_S
    ) -> tuple[Series, ...]:
        """The figures of an expression over a stretch of time, ``step_s`` seconds apart; raises as ``instant``."""
        params = (
            ("query", promql),
            ("start", f"{begin.timestamp():.3f}"),
            ("end", f"{end.timestamp():.3f}"),
            ("step", f"{step_s:g}"),
            ("timeout", f"{within_s:g}s"),
        )
        data = await self._data("query_range", params, within_s)
        try:
            return _matrix(data)
        except WRONG as error:
            raise unreadable("figures", error) from error

    async def alert_names(self, *, within_s: float = WITHIN_S) -> frozenset[str]:
        """Names of the alerts that there are rules for; raises as ``instant``."""
        answer = await self._client.ask(Question(f"{_API}/rules", (("type", "alert"),), within_s=within_s))
        try:
            groups = whole(answer, whom=_WHOM)["groups"]
            return frozenset(text(rule["name"]) for group in groups for rule in group["rules"])
        except WRONG as error:
            raise unreadable("rules", error) from error

    async def alerts(self, *, within_s: float = WITHIN_S) -> Mapping[frozenset[tuple[str, str]], bool]:
        """Pending and firing alerts by all their labels, each with whether its condition still holds.

        One whose condition is over goes on firing for the ``keep_firing_for`` of its rule. Raises as ``instant``.
        """
        answer = await self._client.ask(Question(f"{_API}/alerts", within_s=within_s))
        try:
            listed = whole(answer, whom=_WHOM)["alerts"]
            return {frozenset(labels_of(alert["labels"]).items()): not alert.get("keepFiringSince") for alert in listed}
        except WRONG as error:
            raise unreadable("alerts", error) from error

    async def ending(self, firing: Collection[Alert]) -> Callable[[Alert], bool | None]:
        """Whether the condition of an alert is over; ``None`` where that is not known. Raises nothing.

        Args:
            firing: All alerts of Alertmanager, read before: what begins in between would look as if it were over.
        """
        try:
            holds = await self.alerts(within_s=_HOLDS_WITHIN_S) if firing else {}
        except HermesError:
            return lambda _: None
        # One that is not there is over as well, unless Prometheus has only just started and evaluated no rules.
        is_whole = any(alert.name == WATCHDOG and _labels(alert) in holds for alert in firing)

        def is_ending(alert: Alert) -> bool | None:
            is_held = holds.get(_labels(alert))
            return not is_held if is_held is not None else True if is_whole else None

        return is_ending

    async def _data(self, path: str, params: tuple[tuple[str, str], ...], within_s: float) -> Any:  # noqa: ANN401 - JSON has no narrower type
        question = Question(f"{_API}/{path}", params, method="POST", form=True, within_s=within_s)
        return whole(await self._client.ask(question), whom=_WHOM)


def _labels(alert: Alert) -> frozenset[tuple[str, str]]:
    return frozenset(alert.labels.items())


def _matrix(data: Any) -> tuple[Series, ...]:  # noqa: ANN401 - as above
    if data["resultType"] != "matrix" or len(data["result"]) > _MOST_SERIES:
        raise ValueError("another result, or more than is read")
    left = _MOST_POINTS
    matrix: list[Series] = []
    for series in data["result"]:
        values = series.get("values", [] if "histograms" in series else None)
        if len(values) > left:
            raise ValueError("more points than are read")
        left -= len(values)
        points = ((datetime.fromtimestamp(at, UTC), float(value)) for at, value in values)
        finite = tuple((at, value) for at, value in points if math.isfinite(value))
        matrix.append(Series(labels_of(series["metric"]), finite))
    return tuple(matrix)
