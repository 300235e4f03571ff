"""A shape is read once for all who look at it, and a failure is kept for nobody."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.console import sources as module
from hermesops.console.sources import Sources, Topic
from hermesops.errors import UnavailableError, UsageError


class Counted(Sources):
    """Sources whose list of operations counts how often it was read."""

    reads = 0
    is_away = False

    async def _operations(self, name: str) -> Mapping[str, Any]:
        self.reads += 1
        await asyncio.sleep(0)  # noqa: TID251 - lets the other readers come
        if self.is_away:
            raise UnavailableError("away")
        return {"operations": [], "name": name}


@pytest.fixture
def sources() -> Counted:
    container: Any = SimpleNamespace()
    return Counted(container)


async def test_readers_at_once_share_one_shape(sources: Counted) -> None:
    snapshots = await asyncio.gather(*(sources.snapshot(Topic("operations")) for _ in range(20)))
    assert sources.reads == 1
    assert len({id(snapshot) for snapshot in snapshots}) == 1


async def test_a_shape_is_read_again_once_it_is_old(sources: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    for fresh_s, reads in ((0.0, 2), (3600.0, 1)):
        monkeypatch.setattr(module, "_FRESH_S", fresh_s)
        monkeypatch.setattr(module, "_SHARE", 0)
        topic, before = Topic("operations", str(fresh_s)), sources.reads
        await sources.snapshot(topic)
        await sources.snapshot(topic)
        assert sources.reads - before == reads


async def test_a_failure_is_not_kept(sources: Counted) -> None:
    sources.is_away = True
    with pytest.raises(UnavailableError, match="away"):
        await sources.snapshot(Topic("operations"))
    sources.is_away = False
    assert (await sources.snapshot(Topic("operations"))).shape["operations"] == []


async def test_shapes_are_bounded_however_many_addresses_are_typed(sources: Counted) -> None:
    for number in range(200):
        await sources.snapshot(Topic("operations", str(number)))
    assert len(sources._kept) == 64


async def test_an_unknown_topic_is_refused(sources: Counted) -> None:
    with pytest.raises(UsageError, match="there is no page about 'registry'"):
        await sources.snapshot(Topic("registry"))
