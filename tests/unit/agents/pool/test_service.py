"""Pools are opened, drained and looked at by their rows; a claim that finds nothing is told where a pool is wanted."""

from typing import TYPE_CHECKING, Any

import pytest

from hermesops.agents.pool.service import Pools
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.fleet.unassigned_machine import UnassignedMachine, UnassignedStatus, pool_subject
from hermesops.model.ids import CellName, ImageId
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.settings.fields import Settings
from hermesops.vendor.justavps.errors import NotFoundError
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import machine_of_unassigned, pooled

if TYPE_CHECKING:
    from collections.abc import Iterator

CELL = CellName("cell1")


class World:
    """Rows of unassigned machines, and a vendor that lists some."""

    def __init__(self, *unassigned: UnassignedMachine, sizes: dict[str, int] | None = None) -> None:
        self.unassigned = list(unassigned)
        self.opened: list[tuple[OperationKind, str, object]] = []
        self.retired: list[str] = []
        self.told: list[str] = []
        self.settings = Settings.model_validate({"pool_size": sizes} if sizes is not None else {})

    def pools(self, **client: Any) -> Pools:  # noqa: ANN401 - each stands for a call of the vendor's
        def open_operation(kind: OperationKind, subject: str, *, intent: dict[str, object]) -> Any:  # noqa: ANN401
            self.opened.append((kind, subject, intent.get("grow")))
            return part(id="o", kind=kind)

        registry = part(
            unassigned=part(list=lambda **_: self.unassigned, retire=lambda name, **_: self.retired.append(name)),
            operations=part(open=open_operation, record_step=lambda *_: None, list=lambda **_: []),
            leases=part(),
            cells=part(get=self._cell, list=lambda: [part(name=CELL)]),
            images=part(latest=lambda _: None),
        )
        return Pools(self.settings, registry, part(**client), part(), part(), part(), self.told.append)

    def _cell(self, name: CellName) -> Any:  # noqa: ANN401 - stands for a cell
        if name != CELL:
            raise UsageError(f"there is no cell {name}")
        return part(name=name)


async def claim(world: World) -> object:
    plan, image = Plan.LIGHT, ImageId("i")
    return await world.pools().claim(part, plan, server_type="starter", image_id=image, region="hel1")


async def test_an_empty_pool_is_told_only_where_one_is_wanted() -> None:
    wanted, unwanted = World(sizes={"light": 1, "heavy": 0}), World(sizes={"light": 0, "heavy": 0})
    assert await claim(wanted) is None
    assert await claim(unwanted) is None
    assert "no ready light machine in the warm pools of hel1" in wanted.told[0]
    assert unwanted.told == []


def test_ready_machines_are_those_that_may_be_taken() -> None:
    unassigned = [
        pooled(0),
        pooled(1, wanted=False),
        pooled(2, status=UnassignedStatus.PREPARING),
        pooled(3, plan=Plan.HEAVY),
    ]
    pools = World(*unassigned).pools()
    assert pools.ready() == [unassigned[0], unassigned[3]]
    assert pools.ready(Plan.HEAVY) == [unassigned[3]]


async def test_a_machine_is_up_that_the_vendor_lists_as_ready_under_its_name() -> None:
    async def there(_: str) -> Any:  # noqa: ANN401 - stands for a machine
        return machine_of_unassigned(pooled(0))

    async def gone(_: str) -> Any:  # noqa: ANN401 - as above
        raise NotFoundError("GET /machines/m", "no such machine", status=404)

    assert await World().pools(get_machine=there).is_up(pooled(0))
    assert not await World().pools(get_machine=there).is_up(pooled(1))
    assert not await World().pools(get_machine=gone).is_up(pooled(0))


def test_cells_are_named_or_all() -> None:
    assert [cell.name for cell in World().pools().cells([], opening=False)] == [CELL]
    assert [cell.name for cell in World().pools().cells(["cell1"], opening=False)] == [CELL]
    with pytest.raises(UsageError, match="cell9"):
        World().pools().cells(["cell9"], opening=False)


def test_a_pool_that_is_to_be_filled_has_a_row() -> None:
    world = World()
    world.pools().open(CELL)
    assert world.opened == [(OperationKind.POOL_FILL, pool_subject(CELL), True)]


async def test_pools_are_drained_one_by_one_and_one_that_fails_keeps_no_other() -> None:
    world = World()
    there = [CellName("cell1"), CellName("cell2")]
    pools = world.pools()
    pools.registry.cells.list = lambda: tuple(part(name=cell) for cell in there)  # type: ignore[method-assign]
    ends: Iterator[UnavailableError | str] = iter([UnavailableError("JustAVPS is away"), "is empty"])

    async def end(_: Operation) -> str:
        ending = next(ends)
        if isinstance(ending, UnavailableError):
            raise ending
        return ending

    outcomes = await pools.drain_each([], end, reason="test")
    assert [(outcome.subject, outcome.done, outcome.problem) for outcome in outcomes] == [
        ("cell1", "", "JustAVPS is away"),
        ("cell2", "is empty", ""),
    ]
    assert world.opened == [(OperationKind.POOL_FILL, pool_subject(cell), False) for cell in there]
