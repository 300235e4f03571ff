"""Shapes and lines of alerts and silences."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.cli.views import alerts as view
from hermesops.errors import Hint
from hermesops.model.fleet.alert import Alert, Matcher, Severity, Silence
from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert
from hermesops.views.observability import alerts as alert_shapes
from tests.support.suite.cases import each_case

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FOUND = Alert(
    "GatewayDown",
    {"alertname": "GatewayDown", "instance_id": "i-1", "cell": "cell1"},
    NOW - timedelta(minutes=65),
    Severity.PAGE,
    summary="the gateway does not answer",
    figure="0 of 4 answers\x1b[2J\nin 60 s",
    runbook="gateway-down",
)
OPEN = OpenAlert(FOUND, "ada", Hint(("runbook", "run", "gateway-down", "--instance", "ada")))


def test_an_alert_for_programs() -> None:
    assert alert_shapes.alert(OPEN, NOW) == {
        "alert": "GatewayDown",
        "user": "ada",
        "stands_for": [],
        "instance_id": "i-1",
        "cell": "cell1",
        "severity": "page",
        "state": "open",
        "ending": None,
        "since": "2026-01-02T01:59:05+00:00",
        "for_s": 3900,
        "summary": "the gateway does not answer",
        "figure": "0 of 4 answers\x1b[2J\nin 60 s",
        "runbook": "gateway-down",
        "labels": {"alertname": "GatewayDown", "instance_id": "i-1", "cell": "cell1"},
        "silenced_by": [],
        "acknowledged": None,
        "next": OPEN.next,
    }


def test_an_alert_for_people_keeps_to_its_line() -> None:
    row = view.alert_row(OPEN, NOW)
    assert (row["for"], row["figure"]) == ("1 h 5 min", "0 of 4 answers\\x1b[2J in 60 s")
    strange = replace(FOUND, severity=None, labels={**FOUND.labels, "severity": "\nloud"}, figure="")
    row = view.alert_row(replace(OPEN, alert=strange, user=""), NOW)
    assert (row["severity"], row["user"], row["figure"]) == ("loud", "i-1", "the gateway does not answer")


def test_an_alert_about_several_names_them() -> None:
    many = replace(FOUND, labels={"alertname": "GatewayDown", "scope": "fleet"})
    row = view.alert_row(replace(OPEN, alert=many, user="", stands_for=("ada", "bob", "cyd", "dee")), NOW)
    assert row["user"] == "ada, bob, cyd +1"


@each_case(
    ("silenced", "inhibited", "ending", "state"),
    [
        ((), (), None, "open"),
        ((), (), False, "open"),
        ((), (), True, "ending"),
        (("s",), ("a",), False, "silenced"),
        (("s",), (), True, "silenced"),
        ((), ("a",), None, "inhibited"),
        ((), ("a",), True, "inhibited"),
    ],
)
def test_whether_anybody_is_told_and_whether_it_is_over(
    silenced: tuple[str, ...], inhibited: tuple[str, ...], *, ending: bool | None, state: str
) -> None:
    alert = replace(FOUND, silenced_by=silenced, inhibited_by=inhibited)
    assert alert_shapes.state_of(replace(OPEN, alert=alert, ending=ending)) == state


def test_an_acknowledged_alert_says_who_works_on_it_why_and_until_when() -> None:
    alert = replace(FOUND, silenced_by=("s-1",))
    silence = Silence("s-1", "active", (), NOW, NOW + timedelta(hours=2), "root@vm\x1b[2J", "acknowledged: me\nhere")
    open_alert = replace(OPEN, alert=alert, acknowledged=silence)
    assert alert_shapes.alert(open_alert, NOW)["acknowledged"] == {
        "by": "root@vm\x1b[2J",
        "reason": "me\nhere",
        "until": "2026-01-02T05:04:05+00:00",
    }
    assert alert_shapes.alert(open_alert, NOW)["state"] == "acknowledged"
    assert view.alert_row(open_alert, NOW)["state"] == (
        "acknowledged by root@vm\\x1b[2J: me here until 01-02 05:04 UTC"
    )


def test_a_silence_with_its_matchers() -> None:
    matchers = (Matcher("cell", "a|b", is_regex=True), Matcher("unit", "x", is_equal=False), Matcher("a", "b"))
    silence = Silence("s-1", "active", matchers, NOW, NOW + timedelta(hours=2), "ada@here", "acknowledged: at it")
    assert alert_shapes.silence(silence) == {
        "id": "s-1",
        "state": "active",
        "acknowledges": True,
        "matchers": ["cell=~a|b", "unit!=x", "a=b"],
        "begins_at": "2026-01-02T03:04:05+00:00",
        "ends_at": "2026-01-02T05:04:05+00:00",
        "who": "ada@here",
        "comment": "acknowledged: at it",
    }
    assert view.silence_row(silence, {})["what"] == "cell=~a|b, unit!=x, a=b"
    own = replace(silence, matchers=(Matcher("instance_id", "i-1"), Matcher("instance_id", "i-2")))
    assert alert_shapes.matched(own, {"i-1": "ada"}) == "user=ada, instance_id=i-2"
    line = view.silence_line(silence, "silenced", Hint(("alert", "silence", "--lift", "s-1")))
    assert str(line) == "silenced until 2026-01-02 05:04 UTC: hermesops alert silence --lift s-1 ends that"
