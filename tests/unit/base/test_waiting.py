"""Waiting for something, and what is told meanwhile."""

import asyncio
from math import inf

import pytest

from hermesops.base import waiting


@pytest.mark.parametrize(("timeout_s", "words"), [(5, "(0 of 5 s)"), (inf, "(0 s)")])
async def test_each_new_sight_is_told_once_with_the_time_there_is(timeout_s: float, words: str) -> None:
    sights = ["dark", "dark", "dawn"]
    reports: list[str] = []

    async def observe() -> int | waiting.Pending[int]:
        return waiting.Pending(sights.pop(0)) if sights else 7

    assert await waiting.until(observe, what="day", timeout_s=timeout_s, every_s=0.01, report=reports.append) == 7
    assert reports == [f"waiting for day: dark {words}", f"waiting for day: dawn {words}"]


async def test_what_was_seen_last_is_told_when_the_time_is_up() -> None:
    async def observe() -> int | waiting.Pending[int]:
        return waiting.Pending("dark")

    with pytest.raises(waiting.WaitExpiredError, match="day; last seen: dark"):
        await waiting.until(observe, what="day", timeout_s=0, every_s=0.01)


async def test_a_look_that_never_ends_does_not_outlast_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LAST_CHECK_S", 0.05)

    async def observe() -> int | waiting.Pending[int]:
        await asyncio.Event().wait()
        return 7

    with pytest.raises(waiting.WaitExpiredError, match="last seen: no answer to the last check"):
        async with asyncio.timeout(30):
            await waiting.until(observe, what="day", timeout_s=0.1, every_s=0.01)


async def test_a_look_that_runs_into_a_limit_of_its_own_says_so() -> None:
    async def observe() -> int | waiting.Pending[int]:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await waiting.until(observe, what="day", timeout_s=60, every_s=0.01)


async def test_who_is_cancelled_has_ended_whatever_it_does_about_it() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await waiting.pause(0)
            ended.append("slow")

    async def broken() -> None:
        raise ValueError

    tasks = [asyncio.ensure_future(each()) for each in (slow, broken)]
    await waiting.pause(0)
    await waiting.cancel(*tasks)
    assert ended == ["slow"]
    assert all(task.done() for task in tasks)
    await waiting.cancel()
