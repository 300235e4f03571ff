"""Figures as Prometheus answers them, and answers that are none."""

from datetime import UTC, datetime

import pytest

from hermesops.errors import UnavailableError
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from hermesops.observability.telemetry.metrics.prometheus_answer import Sample
from tests.support.fakes.monitoring import Answer, fake_monitoring, matrix, vector
from tests.support.suite.cases import each_case

BEGIN, END = datetime(2026, 1, 2, 3, tzinfo=UTC), datetime(2026, 1, 2, 4, tzinfo=UTC)
QUERY, RANGE = "POST /prometheus/api/v1/query", "POST /prometheus/api/v1/query_range"


async def test_the_figures_of_now_that_are_finite() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = vector(({"instance_id": "a"}, 1.5), ({}, "NaN"), ({}, "+Inf"), ({"x": "y"}, 0))
        samples = await Metrics(monitoring.client).instant('up{a="b"}', within_s=2)
        assert samples == (Sample({"instance_id": "a"}, 1.5), Sample({"x": "y"}, 0))
        assert monitoring.asked[0].form == (("query", 'up{a="b"}'), ("timeout", "2s"))


async def test_figures_over_time_without_gaps_made_up() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = matrix(({"a": "b"}, [(1, 1), (2, "NaN"), (3.5, 3)]))
        (series,) = await Metrics(monitoring.client).range("up", begin=BEGIN, end=END, step_s=60)
        assert series.labels == {"a": "b"}
        assert [(at.timestamp(), value) for at, value in series.points] == [(1.0, 1.0), (3.5, 3.0)]
        form = dict(monitoring.asked[0].form)
        assert (form["start"], form["end"], form["step"]) == ("1767322800.000", "1767326400.000", "60")


async def test_the_names_of_alerts_that_there_are_rules_for() -> None:
    async with fake_monitoring() as monitoring:
        rules = [{"name": "GatewayDown", "type": "alerting"}, {"name": "CellLost"}]
        monitoring.answers["GET /prometheus/api/v1/rules"] = Answer({"data": {"groups": [{"rules": rules}]}})
        assert await Metrics(monitoring.client).alert_names() == {"GatewayDown", "CellLost"}
        monitoring.answers["GET /prometheus/api/v1/rules"] = Answer({"data": {"groups": [{"rules": [1]}]}})
        with pytest.raises(UnavailableError, match="something else than rules"):
            await Metrics(monitoring.client).alert_names()


@each_case(
    "answer",
    [
        [],
        {"data": None},
        {"data": {"resultType": "scalar", "result": [1, "1"]}},
        {"data": {"resultType": "matrix", "result": []}},
        {"data": {"resultType": "vector", "result": 7}},
        {"data": {"resultType": "vector", "result": [{}]}},
        {"data": {"resultType": "vector", "result": [{"metric": [], "value": [1, "1"]}]}},
        {"data": {"resultType": "vector", "result": [{"metric": {"a": 1}, "value": [1, "1"]}]}},
        {"data": {"resultType": "vector", "result": [{"metric": {"a": "x" * 2000}, "value": [1, "1"]}]}},
        {"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "many"]}]}},
        {"data": {"resultType": "vector", "result": [{}] * 20_001}},
    ],
    ids=lambda answer: str(answer)[:70],
)
async def test_what_is_no_vector(answer: object) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = Answer(answer)
        with pytest.raises(UnavailableError, match="something else than figures"):
            await Metrics(monitoring.client).instant("up")


@each_case("values", [[[1]], [["x", "1"]], [[1e30, "1"]], 7, [[1, "1"]] * 400_001], ids=lambda values: str(values)[:20])
async def test_what_are_no_points(values: object) -> None:
    async with fake_monitoring() as monitoring:
        data = {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}
        monitoring.answers[RANGE] = Answer({"data": data})
        with pytest.raises(UnavailableError, match="something else than figures"):
            await Metrics(monitoring.client).range("up", begin=BEGIN, end=END, step_s=60)
