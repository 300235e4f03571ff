"""A shape is read once for all who look at it, and a failure is kept for nobody."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.console import sources as module
from hermesops.console.sources import Sources, Topic
from hermesops.errors import UnavailableError, UsageError


class Directory:
    """A list of operations that counts how often it was read."""

    reads = 0
    is_away = False

    def recent(self, _most: int) -> list[object]:
        self.reads += 1
        if self.is_away:
            raise UnavailableError("away")
        return []


@pytest.fixture
def directory() -> Directory:
    return Directory()


@pytest.fixture
def sources(directory: Directory) -> Sources:
    container: Any = SimpleNamespace(operation_directory=directory)
    return Sources(container)


async def test_readers_at_once_share_one_shape(sources: Sources, directory: Directory) -> None:
    snapshots = await asyncio.gather(*(sources.snapshot(Topic("operations")) for _ in range(20)))
    assert directory.reads == 1
    assert len({id(snapshot) for snapshot in snapshots}) == 1


async def test_a_shape_is_read_again_once_it_is_old(
    sources: Sources, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fresh_s, reads in ((0.0, 2), (3600.0, 1)):
        monkeypatch.setattr(module, "_FRESH_S", fresh_s)
        monkeypatch.setattr(module, "_SHARE", 0)
        topic, before = Topic("operations", str(fresh_s)), directory.reads
        await sources.snapshot(topic)
        await sources.snapshot(topic)
        assert directory.reads - before == reads


async def test_a_failure_is_not_kept(sources: Sources, directory: Directory) -> None:
    directory.is_away = True
    with pytest.raises(UnavailableError, match="away"):
        await sources.snapshot(Topic("operations"))
    directory.is_away = False
    assert (await sources.snapshot(Topic("operations"))).shape["operations"] == []


async def test_shapes_are_bounded_however_many_addresses_are_typed(sources: Sources) -> None:
    for number in range(300):
        await sources.snapshot(Topic("operations", str(number)))
    assert len(sources._kept) == 256


async def test_an_unknown_topic_is_refused(sources: Sources) -> None:
    with pytest.raises(UsageError, match="there is no page about 'registry'"):
        await sources.snapshot(Topic("registry"))


async def test_the_more_pages_are_open_the_longer_each_shape_counts(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0

    def read(_topic: Topic) -> Any:  # noqa: ANN401 - a coroutine
        async def shape() -> dict[str, Any]:
            nonlocal clock
            clock += 1.0
            return {}

        return shape()

    sources._monotonic = lambda: clock
    monkeypatch.setattr(sources, "_read", read)
    topics = [Topic("operations", str(number)) for number in range(3)]
    for topic in topics:
        await sources.snapshot(topic)
    assert [sources._kept[topic].until - read_at for topic, read_at in zip(topics, (1, 2, 3), strict=True)] == [
        4,
        8,
        12,
    ]
    clock += 60
    await sources.snapshot(topics[0])
    assert sources._kept[topics[0]].until == clock + 4, "pages that are closed count for nothing"
