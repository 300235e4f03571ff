"""Concurrent work on many items: a failing or hanging item affects only itself. Knows nothing about the work."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import structlog

from hermesops.base.files import disk
from hermesops.base.narration import about
from hermesops.errors import HermesError, UnavailableError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of concurrency and of time.

    Slow work gives up its place after ``slow_after_s`` and continues beside the others. Otherwise a few machines that
    stall on purpose could hold all places for the whole time.

    A machine that stalls its work on purpose would hold a place for as long as it may, and a few of those all places.
    So work that is slow gives its place to the next one after a while, and goes on beside it.

    Attributes:
        slow_after_s: Seconds for which one does.
        begun_within_s: Seconds after which none begins any more, however many are left.
    """

    at_once: int
    slow_after_s: float
    within_s: float
    begun_within_s: float = inf

    def longest_s(self, count: int) -> float:
        """Seconds after which the last of so many is done or cancelled."""
        return min(max(0, count - 1) // self.at_once * self.slow_after_s, self.begun_within_s) + self.within_s


async def fan_out(items: Sequence[T], work: Callable[[T], Awaitable[R]], limits: Limits) -> list[R | HermesError]:
    """Do the work for each; total time is bounded by their number and the limits, never by the slowest.

    Args:
        items: For what; the first begin first.
        work: Does it for one. It is cancelled when its time is up.

    Returns:
        For each, in their order, what the work returned, or why it did not. A bug in the work is logged and is such a
        reason too: it may be what one of them provokes.
    """
    places, clock = asyncio.Semaphore(limits.at_once), asyncio.get_running_loop()
    last = clock.time() + limits.begun_within_s

    async def one(item: T) -> R | HermesError:
        async with held_for(places, limits.slow_after_s):
            if clock.time() > last:
                return UnavailableError(f"not begun within {limits.begun_within_s:g} s: those before it took too long")
            return await attempt(work, item, limits.within_s)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def as_they_come(
    due: Callable[[], Sequence[K]], work: Callable[[K], Awaitable[object]], limits: Limits, *, look_s: float = 1.0
) -> int:
    """Do the work for each item that is due, and for items that fall due meanwhile: no slow one keeps new ones waiting.

    Args:
        due: Names of the items that are due now, the first begin first.
        work: Does it for one. An item is worked on once at a time; one that is still due afterwards is begun again
            only while others are at work, and no sooner than ``look_s`` after its last begin.
        limits: As of ``fan_out``; after ``begun_within_s`` no item is begun.
        look_s: Seconds between two looks at what is due.

    Returns:
        The number of items that were begun.
    """
    places, clock = asyncio.Semaphore(limits.at_once), asyncio.get_running_loop()
    last, running, begun = clock.time() + limits.begun_within_s, dict[K, asyncio.Task[object]](), dict[K, float]()

    async def one(item: K) -> object:
        async with held_for(places, limits.slow_after_s):
            return await attempt(work, item, limits.within_s)

    def may_begin(item: K) -> bool:
        rests = item in begun and (not running or clock.time() - begun[item] < look_s)
        return item not in running and not rests and clock.time() <= last

    try:
        while True:
            for item in [item for item in due() if may_begin(item)]:
                running[item], begun[item] = asyncio.ensure_future(one(item)), clock.time()
            if not running:
                return len(begun)
            await asyncio.wait(running.values(), timeout=look_s, return_when=asyncio.FIRST_COMPLETED)
            for item in [item for item, task in running.items() if task.done()]:
                running.pop(item).result()  # raises where this process is to end
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


async def problems(named: Mapping[str, T], work: Callable[[T], Awaitable[object]], limits: Limits) -> dict[str, str]:
    """Do the work for each, as ``fan_out``; by name why it was not done, empty where it was.

    Narration of the work stands behind the name.
    """

    async def one(entry: tuple[str, T]) -> object:
        name, item = entry
        with about(name):
            return await work(item)

    done = await fan_out(list(named.items()), one, limits)
    messages = (outcome.message if isinstance(outcome, HermesError) else "" for outcome in done)
    return dict(zip(named, messages, strict=True))


@asynccontextmanager
async def held_for(places: asyncio.Semaphore, slow_after_s: float) -> AsyncIterator[None]:
    """Hold a place while the block lasts, and at most for so many seconds: the block goes on without one."""
    await places.acquire()
    place = ExitStack()  # which gives it up once, whoever closes it first
    place.callback(places.release)
    timer = asyncio.get_running_loop().call_later(slow_after_s, place.close)
    try:
        yield
    finally:
        timer.cancel()
        place.close()


async def attempt(work: Callable[[T], Awaitable[R]], item: T, within_s: float) -> R | HermesError:
    """Do the work for one item within its time; returns the result or the error. See ``fan_out``."""
    try:
        async with asyncio.timeout(within_s) as limit:
            return await work(item)
    except HermesError as error:
        return error
    except TimeoutError as error:
        if limit.expired():
            return UnavailableError(f"not done after {within_s:g} s, and given up", hint="the same command again")
        return _bug(error)
    except Exception as error:  # noqa: BLE001 - what one of many provokes keeps no other from being done
        return _bug(error)


def _bug(error: Exception) -> HermesError:
    if isinstance(error, OSError) and disk.is_refusal(error):
        return disk.refused_write(error)
    _log.error("fan_out_broke", exc_info=error)
    return HermesError(f"a bug: {type(error).__name__}: {error}")
