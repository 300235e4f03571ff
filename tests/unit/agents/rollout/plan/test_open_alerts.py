"""Which alerts hold a rollout."""

from dataclasses import replace

from hermesops.agents.rollout.plan.batches import batches_of
from hermesops.agents.rollout.plan.open_alerts import held_by_alerts, holding
from hermesops.agents.rollout.ports import AlertState
from hermesops.model.fleet.alert import Alert, Severity
from hermesops.model.ids import CellName
from hermesops.model.rollout.spec import Spec
from tests.support.fakes.virtual_time import BEGAN
from tests.support.rollouts.world import NEW, fleet
from tests.support.suite.cases import each_case

TARGETS = batches_of(NEW, [replace(target, cell=CellName("cell7")) for target in fleet(3)], Spec())


def alert(name: str = "FleetGap", severity: Severity | None = Severity.PAGE, **labels: str) -> Alert:
    return Alert(name, {"alertname": name, "scope": "fleet", **labels}, BEGAN, severity)


@each_case(
    ("alert", "words"),
    [
        (alert(), "held by 1 open alert: FleetGap"),
        (alert("CellLost", cell="cell7"), "held by 1 open alert: CellLost of cell7"),
        (alert("CellLost", cell="cell8"), ""),
        (alert("GatewayDown", instance_id=TARGETS[0].id, cell="cell8"), "held by 1 open alert: GatewayDown of cell8"),
        (alert("GatewayDown", instance_id="another", cell="cell7"), ""),
    ],
    ids=str,
)
def test_an_alert_concerns_its_instance_its_cell_or_everybody(alert: Alert, words: str) -> None:
    assert held_by_alerts(AlertState((alert,)), TARGETS, Spec()) == words


def test_many_alerts_are_counted_and_none_is_named_twice() -> None:
    some = [alert(f"A{number}\x1b") for number in range(6)]
    words = held_by_alerts(AlertState((*some, *some)), TARGETS, Spec())
    assert words == "held by 6 open alerts: A0\\x1b, A1\\x1b, A2\\x1b, A3\\x1b and 2 more"


def test_who_starts_it_may_go_on_despite_them() -> None:
    for spec in (Spec(despite_alerts="it is the cure"), Spec(emergency="a hole")):
        assert held_by_alerts(AlertState((alert(),), "no answer"), TARGETS, spec) == ""


def test_what_is_not_known_holds_it() -> None:
    words = held_by_alerts(AlertState(unknown="no answer"), TARGETS, Spec())
    assert words == "open alerts are unknown: no answer"


@each_case(
    ("alert", "holds"),
    [
        (alert(), True),
        (alert(severity=None), True),
        (alert(severity=Severity.TICKET), False),
        (alert(scope="instance"), False),
        (replace(alert(), labels={"alertname": "FleetGap"}), False),
        (replace(alert(), silenced_by=("ack",)), True),
        (replace(alert(), silenced_by=("known",)), False),
        (replace(alert(), silenced_by=("ack", "known")), False),
        (replace(alert(), inhibited_by=("00ff",)), False),
    ],
    ids=str,
)
def test_an_alert_that_is_acknowledged_holds_and_one_that_is_silenced_does_not(alert: Alert, *, holds: bool) -> None:
    assert bool(holding([alert], ["ack"])) is holds
