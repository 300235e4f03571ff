"""Every fault of the vendor's with every call of the provider's, once and three times in a row."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.localcloud.faults.kinds import FaultKind
from tests.support.vendor.faults import CALLS, KINDS, Call, World, open_world

SEEN: dict[str, Counter[str]] = {}


@pytest.fixture(scope="module", autouse=True)
def _print_table() -> Iterator[None]:
    yield
    table = Table(title="never two machines or images of a name, none called gone that is there, done in six runs")
    for column in ("fault", *(call.__name__ for call in CALLS)):
        table.add_column(column)
    for kind, error in SEEN.items():
        table.add_row(kind, *(str(error[call.__name__]) for call in CALLS))
    Console(width=120).print(table, "the figures are the runs that were repeated")


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with open_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_it_ends_well_and_nothing_is_doubled(world: World, kind: FaultKind, call: Call, times: int) -> None:
    account = await world.tried(call, kind, times)
    SEEN.setdefault(kind, Counter())[call.__name__] += len(account.repeated)
