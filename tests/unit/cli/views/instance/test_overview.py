"""Instances in a list, and reports on one, for programs and for people."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hermesops.agents.health.instance_list import ListedInstance
from hermesops.agents.health.instance_reports import InstanceAlerts, InstanceReport, OpenWork
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.cli.views.instance import overview as view
from hermesops.errors import Hint
from hermesops.model.fleet.alert import Alert, Severity
from hermesops.model.fleet.health import Condition, GatewayHealth, Judgement, NodeState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import MachineId, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.recovery.backup import Backup
from hermesops.model.rollout.release import RecordedRelease, ReleaseId
from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert
from hermesops.observability.telemetry.metrics.trends import Trends
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.views.agents import instances
from hermesops.views.agents.instance_reports import report as report_shape
from hermesops.views.timestamps import timestamp
from tests.support.fakes.instances import ADA
from tests.support.worlds.one_user import MEMORY

NOW = ADA.created_at + timedelta(hours=30)
HEALTHY = Judgement(Condition.HEALTHY, ("its gateway answers",))
ROW = ListedInstance(ADA, "hel1", HEALTHY, RecordedRelease(ReleaseId("0.19.0-abc"), NOW))


def test_a_program_gets_every_field() -> None:
    shape = instances.listed(ROW, NOW)
    assert {name: shape[name] for name in ("user", "health", "reasons", "release", "region", "age_s")} == {
        "user": "ada",
        "health": "healthy",
        "reasons": ["its gateway answers"],
        "release": "0.19.0-abc",
        "region": "hel1",
        "age_s": 30 * 3600,
    }
    assert {"status", "plan", "cell", "machine_name", "created_at", "last_heartbeat", "ends_at"} <= set(shape)


def test_people_read_an_age_and_that_a_release_is_unknown() -> None:
    row = view.listed_row(replace(ROW, release=None), NOW)
    assert (str(row["age"]), row["release"]) == ("1 d", "unknown")
    assert instances.listed(replace(ROW, release=None), NOW)["release"] is None


def test_the_end_of_few_agents_stands_behind_what_all_have() -> None:
    assert view.columns([{"status": "running"}]) == view.COLUMNS
    columns = view.columns([{"status": "running"}, {"status": "ending"}])
    assert columns.index("plan") < columns.index("ends_at") < columns.index("age")
    assert set(columns) == {*view.COLUMNS, "ends_at"}


def test_an_agent_that_ends_says_so() -> None:
    ending = replace(ADA, status=InstanceStatus.SUSPENDED, grace_until=datetime(2026, 12, 1, tzinfo=UTC))
    assert view.listed_row(replace(ROW, instance=ending, health=None), NOW)["status"] == "ending"


OPERATION = Operation(
    OperationId("40346465-37b0-4727-ad4e-34dce9ceced3"),
    OperationKind.RESTART,
    f"instance/{ADA.id}",
    ADA.id,
    {},
    OperationStatus.RUNNING,
    "waiting for the gateway",
    "",
    NOW - timedelta(minutes=5),
    NOW,
)
BACKUP = Backup(
    "fb4e85cd", ADA.id, NOW - timedelta(hours=3), f"before suspend {OPERATION.id}", bytes=1, added=1, state=MEMORY
)
MACHINE = MachineState(MachineId("m"), MachineStatus.READY, "starter", "hel1", "10.0.0.7")
ALERT = OpenAlert(
    Alert("GatewayDown", {"instance_id": ADA.id}, NOW - timedelta(minutes=3), Severity.PAGE, runbook="gateway-down"),
    "ada",
    Hint(("runbook", "run", "gateway-down", "--instance", "ada")),
)
REPORT = InstanceReport(
    Observation(ADA, MACHINE, NodeState(ADA.id, 1, "d", "0.19.0-abc"), GatewayHealth.OK),
    region="hel1",
    health=HEALTHY,
    suspension=None,
    release=RecordedRelease(ReleaseId("0.19.0-abc"), NOW),
    backup=BACKUP,
    work=(OpenWork(OPERATION, ""),),
    alerts=InstanceAlerts((ALERT,)),
    price=Decimal("9.5"),
    trends=Trends(NOW, problem="there is no monitoring here"),
)


def lines(report: InstanceReport, *, in_sections: bool = False) -> str:
    return "\n".join(view.report_lines(report, NOW, in_sections=in_sections))


def test_a_report_for_programs_has_what_is_open_and_what_is_next() -> None:
    shape = report_shape(REPORT, NOW)
    instance: Any = shape["instance"]
    alerts: Any = shape["alerts"]
    assert {name: instance[name] for name in ("release", "region", "address", "server_type", "price_monthly")} == {
        "release": "0.19.0-abc",
        "region": "hel1",
        "address": "10.0.0.7",
        "server_type": "starter",
        "price_monthly": "9.50",
    }
    assert instance["release_since"] == timestamp(NOW)
    assert instance["backup"]["why"] == BACKUP.why
    [operation] = instance["operations"]
    assert (operation["id"], operation["holder"]) == (OPERATION.id, None)
    assert str(operation["next"]) == f"hermesops operation continue {OPERATION.id}"
    assert [alert["alert"] for alert in alerts["open"]] == ["GatewayDown"]


def test_people_read_each_on_a_line() -> None:
    shown = lines(REPORT)
    for line in (
        "price           $9.50 a month",
        "release         0.19.0-abc",
        f"backup          {BACKUP.at:%Y-%m-%d %H:%M} UTC (3 h ago), before suspend 40346465: not checked yet",
        (
            "operation       restart for 5 min, waiting for the gateway; nobody works on it: "
            f"hermesops operation continue {OPERATION.id}"
        ),
        "alert           page GatewayDown for 3 min 0 s, open: hermesops runbook run gateway-down --instance ada",
    ):
        assert line in shown
    attended = lines(replace(REPORT, work=(OpenWork(OPERATION, "vm:1"),)))
    assert f"a process works on it: hermesops operation show {OPERATION.id}" in attended


def test_a_machine_that_reports_another_release_than_was_recorded_has_run_it_for_an_unknown_time() -> None:
    report = replace(REPORT, release=RecordedRelease(ReleaseId("0.18.0-old"), NOW))
    instance: Any = report_shape(report, NOW)["instance"]
    assert (instance["release"], instance["release_since"]) == ("0.19.0-abc", None)


def test_the_recorded_release_stands_for_that_of_a_silent_machine() -> None:
    silent = replace(REPORT, observation=Observation(ADA, MACHINE))
    instance: Any = report_shape(silent, NOW)["instance"]
    assert instance["release"] == "0.19.0-abc"
    assert "release         unknown" in lines(replace(silent, release=None))


def test_alerts_that_are_not_known_are_not_none() -> None:
    shown = lines(replace(REPORT, alerts=InstanceAlerts(problem="Alertmanager does not answer")))
    assert "alert           not known: Alertmanager does not answer" in shown
    assert "alert           none" in lines(replace(REPORT, alerts=InstanceAlerts()))


def test_a_terminal_gets_sections_with_each_field_of_value() -> None:
    flat, sections = lines(REPORT), lines(REPORT, in_sections=True)
    names = {line.split("  ")[0] for line in flat.splitlines()}
    shown = {line.strip().split("  ")[0] for line in sections.splitlines()}
    assert names - shown == {"ends at"}
    assert [line for line in sections.splitlines() if line and line[0].isupper()] == [
        *("Agent", "Open", "Release and backup", "Machine", "Ids")
    ]


def test_an_unknown_machine_has_its_reason() -> None:
    silent = replace(REPORT, observation=replace(REPORT.observation, machine=None), problem="JustAVPS does not answer")
    for in_sections in (False, True):
        assert "unknown: JustAVPS does not answer" in lines(silent, in_sections=in_sections)
    facts = report_shape(silent, NOW)["instance"]
    assert isinstance(facts, dict)
    assert (facts["machine_status"], facts["machine_problem"]) == (None, "JustAVPS does not answer")
