"""What monitoring knows of the past of one instance."""

from datetime import UTC, datetime, timedelta

from hermesops.agents.drift.history.timeline import monitored
from tests.support.fakes.instances import ADA
from tests.support.fakes.monitoring import Answer, Asked, fake_monitoring, matrix

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
SINCE = NOW - timedelta(hours=1)
BEGIN = int(SINCE.timestamp())
RANGE = "POST /prometheus/api/v1/query_range"
DOWN = {"__name__": "ALERTS", "alertname": "GatewayDown", "alertstate": "firing", "instance_id": ADA.id}


def answer(request: Asked) -> Answer:
    if "ALERTS" in dict(request.form)["query"]:
        return matrix(
            (DOWN, [(BEGIN + at, 1) for at in (60, 90, 120, 600, 630)]),
            (
                {**DOWN, "alertname": "UnitFailed", "unit": "x.service"},
                [(BEGIN + at, 1) for at in range(3000, 3601, 30)],
            ),
        )
    return matrix(({}, [(BEGIN + at, value) for at, value in ((30, 3), (60, 3), (90, 5), (120, 0), (150, 1))]))


async def test_alerts_begin_and_end_and_restarts_are_counted() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = answer
        monitoring_state = await monitored(monitoring.client, ADA, SINCE, NOW)
        first = dict(monitoring.asked[0].form)
        # Over the whole step, the last one included, which is not over: an alert may be shorter than a step.
        assert first["query"].startswith('max_over_time(ALERTS{alertstate="firing",instance_id=~')
        assert first["query"].endswith("}[30s])")
        assert (first["start"], first["step"]) == (f"{BEGIN}.000", "30")
        assert float(first["end"]) == NOW.timestamp() + 30
    happenings = [
        (int((happening.at - SINCE).total_seconds()), happening.what, happening.detail)
        for happening in monitoring_state.happenings
    ]
    assert happenings == [
        (60, "alert_fired", "GatewayDown"),
        (150, "alert_ended", "GatewayDown"),
        (600, "alert_fired", "GatewayDown"),
        (660, "alert_ended", "GatewayDown"),
        (3000, "alert_fired", "UnitFailed, unit x.service"),
        (90, "gateway_restart_seen", "counted 3 -> 5"),
        (150, "gateway_restart_seen", "counted 0 -> 1"),
    ]
    assert monitoring_state.counts_since == SINCE + timedelta(seconds=30)
    assert {happening.subject for happening in monitoring_state.happenings} == {f"instance/{ADA.id}"}


async def test_a_week_is_asked_in_few_points() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[RANGE] = matrix()
        monitoring_state = await monitored(monitoring.client, ADA, None, NOW)
        form = dict(monitoring.asked[0].form)
        assert (monitoring_state.happenings, monitoring_state.counts_since, monitoring_state.problem) == ((), None, "")
        assert float(form["end"]) - float(form["start"]) == 7 * 86_400 + float(form["step"])
        assert float(form["step"]) > 120


async def test_without_an_answer_it_is_said_why() -> None:
    async with fake_monitoring() as monitoring:
        assert "404" in (await monitored(monitoring.client, ADA, None, NOW)).problem
    assert (await monitored(None, ADA, None, NOW)).problem == "there is no monitoring here"
