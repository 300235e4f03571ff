"""The provider against the vendor's faults, each with one call here; ``make soak`` tries each with every call."""

from collections.abc import AsyncIterator

import pytest

from hermesops.localcloud.faults.kinds import FaultKind
from tests.support.vendor.faults import CALLS, KINDS, Call, World, open_world

SAMPLE = [(kind, CALLS[(2 * index + index // len(CALLS)) % len(CALLS)]) for index, kind in enumerate(KINDS)]


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with open_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.mark.parametrize(("kind", "call"), SAMPLE, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_it_ends_well_and_nothing_is_doubled(world: World, kind: FaultKind, call: Call) -> None:
    await world.tried(call, kind, 1)
