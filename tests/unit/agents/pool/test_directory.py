"""Machines of warm pools by the cells that an operator names."""

from typing import Any

import pytest

from hermesops.agents.pool.directory import PoolMachines
from hermesops.errors import UsageError
from tests.support.fakes.parts import part


def machines(*cells: str) -> PoolMachines:
    def get(name: str) -> Any:  # noqa: ANN401 - stands for a cell
        if name not in cells:
            raise UsageError(f"there is no cell {name}")
        return part(name=name)

    rows = [part(cell=cell) for cell in cells]
    return PoolMachines(part(cells=part(get=get), unassigned=part(list=lambda **_: rows)))


def test_without_names_all_pools_are_meant() -> None:
    assert [machine.cell for machine in machines("cell1", "cell2").list()] == ["cell1", "cell2"]
    assert [machine.cell for machine in machines("cell1", "cell2").list(["cell2"])] == ["cell2"]


def test_a_cell_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no cell cell3"):
        machines("cell1").list(["cell3"])
