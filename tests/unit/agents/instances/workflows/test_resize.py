"""A plan is changed in place with nothing lost, and where the vendor refuses the agent stays as before."""

from collections.abc import Awaitable, Callable

import pytest

from hermesops.agents.instances.workflows.resize import Resize
from hermesops.errors import PartlyDoneError, RefusedError, UnavailableError
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan
from hermesops.store.operations.kinds.agents import PlanSize
from tests.support.crash.workflow_walk import walk
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import MEMORY, SIZES, SmallCells, SmallWorld

LIGHT, HEAVY = PlanSize(Plan.LIGHT, SIZES[Plan.LIGHT]), PlanSize(Plan.HEAVY, SIZES[Plan.HEAVY])


def resize(world: SmallWorld, cells: SmallCells | None = None) -> Resize:
    return Resize(
        world.instance.id,
        why="before resize 1",
        before=LIGHT,
        size=HEAVY,
        data_gb={Plan.LIGHT: 40, Plan.HEAVY: 80},
        registry=world,
        client=world.client,
        backups=world,
        cells=cells or SmallCells(world),
    )


async def test_a_resize_rests_copies_resizes_and_wakes() -> None:
    world = SmallWorld.lively()
    assert await walk(lambda: resize(world)) == [
        "Fence",
        "BackUp",
        "ChangePlan",
        "ApplyCell",
        "Release",
        "Personalise",
        "ada has plan heavy on a basic, with 7 messages",
    ]
    assert world.here().server_type == "basic"
    assert world.here().wanted_gb == 80


@each_case("after", [False, True])
@each_case("killed_at", range(6))
async def test_killed_at_any_step_the_same_command_finishes_it(killed_at: int, *, after: bool) -> None:
    world = SmallWorld.lively()
    assert (await walk(lambda: resize(world), killed_at=killed_at, after=after))[-1].startswith("ada has plan heavy")
    assert world.here().runs
    assert world.here().state == MEMORY
    assert len(world.kept_backups) == 1


async def test_where_the_vendor_cannot_the_agent_lives_on_as_it_was() -> None:
    world = SmallWorld.lively()
    world.cannot_resize = True
    steps = await walk(lambda: resize(world))
    assert steps[-1] == "RefusedError: this API cannot resize"
    assert world.instance.plan is Plan.LIGHT
    assert world.here().wanted_gb == 40
    assert world.here().runs
    assert world.here().digest == world.payload_digest(world.instance)


class CellOfSeveral(SmallCells):
    """A cell whose next run makes another user's machine, too: then a refusal is part of what was partly done."""

    def __init__(self, world: SmallWorld) -> None:
        super().__init__(world)
        self._is_another_made = False

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> None:
        try:
            await super().apply(cell, still_wanted=still_wanted)
        except RefusedError as refusal:
            if self._is_another_made:
                raise
            self._is_another_made = True
            raise PartlyDoneError(f"{refusal.message}; done before: another (create)") from refusal


async def test_a_refusal_beside_another_users_new_machine_is_one_all_the_same() -> None:
    world = SmallWorld.lively()
    world.cannot_resize = True
    cells = CellOfSeveral(world)
    steps = await walk(lambda: resize(world, cells))
    assert steps[-1] == "RefusedError: this API cannot resize"
    assert world.instance.plan is Plan.LIGHT
    assert world.here().runs


async def test_while_no_copy_comes_about_the_agent_lives_as_it_was() -> None:
    world = SmallWorld.lively()
    world.store_goes = True
    with pytest.raises(UnavailableError, match="object store does not answer"):
        await walk(lambda: resize(world))
    assert (world.here().runs, world.instance.plan) == (True, Plan.LIGHT)
    world.store_goes = False
    assert (await walk(lambda: resize(world)))[-1].startswith("ada has plan heavy")
