"""Which silences may be made."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.base import assets
from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.fleet.alert import Alert, Matcher, Severity
from hermesops.observability.telemetry.alerts.silencing import (
    LABEL_OF,
    acknowledged,
    matchers_of,
    selector_of,
    silence_of,
)
from tests.support.suite.cases import each_case

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


def alert(name: str, **labels: str) -> Alert:
    return Alert(name, {"alertname": name, "severity": "page", "owner": "ops", **labels}, NOW, Severity.PAGE)


OPEN = (alert("GatewayDown", instance_id="i-1", cell="c"), alert("GatewayDown", instance_id="i-2", cell="c"))
LOST = alert("CellLost", cell="c", scope="cell")


def test_every_label_by_which_shipped_rules_tell_alerts_apart_is_a_field() -> None:
    rules = assets.folder("roles") / "hermes_platform_monitoring/files/rules"
    texts = [path.read_text(encoding="utf-8") for path in rules.glob("*.yml")]
    labels = {
        name
        for text in texts
        for some in re.findall(r"by \(([^)]+)\)|labels: \{([^}]+)\}", text)
        for name in re.findall(r"(\w+)(?=[,:]|$)", some[0] or re.sub(r": [^,]+", ":", some[1]))
    }
    assert {"instance_id", "cell", "severity", "scope"} <= labels
    assert labels <= set(LABEL_OF.values())


def test_conditions_become_matchers_of_labels() -> None:
    wanted = selector_of("alert=GatewayDown,alert=UnitFailed,cell=a.b,severity=page").conditions
    assert matchers_of({**wanted, "user": ["i-1"]}) == (
        Matcher("alertname", "GatewayDown|UnitFailed", is_regex=True),
        Matcher("cell", "a.b"),
        Matcher("severity", "page"),
        Matcher("instance_id", "i-1"),
    )
    (either,) = matchers_of({"cell": ["a.b", "a-c"]})
    assert either == Matcher("cell", r"a\-c|a\.b", is_regex=True)


@each_case("where", ["alertname=X", "instance_id=i", "colour=red", "cell", "cell=", "severity=loud"])
def test_a_wrong_label_is_refused(where: str) -> None:
    with pytest.raises(UsageError) as refused:
        selector_of(where)
    assert refused.value.field == "where"


@each_case(
    ("where", "words"),
    [
        ("", "a silence without conditions"),
        ("severity=page", "the whole fleet"),
        ("severity=page,severity=ticket,owner=ops", "owner and severity alone"),
        ("scope=fleet", "the whole fleet"),
        ("alert=Watchdog", "always fires"),
        ("alert=Watchdog,cell=c", "always fires"),
    ],
)
def test_what_takes_too_much_is_refused(where: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        matchers_of(selector_of(where).conditions)


def test_an_acknowledgement_takes_the_alert_of_one_instance_and_no_other() -> None:
    matchers, taken = acknowledged(OPEN, "GatewayDown", "i-2", "bob")
    assert matchers == (Matcher("alertname", "GatewayDown"), Matcher("instance_id", "i-2"))
    assert taken == OPEN[1:]


def test_an_acknowledgement_without_an_instance_takes_the_only_alert_of_that_name() -> None:
    matchers, taken = acknowledged((*OPEN, LOST), "CellLost", "", "")
    assert matchers == (Matcher("alertname", "CellLost"), Matcher("cell", "c"), Matcher("scope", "cell"))
    assert taken == (LOST,)


def test_an_alert_of_the_fleet_is_acknowledged_apart_from_those_of_instances_that_it_hides() -> None:
    wide = alert("GatewayDown", scope="fleet")
    matchers, taken = acknowledged((*OPEN, wide), "GatewayDown", "", "")
    assert matchers == (Matcher("alertname", "GatewayDown"), Matcher("scope", "fleet"))
    assert taken == (wide,)


@pytest.mark.parametrize(
    ("name", "instance", "words"),
    [
        ("GatewayDown", "", "2 alerts GatewayDown are open"),
        ("GatewayDown", "i-3", "no alert 'GatewayDown' of eve is open"),
        ("CellLost", "i-1", "no alert 'CellLost'"),
        ("Watchdog", "", "always fires"),
    ],
)
def test_what_cannot_be_acknowledged(name: str, instance: str, words: str) -> None:
    with pytest.raises(HermesError, match=words):
        acknowledged((*OPEN, LOST), name, instance, "eve" if instance else "")


@each_case(
    ("length", "is_ack", "is_fine"),
    [
        (timedelta(days=7), False, True),
        (timedelta(days=7, seconds=1), False, False),
        (timedelta(hours=24), True, True),
        (timedelta(hours=25), True, False),
        (timedelta(0), False, False),
    ],
)
def test_a_silence_ends(length: timedelta, *, is_ack: bool, is_fine: bool) -> None:
    def make() -> str:
        silence = silence_of((), now=NOW, length=length, who="ada", reason=" why ", is_acknowledgement=is_ack)
        assert (silence.begins_at, silence.ends_at, silence.who) == (NOW, NOW + length, "ada")
        return silence.comment

    if is_fine:
        assert make() == ("acknowledged: why" if is_ack else "why")
    else:
        with pytest.raises(UsageError, match="more than nothing"):
            make()


def test_a_silence_needs_a_reason() -> None:
    with pytest.raises(UsageError, match="missing reason"):
        silence_of((), now=NOW, length=HOUR, who="ada", reason="  ", is_acknowledgement=False)
