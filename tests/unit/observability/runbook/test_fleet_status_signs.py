"""A sign that a runbook wants gone from ``fleet status`` is one that it shows while the trouble lasts."""

from datetime import UTC, datetime

from hermesops.agents.health.fleet import FleetHealth
from hermesops.base import assets
from hermesops.cli.views.fleet.health import health_lines
from hermesops.cli.views.fleet.notices import crowded_lines, loss_lines
from hermesops.model.fleet.health import Condition, Judgement
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import CellTally, LowOnDisk, RecordedInstance
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Loss
from hermesops.observability.runbook.document import load, names
from hermesops.observability.runbook.matching import shows

AT = datetime(2026, 1, 2, tzinfo=UTC)
USER = "ada"


def health(*conditions: Condition) -> FleetHealth:
    rows = [
        RecordedInstance(InstanceId(f"i{number}"), USER, Plan.LIGHT, InstanceStatus.RUNNING)
        for number in range(len(conditions))
    ]
    judgements = {row.id: Judgement(condition, ()) for row, condition in zip(rows, conditions, strict=True)}
    return FleetHealth((CellTally(CellName("cell1"), "hel1", tuple(rows)),), judgements, AT)


def printed(judged: FleetHealth, crowded: list[LowOnDisk], late: int) -> str:
    lines = [*health_lines(judged), *crowded_lines(crowded), *loss_lines(Loss(3, 5, late, 0, 86_400))]
    return "\n".join(lines)


TROUBLE = printed(health(*Condition), [LowOnDisk(USER, Plan.LIGHT, 9, 10)], 1)
WELL = printed(health(Condition.HEALTHY), [], 0)


def test_what_has_to_be_gone_is_shown_in_trouble_alone() -> None:
    folder = assets.folder("runbooks")
    signs = {
        (name, text.replace("USER", USER))
        for name in names(folder)
        for step in load(folder, name).steps
        if step.command[:2] == ("fleet", "status")
        for text in step.absent
    }
    assert len(signs) > 10
    assert {sign for sign in signs if not shows(TROUBLE, sign[1])} == set()
    assert {sign for sign in signs if shows(WELL, sign[1])} == set()
