"""The provider against the vendor's faults, each with one call here; ``make soak`` tries each with every call."""

from collections.abc import AsyncIterator
from itertools import count

import pytest

from hermesops.justavps import Client
from hermesops.localcloud.fault_kinds import FaultKind
from hermesops.provider.actions import Machines
from hermesops.provider.image_actions import Images
from hermesops.provider.patience import Patience
from hermesops.provider.vendor import JustAvps
from tests.support.localcloud import serving
from tests.support.pretend_driver import pretended
from tests.support.vendor_faults import CALLS, KINDS, Account, Call

NUMBERS = count(1)
SAMPLE = [(kind, CALLS[(2 * index + index // len(CALLS)) % len(CALLS)]) for index, kind in enumerate(KINDS)]


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Account]:
    folder = tmp_path_factory.mktemp("world")
    async with pretended() as driver, serving(folder, driver) as cloud:
        key = (folder / "api.key").read_text().strip()
        async with Client(f"{cloud.where.api_url}/api/v1", key) as client:
            vendor, patience = JustAvps(client), Patience(newborn=3, broken=3)
            yield Account(cloud, Machines(lambda: vendor, patience), Images(lambda: vendor, patience), 0)


@pytest.mark.parametrize(("kind", "call"), SAMPLE, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_it_ends_well_and_nothing_is_doubled(world: Account, kind: FaultKind, call: Call) -> None:
    account = Account(world.cloud, world.machines, world.images, next(NUMBERS))
    try:
        await call(account, kind, 1)
    finally:
        await account.clear()
