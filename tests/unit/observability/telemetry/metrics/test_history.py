"""The fleet over time and the gap around an operation, with parts that are not known, by the dashboards' queries."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.base import assets
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.metrics.history import STRETCHES, Past, gap_of, history_of
from hermesops.views.observability.trends import history as shape_of
from tests.support.fakes.monitoring import Answer, fake_monitoring, matrix

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
ADA = InstanceId("i-ada")
RANGE = "POST /prometheus/api/v1/query_range"


def test_the_queries_are_those_of_dashboards() -> None:
    folder = assets.folder("roles") / "hermes_platform_monitoring" / "files" / "dashboards"
    boards = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    drawn = {query["expr"] for board in boards for panel in board["panels"] for query in panel["targets"]}
    assert {stretch.promql for stretch in STRETCHES.values()} <= drawn


async def test_each_condition_has_a_line() -> None:
    begin = (NOW - timedelta(days=1)).timestamp()
    answer = matrix(*(({"condition": name}, [(begin, 1), (begin + 600, 2)]) for name in ("down", "healthy")))
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = answer
        history = await history_of(monitoring.client, Past.HEALTH, NOW)
        form = dict(monitoring.asked[0].form)
    assert (form["query"], form["step"]) == (STRETCHES[Past.HEALTH].promql, "600")
    assert {name: [value for _, value in points] for name, points in history.lines.items()} == {
        "down": [1, 2],
        "healthy": [1, 2],
    }
    assert shape_of(history)["problem"] is None


async def test_a_gap_is_counted_by_looks_and_unknown_looks_count_for_nothing() -> None:
    began_at, ended_at = NOW - timedelta(hours=1), NOW - timedelta(minutes=59)
    begin = (began_at - timedelta(minutes=5)).timestamp()
    answers = [(begin + 15 * number, 0 if 20 <= number < 24 else 1) for number in range(44) if number not in {30, 31}]
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = matrix(({}, answers))
        gap = await gap_of(monitoring.client, ADA, began_at, ended_at, NOW)
        form = dict(monitoring.asked[0].form)
    assert 'hermes_agent_up{instance_id=~"i\\\\-ada"}' in form["query"]
    assert (float(form["start"]), float(form["end"]), form["step"]) == (begin, begin + 11 * 60, "15")
    assert gap.below_one_s == 60


async def test_an_operation_of_days_has_as_many_points() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = matrix()
        gap = await gap_of(monitoring.client, ADA, NOW - timedelta(days=3), None, NOW)
    assert (gap.end, (gap.end - gap.begin).total_seconds() / gap.step_s) == (NOW, 240)


@pytest.mark.parametrize(
    ("given", "words"),
    [(Answer(b"", 502), "502"), (matrix(), "Prometheus has nothing of it"), (Answer({"data": 7}), "something else")],
    ids=["silent", "empty", "nonsense"],
)
async def test_a_history_that_is_not_there_has_its_reason(given: Answer, words: str) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = given
        history = await history_of(monitoring.client, Past.COST, NOW)
    assert (words in history.problem, history.lines) == (True, {})
    assert (await history_of(None, Past.COST, NOW)).problem == "there is no monitoring here"
