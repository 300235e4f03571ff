"""The only module that sleeps: wait for a condition, with a deadline and the last thing seen; or for work with an end.

It must not decide what to wait for; callers say it in ``what`` and it is repeated to the operator.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from math import isinf
from typing import Any, Generic, TypeVar

from hermesops.errors import UnavailableError

T = TypeVar("T")
R = TypeVar("R")

_LAST_CHECK_S = 5.0
"""Seconds that a check may take which begins when hardly any time is left."""


class Pending(Generic[T]):
    """A check's result while the condition does not hold yet.

    Args:
        observed: What was observed instead, for the operator and for the error.
    """

    def __init__(self, observed: str) -> None:
        self.observed = observed


class WaitExpiredError(UnavailableError):
    """The condition did not come true in time; carries the last observation."""

    def __init__(self, what: str, timeout_s: float, observed: str) -> None:
        super().__init__(f"waited {timeout_s:g} s for {what}; last seen: {observed}")
        self.what = what
        self.observed = observed


async def until(
    check: Callable[[], Awaitable[T | Pending[T]]],
    *,
    what: str,
    timeout_s: float,
    every_s: float = 0.2,
    report: Callable[[str], None] | None = None,
) -> T:
    """Repeat ``check`` until it answers something that is not ``Pending``.

    The check runs at least once and a last time at the deadline. Its own exceptions pass through. One that is still at
    it when the time is up, or within five seconds of its begin where that is later, is cancelled: what it looks at may
    never answer.

    Args:
        check: Looks at the world; returns the result or ``Pending(what was seen)``.
        what: What is waited for, as it should read after "waiting for".
        timeout_s: Seconds until it gives up; infinite for never.
        every_s: Seconds between the end of one check and the start of the next.
        report: Called with a line of narration each time the observation changes.

    Raises:
        WaitExpiredError: The deadline passed.
    """
    started = time.monotonic()
    reported, limit = "", "" if isinf(timeout_s) else f" of {timeout_s:g}"
    while True:
        result = await _bounded(check, timeout_s - (time.monotonic() - started))
        if not isinstance(result, Pending):
            return result
        waited = time.monotonic() - started
        if report and result.observed != reported:
            reported = result.observed
            report(f"waiting for {what}: {reported} ({waited:.0f}{limit} s)")
        if waited >= timeout_s:
            raise WaitExpiredError(what, timeout_s, result.observed)
        await asyncio.sleep(min(every_s, max(0.0, timeout_s - waited)))


async def _bounded(check: Callable[[], Awaitable[T | Pending[T]]], left_s: float) -> T | Pending[T]:
    if isinf(left_s):
        return await check()
    try:
        async with asyncio.timeout(max(left_s, _LAST_CHECK_S)) as limit:
            return await check()
    except TimeoutError:
        if not limit.expired():
            raise
    return Pending("no answer to the last check")


async def pause(seconds: float) -> None:
    """Let time pass, in the rare place where there is nothing to look at (backoff, pacing)."""
    await asyncio.sleep(seconds)


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until each has ended, however it does; harmless for one that has ended already."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def both(first: Awaitable[T], second: Awaitable[R]) -> tuple[T, R]:
    """Do two things at once; where one fails, the other is cancelled, has ended, and the failure is raised."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancel(*tasks)


async def finish(tasks: Collection[asyncio.Future[Any]], within_s: float) -> None:
    """Wait until tasks have ended, and cancel those that take longer."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=within_s)
        await cancel(*late)


def pause_blocking(seconds: float) -> None:
    """Let time pass in code that is not asynchronous."""
    time.sleep(seconds)
