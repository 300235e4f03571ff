"""A shape is read once for all who look at it, and a failure is kept for nobody."""

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.base.waiting import pause_blocking
from hermesops.console import sources as module
from hermesops.console.sources import Sources, Topic
from hermesops.errors import UnavailableError, UsageError
from hermesops.observability.telemetry.alerts.shown_alerts import KnownAlerts


class Directory:
    """A list of operations that counts how often it was read."""

    reads = 0
    is_away = False

    def list(self) -> tuple[object, ...]:
        return ()

    def recent(self, _most: int) -> Sequence[object]:
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
    assert (await sources.snapshot(Topic("operations"))).shape["ended"] == []


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
    clock, took_s = 0.0, 0.5

    async def read(_topic: Topic) -> tuple[dict[str, Any], str, float]:
        nonlocal clock
        clock += 5.0  # with its waiting for others
        return {}, "digest", took_s

    async def counts_s(topic: Topic) -> float:
        await sources.snapshot(topic)
        return sources._kept[topic].until - clock

    sources._monotonic = lambda: clock
    monkeypatch.setattr(module, "_WATCHED_S", 60.0)
    monkeypatch.setattr(sources, "_read", read)
    topics = [Topic("operations", str(number)) for number in range(4)]
    assert [await counts_s(topic) for topic in topics] == [2, 4, 6, 6], "six seconds at most"
    clock += 120
    assert await counts_s(topics[0]) == 2, "pages that are closed count for nothing"


async def test_waiting_for_a_source_makes_no_page_older(directory: Directory, sources: Sources) -> None:
    def slow(_most: int) -> Sequence[object]:
        pause_blocking(0.6)  # a database that is busy with others
        return []

    directory.recent = slow  # type: ignore[method-assign]  # a list that is read slowly
    snapshot = await sources.snapshot(Topic("operations"))
    kept = sources._kept[Topic("operations")]
    assert kept.snapshot is snapshot
    assert kept.until - time.monotonic() < 1.0


class Monitoring:
    """Monitoring that answers once it may."""

    asked = 0

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def known(self) -> KnownAlerts:
        self.asked += 1
        await self.may_answer.wait()
        return KnownAlerts(unread=f"answer {self.asked}")


async def test_monitoring_that_hangs_delays_no_page_and_its_alerts_become_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ALERTS_WAIT_S", 0.05)
    monitoring, now = Monitoring(), 100.0
    container: Any = SimpleNamespace(monitoring=SimpleNamespace(is_known=True), alerts=lambda: monitoring)
    sources = Sources(container)
    sources._monotonic = lambda: now
    assert (await sources.alerts()).unread == "monitoring has not answered yet"
    monitoring.may_answer.set()
    assert {known.unread for known in await asyncio.gather(*(sources.alerts() for _ in range(9)))} == {"answer 1"}
    monitoring.may_answer.clear()
    now += 2.9
    assert ((await sources.alerts()).unread, monitoring.asked) == ("answer 1", 1)
    now += 0.2
    assert [(await sources.alerts()).unread for _ in range(3)] == ["answer 1"] * 3, "the last ones, while it is asked"
    assert monitoring.asked == 2
    sources._alerts = KnownAlerts()
    now += 10
    assert (await sources.alerts()).unread == "monitoring has not answered for 10 s"
    monitoring.may_answer.set()
    assert (await sources.alerts()).unread == "answer 2"
