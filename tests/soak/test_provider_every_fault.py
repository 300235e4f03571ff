"""Every fault of the vendor's with every call of the provider's, once and three times in a row."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
from rich.console import Console
from rich.table import Table

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
SEEN: dict[str, Counter[str]] = {}


@pytest.fixture(scope="module", autouse=True)
def _print_table() -> Iterator[None]:
    yield
    table = Table(title="never two machines or images of a name, none called gone that is there, done in six runs")
    for column in ("fault", *(call.__name__ for call in CALLS)):
        table.add_column(column)
    for kind, seen in SEEN.items():
        table.add_row(kind, *(str(seen[call.__name__]) for call in CALLS))
    Console(width=120).print(table, "the figures are the runs that were repeated")


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Account]:
    folder = tmp_path_factory.mktemp("world")
    async with pretended() as driver, serving(folder, driver) as cloud:
        key = (folder / "api.key").read_text().strip()
        async with Client(f"{cloud.where.api_url}/api/v1", key) as client:
            vendor, patience = JustAvps(client), Patience(newborn=3, broken=3)
            yield Account(cloud, Machines(lambda: vendor, patience), Images(lambda: vendor, patience), 0)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_it_ends_well_and_nothing_is_doubled(world: Account, kind: FaultKind, call: Call, times: int) -> None:
    account = Account(world.cloud, world.machines, world.images, next(NUMBERS))
    try:
        await call(account, kind, times)
    finally:
        await account.clear()
    SEEN.setdefault(kind, Counter())[call.__name__] += len(account.repeated)
