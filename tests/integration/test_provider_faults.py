"""Many machines at once from a vendor that answers wrongly by chance; ``make soak`` does it with hundreds."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.vendor.fake_justavps import served
from tests.support.vendor.faulty_justavps import MoodyJustAvps
from tests.support.vendor.many_machines import delete, make, names
from tests.support.vendor.plugin_process import plugin_of


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_name_has_one_machine_and_then_none(tmp_path: Path, seed: int) -> None:
    with served(MoodyJustAvps(seed=seed)) as vendor:
        async with plugin_of(vendor, tmp_path) as stub:
            tally = await make(stub, 12)
            assert Counter(machine["name"] for machine in vendor.machines.values()) == Counter(names(12))
            assert set(tally.made.values()) == set(vendor.machines)
            await delete(stub, tally)
            assert vendor.machines == {}
        assert vendor.wrong > 0
