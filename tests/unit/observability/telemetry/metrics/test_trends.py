"""The last hour of one instance, with gaps, without an answer, and late."""

import time
from datetime import UTC, datetime

import pytest

from hermesops.cli.views.instance import trends as view
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.metrics import trends
from hermesops.observability.telemetry.metrics.figures import Figure
from hermesops.observability.telemetry.metrics.trends import trends_of
from hermesops.views.observability.trends import trends as trends_shape
from tests.support.fakes.monitoring import Answer, Asked, fake_monitoring, matrix

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
BEGIN = 1767322800
ADA = InstanceId("i-ada")
RANGE = "POST /prometheus/api/v1/query_range"


def answer(request: Asked) -> Answer:
    """Memory that grows, an agent that was down for a while; nothing of errors."""
    query = dict(request.form)["query"]
    if "hermes_agent_up" in query:
        return matrix(({}, [(BEGIN + 120 * n, 0 if n in (10, 11) else 1) for n in range(31)]))
    if "memory" in query:
        return matrix(({}, [(BEGIN + 120 * n + 1, 1e6 * n) for n in range(31) if n != 5]))
    if "turn" in query:
        return matrix(({}, [(BEGIN, 1.5), (BEGIN - 999, 7), (BEGIN + 9999, 7)]))
    return matrix()


async def test_one_query_for_each_figure_and_gaps_where_there_is_none() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = answer
        trends = await trends_of(monitoring.client, ADA, NOW)
        assert len(monitoring.asked) == 4
        assert all('instance_id=~"i\\\\-ada"' in dict(request.form)["query"] for request in monitoring.asked)
    assert {len(values) for values in trends.values.values()} == {31}
    assert trends.values[Figure.TURN] == (1.5, *[None] * 30)
    assert view.lines(trends) == [
        "last hour, now:",
        "  agent up     ██████████▁▁███████████████████  up",
        "  memory       ▁▁▁▂▂·▂▃▃▃▃▄▄▄▄▅▅▅▅▅▆▆▆▆▇▇▇▇███  30 MB",
        f"  turn         █{'·' * 30}  -",
        f"  errors       {'·' * 31}  -",
    ]
    shown = trends_shape(trends)
    assert (shown["begin"], shown["step_s"], shown["problem"]) == ("2026-01-02T03:00:00+00:00", 120.0, None)
    points = shown["points"]
    assert isinstance(points, dict)
    assert points["turn"] == [["2026-01-02T03:00:00+00:00", 1.5]]
    assert points["memory"][5] == ["2026-01-02T03:12:00+00:00", 6e6]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Answer(b"", 502), "502"),
        (matrix(), "Prometheus has nothing of it"),
        (matrix(({}, [(BEGIN, "NaN")])), "Prometheus has nothing of it"),
        (Answer({"data": 7}), "something else than figures"),
    ],
    ids=["silent", "empty", "nan", "nonsense"],
)
async def test_what_is_not_there_is_said_with_its_reason(given: Answer, words: str) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = given
        trends = await trends_of(monitoring.client, ADA, NOW)
    assert words in trends.problem
    assert view.lines(trends) == [f"last hour      not known: {trends.problem}"]
    assert trends_shape(trends)["points"] == {}


async def test_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "_WITHIN_S", 0.2)
    began = time.monotonic()
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = Answer(b"{", drips=True)
        assert "0.2 s" in (await trends_of(monitoring.client, ADA, NOW)).problem
    assert time.monotonic() - began < 2


async def test_without_monitoring_nobody_is_asked() -> None:
    assert (await trends_of(None, ADA, NOW)).problem == "there is no monitoring here"
