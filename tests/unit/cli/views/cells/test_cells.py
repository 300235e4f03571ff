"""Shapes of cells in JSON, and what a person reads of them."""

from datetime import UTC, datetime

from hermesops.agents.cells.status import CellView
from hermesops.cli.views.cells import cells
from hermesops.model.fleet.cell import Cell
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.overview import Ordered
from hermesops.model.ids import CellName, InstanceId, MachineName, OperationId, UserId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.stack import Change, ChangeKind
from hermesops.views.agents import cells as shapes
from tests.support.fleets.in_memory import pooled

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CELL = Cell(CellName("cell1"), "hel1", None, 41, AT)
INSTANCE = Instance(
    id=InstanceId("i"),
    user_id=UserId("u"),
    user_alias="",
    plan=Plan.HEAVY,
    status=InstanceStatus.PROVISIONING,
    cell=CELL.name,
    machine_name=MachineName("m1"),
    machine_id=None,
    epoch=1,
    created_at=AT,
)
SHAPE = {
    "cell": "cell1",
    "region": "hel1",
    "plans": ["light", "heavy"],
    "machines": 41,
    "room": 0,
    "created_at": "2026-01-02T03:04:05+00:00",
    "last_up": None,
}
UP = Operation(
    OperationId("op"), OperationKind.STACK_UP, "cell/cell1", None, {}, OperationStatus.PENDING, "", "", AT, AT
)


def test_a_cell() -> None:
    assert shapes.cell(CELL, size=40) == SHAPE
    apart = Cell(CellName("cell2"), "nbg1", Plan.HEAVY, 1, AT, AT)
    shown = shapes.cell(apart, size=40)
    assert (shown["plans"], shown["room"], shown["last_up"]) == (["heavy"], 39, "2026-01-02T03:04:05+00:00")


UNASSIGNED = pooled(0)


def test_a_cell_with_what_is_around_it() -> None:
    cell_view = CellView(CELL, (Ordered(INSTANCE, "basic", "hel1", None, wanted=False),), "two:7", (UP,), (UNASSIGNED,))
    same, change = (Change(kind, "urn", "t", "n") for kind in (ChangeKind.SAME, ChangeKind.CREATE))
    shown = shapes.show(cell_view, size=40, pending=(same, change, change))
    assert {key: shown[key] for key in SHAPE} == SHAPE
    assert {key: value for key, value in shown.items() if key not in SHAPE and key != "operations"} == {
        "by_status": {"provisioning": 1},
        "worked_on_by": "two:7",
        "pending_changes": {"create": 2},
        "instances": [
            {
                "machine_name": "m1",
                "machine_id": None,
                "user": "u",
                "plan": "heavy",
                "server_type": "basic",
                "status": "provisioning",
                "wanted": False,
            }
        ],
        "unassigned": [shapes.unassigned(UNASSIGNED)],
    }
    assert shapes.unassigned(UNASSIGNED) == {
        "machine_name": UNASSIGNED.name,
        "machine_id": "s-0",
        "cell": "cell1",
        "role": "warm",
        "status": "ready",
        "instance_id": None,
        "plan": "light",
        "server_type": "starter",
        "image_id": "image-1",
        "wanted": True,
        "ready_at": "2026-01-01T12:00:00+00:00",
    }
    assert [operation["id"] for operation in shown["operations"]] == ["op"]
    words = "\n".join(cells.lines(shown))
    for output in ("two:7", "2 create", "last up          never", "pending operation op: not begun", "to be destroyed"):
        assert output in words


def test_changes_that_nobody_looked_for_are_not_none() -> None:
    idle = CellView(CELL, (), "", ())
    unseen = shapes.show(idle, size=40, pending=None)
    assert unseen["pending_changes"] is None
    assert "unknown (--preview counts them)" in "\n".join(cells.lines(unseen))
    answer = shapes.show(idle, size=40, pending=())
    assert answer["pending_changes"] == {}
    assert "pending changes  none" in "\n".join(cells.lines(answer))
