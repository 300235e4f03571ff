"""Figures of the platform's Prometheus, with labels. What is not finite is left out: a gap is never a figure.

Source: Prometheus HTTP API v1, ``/query``, ``/query_range``, ``/rules`` and ``/alerts``; ``keepFiringSince`` is in its
``web/api/v1/api.go`` since 2.42.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermesops.errors import UnavailableError
from hermesops.telemetry.client import WITHIN_S, MonitoringClient, Question

_API = "/prometheus/api/v1"
_MOST_SERIES = 20_000
_MOST_POINTS = 400_000
"""Series, and points of all series together, of an answer that are read."""

_TEXT = 1024
"""Characters of a label."""

_WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError, OSError)
"""What reading an answer of another shape raises."""


@dataclass(frozen=True)
class Sample:
    """One figure."""

    labels: Mapping[str, str]
    value: float


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
            UnavailableError: It does not answer, or with no figures.
        """
        when = (("time", f"{at.timestamp():.3f}"),) if at else ()
        params = (("query", promql), ("timeout", f"{within_s:g}s"), *when)
        found = [_sample(one) for one in await self._result("query", params, "vector", within_s)]
        return tuple(one for one in found if math.isfinite(one.value))

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
        left = _MOST_POINTS
        found = []
        for one in await self._result("query_range", params, "matrix", within_s):
            series = _series(one, left)
            left -= len(series.points)
            found.append(series)
        return tuple(found)

    async def alert_names(self, *, within_s: float = WITHIN_S) -> frozenset[str]:
        """Names of the alerts that there are rules for; raises as ``instant``."""
        answer = await self._client.ask(Question(f"{_API}/rules", (("type", "alert"),), within_s=within_s))
        try:
            groups = answer["data"]["groups"]
            return frozenset(_text(rule["name"]) for group in groups for rule in group["rules"])
        except _WRONG as error:
            raise _unreadable("rules", error) from error

    async def alerts(self, *, within_s: float = WITHIN_S) -> Mapping[frozenset[tuple[str, str]], bool]:
        """By all labels of each alert that is pending or fires: whether what it is about still holds.

        One whose condition is over goes on firing for the ``keep_firing_for`` of its rule. Raises as ``instant``.
        """
        answer = await self._client.ask(Question(f"{_API}/alerts", within_s=within_s))
        try:
            listed = answer["data"]["alerts"]
            return {frozenset(_labels(one["labels"]).items()): not one.get("keepFiringSince") for one in listed}
        except _WRONG as error:
            raise _unreadable("alerts", error) from error

    async def _result(
        self, path: str, params: tuple[tuple[str, str], ...], kind: str, within_s: float
    ) -> Iterator[Any]:
        question = Question(f"{_API}/{path}", params, method="POST", form=True, within_s=within_s)
        answer = await self._client.ask(question)
        try:
            data = answer["data"]
            if data["resultType"] != kind or len(data["result"]) > _MOST_SERIES:
                raise ValueError("another result, or more than is read")
            return iter(data["result"])
        except _WRONG as error:
            raise _unreadable("figures", error) from error


def _sample(raw: Any) -> Sample:  # noqa: ANN401 - JSON has no narrower type
    try:
        return Sample(_labels(raw["metric"]), float(raw["value"][1]))
    except _WRONG as error:
        raise _unreadable("figures", error) from error


def _series(raw: Any, most: int) -> Series:  # noqa: ANN401 - as above
    try:
        if len(raw["values"]) > most:
            raise ValueError("more points than are read")
        points = ((datetime.fromtimestamp(at, UTC), float(value)) for at, value in raw["values"])
        return Series(_labels(raw["metric"]), tuple((at, value) for at, value in points if math.isfinite(value)))
    except _WRONG as error:
        raise _unreadable("figures", error) from error


def _labels(raw: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    return {_text(name): _text(value) for name, value in raw.items()}


def _text(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > _TEXT:
        raise ValueError("no text, or too long")
    return raw


def _unreadable(what: str, error: Exception) -> UnavailableError:
    return UnavailableError(
        f"Prometheus answers with something else than {what} ({type(error).__name__})",
        hint="curl MONITORING_URL/prometheus/api/v1/query?query=up shows whether it is one",
    )
