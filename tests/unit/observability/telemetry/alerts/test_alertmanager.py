"""Alerts and silences as Alertmanager answers them, and answers that are none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesops.errors import UnavailableError
from hermesops.model.fleet.alert import Matcher, Severity, Silence
from hermesops.observability.telemetry.alerts.alertmanager import Alertmanager
from tests.support.fakes.monitoring import Answer, alert, fake_monitoring, silence
from tests.support.suite.cases import each_case

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
ALERTS, SILENCES = "GET /alertmanager/api/v2/alerts", "GET /alertmanager/api/v2/silences"


async def test_an_alert_with_what_an_operator_needs() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([alert(instance_id="i-1", cell="cell1")])
        (open_alert,) = await Alertmanager(monitoring.client).alerts()
        assert (open_alert.name, open_alert.instance, open_alert.cell) == ("GatewayDown", "i-1", "cell1")
        assert (open_alert.since, open_alert.severity, open_alert.figure) == (BEGAN, Severity.PAGE, "0 of 1")
        assert (open_alert.runbook, open_alert.is_muted) == ("machine-gone", False)
        assert dict(monitoring.asked[0].params) == {"active": "true", "silenced": "false", "inhibited": "false"}


async def test_the_most_urgent_and_oldest_come_first() -> None:
    later = {**alert("Later"), "startsAt": "2026-01-02T03:04:06Z"}
    strange = alert("Strange", severity="apocalypse")
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([alert("Ticket", severity="ticket"), later, alert("Page"), strange])
        alerts = await Alertmanager(monitoring.client).alerts()
        assert [alert.name for alert in alerts] == ["Strange", "Page", "Later", "Ticket"]
        assert alerts[0].severity is None


async def test_what_is_silenced_is_left_out_even_if_it_is_answered() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([alert(silenced=("s-1",))])
        assert await Alertmanager(monitoring.client).alerts() == ()
        (muted,) = await Alertmanager(monitoring.client).alerts(muted=True)
        assert muted.silenced_by == ("s-1",)
        assert monitoring.asked[-1].param("silenced") == "true"


@each_case(
    "url",
    [
        "",
        "../../etc/passwd",
        "https://x/UPPER.md",
        "https://x/.md",
        "https://x/a.md/b",
        "https://x/-a.md",
        "https://x/a\n.md",
    ],
)
async def test_a_runbook_is_a_name_or_nothing(url: str) -> None:
    raw = alert()
    raw["annotations"]["runbook_url"] = url
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer([raw])
        (open_alert,) = await Alertmanager(monitoring.client).alerts()
        assert open_alert.runbook == ""


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in alert().items() if key != name}


@each_case(
    "answer",
    [
        {},
        "text",
        [1],
        [_without("labels")],
        [_without("startsAt")],
        [_without("status")],
        [{**alert(), "labels": {"severity": "page"}}],
        [{**alert(), "labels": {"alertname": 7}}],
        [{**alert(), "labels": {"alertname": "A", **{f"l{number}": "" for number in range(64)}}}],
        [{**alert(), "labels": {"alertname": "A" * 5000}}],
        [{**alert(), "startsAt": "yesterday"}],
        [{**alert(), "startsAt": "2026-01-02T03:04:05"}],
        [{**alert(), "status": {"silencedBy": [1], "inhibitedBy": []}}],
        [{}] * 50_001,
    ],
    ids=lambda answer: str(answer)[:60],
)
async def test_what_is_no_list_of_alerts(answer: object) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[ALERTS] = Answer(answer)
        with pytest.raises(UnavailableError, match="something else than"):
            await Alertmanager(monitoring.client).alerts()


async def test_silences_that_have_expired_are_left_out() -> None:
    own = silence("ff00", comment="acknowledged: i am at it")
    async with fake_monitoring() as monitoring:
        monitoring.answers[SILENCES] = Answer([silence("ee", state="expired"), own, silence()])
        silences = await Alertmanager(monitoring.client).silences()
        assert [(silence.id, silence.is_acknowledgement) for silence in silences] == [("ab12", False), ("ff00", True)]
        assert silences[0].matchers == (Matcher("alertname", "GatewayDown"),)
        monitoring.answers[SILENCES] = Answer([{**silence(), "matchers": [{}]}])
        with pytest.raises(UnavailableError, match="something else than silences"):
            await Alertmanager(monitoring.client).silences()


WANTED = Silence(
    "", "active", (Matcher("cell", "a|b", is_regex=True),), BEGAN, BEGAN + timedelta(hours=1), "ada", "why"
)


async def test_a_silence_is_made_and_lifted() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers["POST /alertmanager/api/v2/silences"] = Answer({"silenceID": "s-9"})
        monitoring.answers["DELETE /alertmanager/api/v2/silence/s%2F9"] = Answer(b"")
        manager = Alertmanager(monitoring.client)
        assert await manager.silence(WANTED) == replace(WANTED, id="s-9")
        assert b'"name":"cell","value":"a|b","isRegex":true,"isEqual":true' in monitoring.asked[0].body
        await manager.lift("s/9")
        monitoring.answers["POST /"] = Answer({})
        monitoring.answers["POST /alertmanager/api/v2/silences"] = Answer({"id": "s-9"})
        with pytest.raises(UnavailableError, match="the id of a silence"):
            await manager.silence(WANTED)
