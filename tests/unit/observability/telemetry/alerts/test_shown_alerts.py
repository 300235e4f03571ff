"""Whether an open alert is over already, as Prometheus has it; without its word alerts are listed as well."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from hermesops.observability.telemetry.alerts.shown_alerts import Alerts, Steps
from hermesops.observability.telemetry.metrics import prometheus as metrics
from tests.support.fakes.monitoring import Answer, alert, fake_monitoring, silence

if TYPE_CHECKING:
    from hermesops.store.registry import Registry

LISTED, HOLD = "GET /alertmanager/api/v2/alerts", "GET /prometheus/api/v1/alerts"
SILENCES = "GET /alertmanager/api/v2/silences"
WATCHDOG = alert("Watchdog", severity="none")
OPEN = [alert("Over", cell="cell1"), alert("Holds", cell="cell1"), alert("Gone"), WATCHDOG]


def of_prometheus(name: str, **more: str) -> dict[str, Any]:
    labels: dict[str, str] = next(alert["labels"] for alert in OPEN if alert["labels"]["alertname"] == name)
    return {"labels": labels, "annotations": {}, "state": "firing", "value": "1e+00", **more}


def prometheus(*alerts: object) -> Answer:
    return Answer({"status": "success", "data": {"alerts": list(alerts)}})


HELD = (of_prometheus("Over", keepFiringSince="2026-01-02T03:04:05Z"), of_prometheus("Holds"))


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (prometheus(*HELD, of_prometheus("Watchdog")), {"Over": True, "Holds": False, "Gone": True}),
        # It was started again, and has not evaluated all of its rules.
        (prometheus(*HELD), {"Over": True, "Holds": False, "Gone": None}),
        (prometheus(), {"Over": None, "Holds": None, "Gone": None}),
        (prometheus(7), {"Over": None, "Holds": None, "Gone": None}),
        (Answer({"data": []}), {"Over": None, "Holds": None, "Gone": None}),
        (Answer(b"no", 503), {"Over": None, "Holds": None, "Gone": None}),
        (Answer(b"", late_s=1.0), {"Over": None, "Holds": None, "Gone": None}),
        (Answer(drips=True), {"Over": None, "Holds": None, "Gone": None}),
    ],
    ids=["whole", "started again", "nothing yet", "other alerts", "another shape", "away", "late", "without an end"],
)
async def test_an_alert_is_ending_once_its_condition_is_over(
    answer: Answer, ending: dict[str, bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_HOLDS_WITHIN_S", 0.3)
    async with fake_monitoring() as monitoring:
        monitoring.answers |= {LISTED: Answer(OPEN), HOLD: answer}
        # Of no instance: nothing of the registry is asked for.
        alerts = Alerts(cast("Registry", None), monitoring.client, lambda _: Steps.NONE)
        open_alerts = await alerts.list()
        assert {open_alert.alert.name: open_alert.ending for open_alert in open_alerts} == ending
        assert {name.alert.name for name in open_alerts if "nothing" in str(name.next)} == {
            name for name in ending if ending[name]
        }
        assert [request.path for request in monitoring.asked] == [LISTED.split()[1], HOLD.split()[1]]
        monitoring.answers[LISTED] = Answer([])
        assert await alerts.list() == ()


async def test_an_acknowledged_alert_is_shown_with_who_works_on_it_and_a_silenced_one_is_not() -> None:
    both = alert("Both", silenced=("ack", "known"))
    hidden = alert("Hidden", silenced=("ack",))
    hidden["status"]["inhibitedBy"] = ["another"]
    fired = [alert("Acked", silenced=("ack",)), alert("Silenced", silenced=("known",)), both, hidden, alert("Gone")]
    fired[-1]["status"]["silencedBy"] = ["ended"]
    async with fake_monitoring() as monitoring:
        documents = [silence("ack", comment="acknowledged: at it"), silence("known")]
        monitoring.answers |= {LISTED: Answer(fired), HOLD: prometheus(), SILENCES: Answer(documents)}
        alerts = Alerts(cast("Registry", None), monitoring.client, lambda _: Steps.NONE)
        [shown] = await alerts.list()
        assert (shown.alert.name, shown.acknowledged and shown.acknowledged.id) == ("Acked", "ack")
        everything = {
            open_alert.alert.name: open_alert.acknowledged for open_alert in await alerts.list(everything=True)
        }
        assert [name for name, silence in everything.items() if silence] == ["Acked"]
        assert len(everything) == 5
