"""Hundreds of machines at once, from a vendor that answers wrongly by chance, for many seeds."""

from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.vendor.fake_justavps import served
from tests.support.vendor.faulty_justavps import MoodyJustAvps
from tests.support.vendor.many_machines import delete, make, names
from tests.support.vendor.plugin_process import plugin_of

MACHINES, SEEDS = 200, range(10)


@pytest.fixture(scope="module")
def table() -> Table:
    return Table(
        "seed", "machines", "wrong answers", "calls repeated", title="never two machines of a name, never an orphan"
    )


@pytest.fixture(scope="module", autouse=True)
def _print_table(table: Table) -> object:
    yield
    Console().print(table)


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_name_has_one_machine_and_then_none(tmp_path: Path, seed: int, table: Table) -> None:
    with served(MoodyJustAvps(seed=seed)) as vendor:
        async with plugin_of(vendor, tmp_path) as stub:
            tally = await make(stub, MACHINES)
            assert Counter(machine["name"] for machine in vendor.machines.values()) == Counter(names(MACHINES))
            assert set(tally.made.values()) == set(vendor.machines)
            await delete(stub, tally)
            assert vendor.machines == {}
        table.add_row(str(seed), str(MACHINES), str(vendor.wrong), str(tally.repeated.total()))
