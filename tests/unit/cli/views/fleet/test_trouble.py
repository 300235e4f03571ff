"""``fleet status`` begins with who is in trouble and what to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.health.fleet import FleetHealth
from hermesops.agents.health.fleet_status import FleetStatus
from hermesops.agents.health.trouble import troubles
from hermesops.cli.views.fleet import trouble
from hermesops.errors import Hint
from hermesops.model.fleet.alert import Alert, Severity
from hermesops.model.fleet.health import Condition, Judgement
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import CellTally, RecordedInstance
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.operation import BackgroundWork
from hermesops.model.plan import Plan
from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert
from hermesops.views.agents import fleet as fleet_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LOST = OpenAlert(
    Alert("CellLost", {"cell": "cell1"}, AT - timedelta(hours=1), Severity.PAGE, "", "7 of 8\x1b"), "", Hint()
)


def status(*conditions: Condition, resting: int = 0, monitor: str = "h:1:aa.1.bb", unread: str = "") -> FleetStatus:
    rows = [
        RecordedInstance(InstanceId(f"i{number}"), f"user{number:02}", Plan.LIGHT, InstanceStatus.RUNNING)
        for number in range(len(conditions))
    ]
    judgements = {
        row.id: Judgement(
            condition, (f"it is {condition}",), 90.0 if condition is Condition.DOWN else None, "gateway-down"
        )
        for row, condition in zip(rows, conditions, strict=True)
    }
    rows += [replace(row, id=InstanceId(f"s{row.id}"), status=InstanceStatus.SUSPENDED) for row in rows[:resting]]
    health = FleetHealth((CellTally(CellName("cell1"), "hel1", tuple(rows)),), judgements, AT)
    work = BackgroundWork(0, None, is_attended=False, monitor=monitor, backups_at=None)
    return FleetStatus(health, (), None, (), work, "none", 0.2, (), (), (), 0, AT, troubles(health, (), AT), unread)


def test_an_agent_in_trouble_has_its_reason_and_below_it_the_command() -> None:
    fleet_status = status(Condition.HEALTHY, Condition.DOWN)
    assert trouble.lines(fleet_status) == [
        "USER    HEALTH  FOR         WHY",
        "user01  down    1 min 30 s  it is down",
        "    hermesops runbook run gateway-down --instance user01",
        "",
    ]
    assert fleet_shapes.troubles(fleet_status.trouble, AT) == [
        {
            "user": "user01",
            "subject": "user01",
            "instance_id": "i1",
            "cell": "cell1",
            "health": "down",
            "since": "2026-01-02T03:02:35+00:00",
            "for_s": 90,
            "reasons": ["it is down"],
            "alerts": [],
            "next": Hint(("runbook", "run", "gateway-down", "--instance", "user01")),
        }
    ]


def test_an_alert_about_no_agent_names_its_cell_and_escapes_foreign_text() -> None:
    fleet_status = status(Condition.HEALTHY)
    fleet_status = replace(fleet_status, trouble=troubles(fleet_status.health, [LOST], AT))
    assert trouble.lines(fleet_status)[1].startswith("cell1  alert   1 h 0 min  CellLost: 7 of 8")
    assert "\x1b" not in "".join(trouble.lines(fleet_status))
    assert fleet_shapes.troubles(fleet_status.trouble, AT)[0]["user"] is None


def test_of_many_the_first_are_named() -> None:
    lines = trouble.lines(status(*[Condition.DOWN] * 13))
    assert lines[-2] == "3 more: hermesops fleet status --health down,silent,degraded names them"
    assert sum("runbook run" in line for line in lines) == 10


def test_where_all_are_well_that_is_the_first_line() -> None:
    assert trouble.lines(status(*[Condition.HEALTHY] * 3)) == ["all 3 agents are well", ""]
    assert trouble.lines(status(Condition.HEALTHY, resting=1)) == ["the agent is well; 1 more is not meant to run", ""]
    assert trouble.lines(status()) == []


def test_unknown_is_said_with_its_cause() -> None:
    asks = "hermesops fleet status --live --ask asks now"
    assert trouble.lines(status(Condition.HEALTHY, Condition.UNKNOWN, monitor="")) == [
        "1 of 2 agents is well",
        (
            "1 agent is unknown (user01): no monitor reads heartbeats, and no agent was asked in the last 90 s; "
            f"{asks}, hermesops monitor keeps watching"
        ),
        "",
    ]
    (line, _) = trouble.lines(status(*[Condition.UNKNOWN] * 2))
    assert line == (
        "2 agents are unknown (user00, user01); of user00: it is unknown; "
        f"hermesops fleet status --health unknown says why of each, {asks}"
    )


def test_alerts_that_could_not_be_read_do_not_look_like_none() -> None:
    lines = trouble.lines(status(Condition.HEALTHY, unread="it does not answer"))
    assert lines[1] == "open alerts are not known: it does not answer"
