"""Trouble has its beginning, its reason and its next command, the most urgent first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.health.fleet import FleetHealth
from hermesops.agents.health.judgement import AgentFact, HealthFacts, MachineFact, judge
from hermesops.agents.health.trouble import Trouble, foremost, troubles, within
from hermesops.base import assets
from hermesops.errors import Hint
from hermesops.model.fleet.alert import INSTANCE, Alert, Severity
from hermesops.model.fleet.health import Condition, GatewayHealth, Judgement
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import GONE, CellTally, RecordedInstance
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.plan import Plan
from hermesops.observability.runbook.document import names
from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CELL = CellName("cell1")

DOWN = Judgement(Condition.DOWN, ("the gateway does not answer",), 60.0, "gateway-down")
UNKNOWN = Judgement(Condition.UNKNOWN, ("no answer is recorded",))
DEGRADED = Judgement(Condition.DEGRADED, ("its last turn failed",), 30.0)


def fleet(**judgements: Judgement) -> FleetHealth:
    rows = tuple(
        RecordedInstance(InstanceId(f"id-{user}"), user, Plan.LIGHT, InstanceStatus.RUNNING) for user in judgements
    )
    return FleetHealth(
        (CellTally(CELL, "hel1", rows),),
        {InstanceId(f"id-{user}"): judgement for user, judgement in judgements.items()},
        NOW,
    )


def alert(name: str, user: str = "", minutes: int = 5, **labels: str) -> OpenAlert:
    labels |= {INSTANCE: f"id-{user}"} if user else {}
    fired = Alert(name, labels, NOW - timedelta(minutes=minutes), Severity.PAGE, "it is so", "7 of 8", "")
    return OpenAlert(fired, user, Hint(("runbook", "show", name.lower())))


def shown(troubles: tuple[Trouble, ...]) -> list[tuple[str, str]]:
    return [(trouble.subject, str(trouble.next)) for trouble in troubles]


def test_agents_that_are_not_well_come_the_worst_first_with_what_is_next() -> None:
    health = fleet(ada=DEGRADED, ben=UNKNOWN, cleo=DOWN, dan=Judgement(Condition.HEALTHY, ("it answered",)))
    listed = troubles(health, [], NOW)
    assert shown(listed) == [
        ("cleo", "hermesops runbook run gateway-down --instance cleo"),
        ("ada", "hermesops instance verify ada"),
        ("ben", "hermesops fleet status --live --ask"),
    ]
    assert [trouble.since for trouble in listed] == [NOW - timedelta(seconds=60), NOW - timedelta(seconds=30), None]
    assert [trouble.is_unknown for trouble in listed] == [False, False, True]


def test_an_alert_adds_its_beginning_and_its_command_to_its_agent() -> None:
    (trouble,) = troubles(fleet(ada=DOWN), [alert("GatewayDown", "ada", minutes=7)], NOW)
    assert (trouble.since, trouble.reasons) == (NOW - timedelta(minutes=7), DOWN.reasons)
    assert str(trouble.next) == "hermesops runbook show gatewaydown"
    (unknown,) = troubles(fleet(ada=UNKNOWN), [alert("GatewayDown", "ada")], NOW)
    assert not unknown.is_unknown


def test_alerts_about_no_agent_that_is_unwell_come_first() -> None:
    well = Judgement(Condition.HEALTHY, ("it answered",))
    alerts = [alert("CellLost", cell="cell1"), alert("MonitorDown"), alert("DiskFilling", "ben")]
    listed = troubles(fleet(ada=DOWN, ben=well), alerts, NOW)
    assert [(trouble.subject, trouble.judged is None) for trouble in listed] == [
        ("cell1", True),
        ("fleet", True),
        ("ben", True),
        ("ada", False),
    ]
    assert listed[0].reasons == ("7 of 8",)


def test_of_a_large_fleet_the_first_are_listed_and_all_are_counted() -> None:
    silent = {f"u{number}": replace(DOWN, condition=Condition.SILENT) for number in range(5)}
    health = fleet(ada=DOWN, ben=UNKNOWN, cleo=UNKNOWN, dan=UNKNOWN, **silent)
    alerts = [alert("MonitorDown"), alert("GatewayDown", "dan")]
    first = foremost(health, alerts, NOW, most=2)
    assert [trouble.subject for trouble in first.trouble] == ["fleet", "ada", "ben", "cleo"]
    assert (first.wrong, first.unknown) == (8, 2)
    only = foremost(health, alerts, NOW, conditions={Condition.UNKNOWN}, most=2)
    assert [trouble.subject for trouble in only.trouble] == ["dan", "ben", "cleo"]
    assert (only.wrong, only.unknown) == (1, 2)
    whole = foremost(health, alerts, NOW)
    assert len(whole.trouble) == whole.wrong + whole.unknown


def test_an_alert_whose_cause_is_over_is_no_trouble() -> None:
    assert troubles(fleet(), [replace(alert("MonitorDown"), ending=True)], NOW) == ()


def test_a_part_of_the_fleet_has_alerts_about_itself_alone() -> None:
    alerts = [alert("CellLost", cell="cell1"), alert("CellLost", cell="cell2"), alert("MonitorDown")]
    alerts += [alert("GatewayDown", "ada", cell="cell9"), alert("GatewayDown", "ben", cell="cell1")]
    assert within(alerts, fleet(ada=DOWN)) == (alerts[0], alerts[3])


def test_a_judgement_says_since_when_and_names_a_runbook_that_exists() -> None:
    answers = [AgentFact(GatewayHealth.SILENT, age) for age in (5.0, 20.0, 40.0)] + [AgentFact(GatewayHealth.OK, 60.0)]
    restarted = (AgentFact(GatewayHealth.OK, 5.0, restarts=3), AgentFact(GatewayHealth.OK, 50.0))
    cases = {
        HealthFacts(MachineFact("stopped", 10.0), heartbeat_age_s=200.0): (200.0, "heartbeat-missed"),
        HealthFacts(MachineFact(GONE, 10.0)): (10.0, "machine-gone"),
        HealthFacts(agent=tuple(answers)): (40.0, "gateway-down"),
        HealthFacts(heartbeat_age_s=500.0): (500.0, "heartbeat-missed"),
        HealthFacts(is_unanswered=True): (None, "heartbeat-missed"),
        HealthFacts(agent=restarted): (50.0, "gateway-looping"),
        HealthFacts(agent=(AgentFact(GatewayHealth.OK, 5.0),)): (None, ""),
    }
    for facts, (since_s, runbook) in cases.items():
        judgement = judge(facts)
        assert (judgement.since_s, judgement.runbook) == (since_s, runbook), facts
        assert runbook in {"", *names(assets.folder("runbooks"))}, facts


def test_a_text_chooses_by_names_reasons_and_alerts_before_anything_is_counted() -> None:
    health = fleet(ada=DOWN, adam=UNKNOWN, ben=DEGRADED, cleo=DOWN)
    alerts = [alert("CellLost", cell="cell1"), alert("GatewayDown", "ben"), alert("DiskFilling", "dan")]

    def found(text: str, most: int | None = None) -> tuple[list[str], int, int]:
        first = foremost(health, alerts, NOW, text=text, most=most)
        return [trouble.subject for trouble in first.trouble], first.wrong, first.unknown

    everything = (["cell1", "dan", "ada", "cleo", "ben", "adam"], 5, 1)
    assert found("") == found("  ") == everything
    assert found("ADA") == (["ada", "adam"], 1, 1)
    assert found("ada down") == (["ada"], 1, 0)
    assert found("gatewaydown") == (["ben"], 1, 0), "by its alert, which is no row of its own"
    assert found("last turn failed") == (["ben"], 1, 0)
    assert found("celllost") == (["cell1"], 1, 0)
    assert found("diskfilling dan") == (["dan"], 1, 0)
    assert found("gateway does not", most=1) == (["ada"], 2, 0), "all of them are counted"
    assert found("%") == found("ada cleo") == ([], 0, 0)
    assert found("id-adam") == (["adam"], 0, 1)
