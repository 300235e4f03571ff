"""Into a stack goes a machine only as the one that a row of the cell orders; all else is refused, and says why."""

from dataclasses import replace
from typing import Any

import pytest

from hermesops.agents.cells.stack.state_repair import parse_imports, refuse_unfit
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.cell import CellMachine
from hermesops.model.ids import CellName, MachineId
from tests.support.fleets.in_memory import machine_for, ordered
from tests.support.suite.cases import each_case

CELL = CellName("cell1")
NAME = "hermes-local-cell1-aaaaaaaaaaaa"
ID = "7f0c1f7e-0a44-4a51-9a2d-3f6d4f0f9d11"
ROW = ordered(0)
WANTED = CellMachine(ROW.instance.machine_name, ROW.server_type, ROW.region, ROW.image_id, ROW.instance.id)


def test_names_and_ids_are_typed_as_pairs() -> None:
    assert parse_imports([f"{NAME}={ID}"], "local") == {NAME: ID}


@each_case("texts", [[NAME], [f"{NAME}="], [f"{NAME}=m-1"], [ID], [f"{NAME}={ID}"] * 2])
def test_what_is_no_pair_or_named_twice_is_misuse(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="NAME=ID"):
        parse_imports(texts, "local")


@pytest.mark.parametrize("name", ["web-1", "hermes-production-cell1-aaaaaaaaaaaa", ""])
def test_a_name_of_another_scheme_or_environment_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="environment local"):
        parse_imports([f"{name}={ID}"], "local")


def test_the_machine_that_a_row_orders_may_go_in() -> None:
    refuse_unfit(CELL, WANTED, ROW, machine_for(ROW))
    unknown = replace(ROW, instance=replace(ROW.instance, machine_id=None))
    refuse_unfit(CELL, WANTED, unknown, machine_for(ROW))


def test_a_machine_that_no_row_of_the_cell_orders_is_for_adoption() -> None:
    with pytest.raises(RefusedError, match="no row of cell1 orders") as refused:
        refuse_unfit(CELL, None, None, machine_for(ROW))
    assert str(refused.value.hint)
    assert f"hermesops fleet repair adopt {ROW.instance.machine_name}" in str(refused.value.hint)


@each_case(
    ("differs", "message"),
    [
        ({"name": "hermes-local-cell1-bbbbbbbbbbbb"}, "has the name"),
        ({"id": "m-twin"}, "is on machine m-0, not m-twin"),
        ({"server_type": "pro"}, "has server type pro, its row orders starter"),
        ({"region": "nbg1"}, "has region nbg1"),
        ({"image_id": "image-2"}, "has image image-2"),
    ],
)
def test_another_machine_or_one_that_an_import_would_change_is_refused(differs: dict[str, Any], message: str) -> None:
    row = replace(ROW, instance=replace(ROW.instance, machine_id=MachineId("m-0")))
    with pytest.raises(RefusedError, match=message):
        refuse_unfit(CELL, WANTED, row, machine_for(row, **differs))
