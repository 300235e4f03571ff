"""Computers that place instances at the same time overfill no cell, on SQLite and on PostgreSQL."""

import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from hermesops.agents.cells.scheduling import choose_cell
from hermesops.errors import UnavailableError
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import registry_at

REGIONS = ("hel1", "nbg1")


def place(
    registry: Registry, alias: str, plan: Plan = Plan.LIGHT, region: str = "hel1", *, size: int, apart: bool = False
) -> Instance:
    return registry.placements.place(
        registry.users.resolve(alias, create=True),
        plan=plan,
        server_type="starter",
        image_id=None,
        choose=partial(choose_cell, plan=plan, region=region, size=size, plans_apart=apart),
    )


def test_an_instance_is_placed_once(registry_url: str) -> None:
    registry = registry_at(registry_url)
    first = place(registry, "ada", size=1)
    assert place(registry, "ada", Plan.HEAVY, "nbg1", size=1) == first
    assert [(cell.name, cell.machines) for cell in registry.cells.list() if cell.machines] == [("cell1", 1)]
    assert [entry.action for entry in registry.audit.list(subject="cell/cell1")] == ["cell_opened"]
    registry.close()


def test_what_leaves_still_takes_its_place_until_it_is_gone(registry_url: str) -> None:
    registry = registry_at(registry_url)
    ada = place(registry, "ada", size=1)
    registry.instances.mark_for_deletion(ada.id, why="terminate")
    assert place(registry, "bob", size=1).cell == "cell2"
    registry.terminations.terminate(ada.id)
    assert place(registry, "eve", size=1).cell == "cell1"
    registry.close()


@pytest.mark.turns(6)
@pytest.mark.parametrize(("seed", "size"), [(1, 1), (2, 3), (3, 5)])
def test_computers_that_place_at_once_overfill_no_cell(registry_url: str, seed: int, size: int) -> None:
    """Each computer has its own registry; some users come twice, and some leave in between."""
    dice = random.Random(seed)  # noqa: S311 - a test's, and repeatable
    requests = [(f"u{dice.randrange(26)}", dice.choice(list(Plan)), dice.choice(REGIONS)) for _ in range(32)]
    computers = [registry_at(registry_url) for _ in range(4)]
    start = Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for alias, plan, region in requests[number::4]:
            instance = place(computers[number], alias, plan, region, size=size, apart=seed % 2 == 0)
            if int(alias[1:]) % 5 == 0:
                computers[number].terminations.terminate(instance.id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    living = computers[0].instances.list()
    held = Counter(instance.cell for instance in living)
    cells = {cell.name: cell for cell in computers[0].cells.list()}
    assert {name: cell.machines for name, cell in cells.items() if cell.machines} == held
    assert max(held.values()) <= size
    assert len({instance.user_id for instance in living}) == len(living)
    assert all(cells[instance.cell].only_plan in {None, instance.plan} for instance in living)
    for computer in computers:
        computer.close()


def test_many_at_once_fill_one_cell_after_the_other(registry_url: str) -> None:
    computers = [registry_at(registry_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: place(computers[n % 4], f"u{n}", size=10), range(25)))
    assert [cell.machines for cell in computers[0].cells.list()] == [10, 10, 5]
    for computer in computers:
        computer.close()


def test_a_cell_that_another_filled_after_the_choice_is_not_taken(registry_url: str) -> None:
    """The choice is made on what was seen; what is then under the lock decides."""
    registry, other = registry_at(registry_url), registry_at(registry_url)
    place(other, "ada", size=2)
    placements: list[tuple[int, ...]] = []

    def choose(cells: Sequence[Cell]) -> Placement:
        placements.append(tuple(cell.machines for cell in cells))
        chosen = choose_cell(cells, plan=Plan.LIGHT, region="hel1", size=2, plans_apart=False)
        if len(placements) == 1:
            place(other, "bob", size=2)
        return chosen

    user = registry.users.resolve("eve", create=True)
    instance = registry.placements.place(user, plan=Plan.LIGHT, server_type="starter", image_id=None, choose=choose)
    assert instance.cell == "cell2"
    assert placements == [(1,), (2,), (2,), (0,)]
    registry.close()
    other.close()


def test_a_choice_that_never_holds_ends_with_nothing_written(registry_url: str) -> None:
    registry = registry_at(registry_url)
    place(registry, "ada", size=1)

    calls: list[int] = []

    def never(cells: Sequence[Cell]) -> Placement:
        calls.append(len(cells))
        return Placement(CellName("cell1"), "hel1", Plan.LIGHT if len(calls) % 2 else None)

    user = registry.users.resolve("eve", create=True)
    with pytest.raises(UnavailableError, match="others took it"):
        registry.placements.place(user, plan=Plan.LIGHT, server_type="starter", image_id=None, choose=never)
    assert registry.instances.of_user(user.id) is None
    registry.close()
