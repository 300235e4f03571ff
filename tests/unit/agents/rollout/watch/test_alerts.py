"""What a rollout knows of open alerts while monitoring answers, and after it has fallen silent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesops.agents.rollout.ports import AlertState
from hermesops.agents.rollout.watch.alerts import COUNTS, RolloutAlerts, held_now
from hermesops.errors import UnavailableError
from hermesops.model.rollout.spec import Spec
from hermesops.observability.telemetry.client import MonitoringClient
from tests.support.fakes.monitoring import Answer, alert, fake_monitoring, silence

ALERTS, SILENCES = "GET /alertmanager/api/v2/alerts", "GET /alertmanager/api/v2/silences"
CONDITIONS = "GET /prometheus/api/v1/alerts"


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def turn(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def holder(*, silenced: tuple[str, ...] = ()) -> dict[str, Any]:
    return alert("FleetGap", silenced=silenced, scope="fleet")


async def test_without_monitoring_no_alert_holds_a_rollout() -> None:
    assert await RolloutAlerts(None, Clock()).check() == AlertState()


async def test_it_is_asked_now_and_then_and_its_answer_counts_meanwhile() -> None:
    clock = Clock()
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([holder(), alert("Other")])
        alerts = RolloutAlerts(monitoring.client, clock)
        for _ in range(20):
            alert_state = await alerts.check()
            assert [alert.name for alert in alert_state.open] == ["FleetGap"]
            clock.turn(1)
        assert [request.path for request in monitoring.asked].count("/alertmanager/api/v2/alerts") == 2
        monitoring.answers[ALERTS] = Answer([])
        clock.turn(1)
        assert await alerts.check() == AlertState()


async def test_after_three_heartbeats_of_silence_nothing_is_known() -> None:
    clock = Clock()
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([])
        alerts = RolloutAlerts(monitoring.client, clock)
        assert await alerts.check() == AlertState()
        monitoring.answers[ALERTS] = Answer(b"", 502)
        clock.turn(COUNTS.total_seconds())
        assert await alerts.check() == AlertState(), "an answer counts for that long"
        clock.turn(10)
        assert "502" in (await alerts.check()).unknown
        monitoring.answers[ALERTS] = Answer([holder()])
        clock.turn(10)
        assert len((await alerts.check()).open) == 1


async def test_who_never_answered_is_unknown_at_once() -> None:
    async with fake_monitoring() as monitoring:
        assert "404" in (await RolloutAlerts(monitoring.client, Clock()).check()).unknown


@pytest.mark.parametrize(("comment", "holds"), [("acknowledged: at it", True), ("it is known", False)])
async def test_a_silence_says_whether_somebody_works_on_it(comment: str, *, holds: bool) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([holder(silenced=("ab12",))])
        monitoring.answers[SILENCES] = Answer([silence("ab12", comment=comment)])
        assert bool((await RolloutAlerts(monitoring.client, Clock()).check()).open) is holds


def of_prometheus(*listed: dict[str, Any]) -> Answer:
    return Answer({"status": "success", "data": {"alerts": [{"state": "firing", **alert} for alert in listed]}})


WATCHDOG = alert("Watchdog", severity="none")
HOLDS, OVER = {"labels": holder()["labels"]}, {"labels": holder()["labels"], "keepFiringSince": "2026-01-02T00:00:00Z"}
RUNS = {"labels": WATCHDOG["labels"]}


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        (of_prometheus(HOLDS, RUNS), True),
        (of_prometheus(OVER, RUNS), False),
        (of_prometheus(RUNS), False),
        (of_prometheus(), True),
        (Answer(b"", 502), True),
    ],
    ids=["it holds", "it is over, and kept open by its rule", "resolved", "Prometheus was started again", "away"],
)
async def test_an_alert_that_is_ending_holds_no_rollout(answer: Answer, *, holds: bool) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers |= {ALERTS: Answer([holder(), WATCHDOG]), CONDITIONS: answer}
        assert bool((await RolloutAlerts(monitoring.client, Clock()).check()).open) is holds


async def test_an_alert_that_an_ending_one_hid_holds_a_rollout() -> None:
    cause, hidden = holder() | {"fingerprint": "ca05e"}, alert("CellLost", scope="cell", cell="cell1")
    hidden["status"]["inhibitedBy"] = ["ca05e"]
    async with fake_monitoring() as monitoring:
        monitoring.answers |= {ALERTS: Answer([cause, hidden, WATCHDOG])}
        for condition, name in ((HOLDS, "FleetGap"), (OVER, "CellLost")):
            monitoring.answers[CONDITIONS] = of_prometheus(condition, {"labels": hidden["labels"]}, RUNS)
            state = await RolloutAlerts(monitoring.client, Clock()).check()
            assert [alert.name for alert in state.open] == [name]


async def test_silences_that_are_not_known_leave_it_unknown() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([holder(silenced=("ab12",))])
        assert (await RolloutAlerts(monitoring.client, Clock()).check()).unknown


async def test_what_would_hold_a_rollout_that_began_now() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([holder(), alert("Other")])
        held = await held_now(lambda: monitoring.client, (), Spec(), Clock())
        assert held == "held by 1 open alert: FleetGap"
        despite = Spec(despite_alerts="it is the cure")
        assert await held_now(lambda: monitoring.client, (), despite, Clock()) == ""
        monitoring.answers[ALERTS] = Answer([])
        assert await held_now(lambda: monitoring.client, (), Spec(), Clock()) == ""


async def test_monitoring_that_is_not_up_would_hold_it_too() -> None:
    def down() -> MonitoringClient:
        raise UnavailableError("the local world is not up, and its monitoring with it")

    assert await held_now(down, (), Spec(), Clock()) == (
        "open alerts are unknown: the local world is not up, and its monitoring with it"
    )
    assert await held_now(lambda: None, (), Spec(), Clock()) == "", "an environment without monitoring has no alerts"
