"""Hundreds of machines, killed, refused, half made and drifted, are brought back to what was wanted, twice alike."""

from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.fleets.large_fleet import Scale, Told, trial
from tests.support.real.commands.command import local_world

pytestmark = pytest.mark.timeout(7200)

SCALE = Scale(machines=240, per_cell=30, kills=4, times=3)
SEED = 20260102


async def test_hundreds_of_machines_come_back_twice_the_same_way(tmp_path: Path) -> None:
    ends: list[Told] = []
    try:
        for run in ("one", "two"):
            async with local_world(tmp_path / run, driver="sim") as world:
                ends.append(await trial(world.with_variables(HERMESOPS_CELL_SIZE=str(SCALE.per_cell)), SCALE, SEED))
    finally:
        _show(ends)
    first, two = ends
    assert first.decisions == two.decisions
    assert first.final == two.final


def _show(ends: list[Told]) -> None:
    table = Table("", *(f"run {number + 1}" for number in range(len(ends))), title=f"seed {SEED}")
    for name in ends[0].figures if ends else ():
        table.add_row(name, *(end.figures[name] for end in ends))
    Console(width=150).print(table)
