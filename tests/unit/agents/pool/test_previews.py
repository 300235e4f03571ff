"""The cost of a pool after it was filled or shrunk, by rows alone."""

from datetime import UTC, datetime

import pytest

from hermesops.agents.pool.decide import Target
from hermesops.agents.pool.previews import filled
from hermesops.model.fleet.cell import Cell
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, ImageId, MachineId, MachineName
from hermesops.model.plan import Plan

AT = datetime(2026, 1, 1, tzinfo=UTC)
CELL = Cell(CellName("cell1"), "hel1", None, 0, AT)
IMAGE, OLD = ImageId("new"), ImageId("old")


def pooled(name: str, *, plan: Plan = Plan.LIGHT, image: ImageId = IMAGE, size: str = "starter") -> UnassignedMachine:
    return UnassignedMachine(
        MachineName(name),
        MachineRole.WARM,
        None,
        CELL.name,
        plan,
        size,
        "hel1",
        image,
        MachineId(name),
        wanted=True,
        status=UnassignedStatus.READY,
        epoch=0,
        created_at=AT,
        ready_at=AT,
    )


def light(size: int, image: ImageId | None = IMAGE) -> Target:
    return Target(Plan.LIGHT, size, "starter", image)


@pytest.mark.parametrize(
    ("machines", "targets", "room", "after"),
    [
        ([], [light(2)], 10, ["starter", "starter"]),
        ([], [light(2)], 1, ["starter"]),
        ([pooled("a"), pooled("b"), pooled("c")], [light(1)], 10, ["starter"]),
        ([pooled("a")], [], 10, []),
        ([pooled("a", image=OLD)], [light(1)], 10, ["starter"]),
        ([pooled("a", size="basic")], [light(1)], 0, []),
        ([pooled("a", image=OLD)], [light(2, image=None)], 10, ["starter"]),
        ([], [light(1), Target(Plan.HEAVY, 1, "basic", IMAGE)], 1, ["starter"]),
    ],
    ids=["filled", "no room", "shrunk", "no pool", "renewed", "another size", "no image yet", "room is shared"],
)
def test_a_pool_after_its_job(
    machines: list[UnassignedMachine], targets: list[Target], room: int, after: list[str]
) -> None:
    assert [machine.server_type for machine in filled(CELL, machines, targets, room=room)] == after


def test_machines_that_fit_stay() -> None:
    fitting = pooled("a")
    assert filled(CELL, [pooled("b", image=OLD), fitting], [light(1)], room=5) == [fitting]
