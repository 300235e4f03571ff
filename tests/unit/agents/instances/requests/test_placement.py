"""Where an instance's next machine can be."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.requests.placement import MachinePlacement, refuse_unsold
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.ids import CellName
from hermesops.model.image import Image
from hermesops.model.plan import Plan
from tests.support.fakes.instances import ADA
from tests.support.fakes.registry import FakeRegistry

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Rows(FakeRegistry):
    known: list[Cell]

    def cells_list(self) -> list[Cell]:
        return self.known

    def images_latest(self, _name: str) -> Image | None:
        return None


class Vendor:
    async def sells(self, server_type: str, region: str) -> bool:
        return (server_type, region) == ("starter", "hel1")


def vendor() -> Any:  # noqa: ANN401 - placement asks one thing of a client
    return Vendor()


def cell(name: str, region: str = "hel1", machines: int = 1) -> Cell:
    return Cell(CellName(name), region, None, machines, AT)


def machine_placement(*cells: Cell) -> MachinePlacement:
    return MachinePlacement(Rows(list(cells)), "hermes-base", cell_size=2, plans_apart=False)


def test_another_machine_in_the_same_region_may_be_in_the_same_cell() -> None:
    assert machine_placement(cell("cell1")).here(ADA) == Placement(CellName("cell1"), "hel1", None)


def test_who_moves_into_a_region_gets_another_cell() -> None:
    assert machine_placement(cell("cell1"), cell("cell2")).region("hel1", ADA).cell == "cell2"
    assert machine_placement(cell("cell1")).region("hel1", ADA).cell == "cell2"
    assert machine_placement(cell("cell1"), cell("cell2", machines=2)).region("hel1", ADA).cell == "cell3"
    assert machine_placement(cell("cell1")).region("nbg1", ADA) == Placement(CellName("cell2"), "nbg1", None)


def test_a_cell_is_found_by_its_name_or_not_at_all() -> None:
    assert machine_placement(cell("cell1", "nbg1")).cell("cell1").region == "nbg1"
    with pytest.raises(UsageError, match="no cell 'cell9'; nearest: cell1"):
        machine_placement(cell("cell1")).cell("cell9")


async def test_what_is_not_sold_and_what_was_not_built_is_refused() -> None:
    with pytest.raises(RefusedError, match="sells no basic in hel1"):
        await refuse_unsold(vendor(), "basic", "hel1")
    await refuse_unsold(vendor(), "starter", "hel1")
    with pytest.raises(RefusedError, match="no image hermes-base has been built"):
        machine_placement().image()


def test_a_plan_that_wants_cells_of_its_own_gets_one() -> None:
    apart = MachinePlacement(Rows([cell("cell1")]), "hermes-base", cell_size=2, plans_apart=True)
    assert apart.region("nbg1", ADA).only_plan is Plan.LIGHT
