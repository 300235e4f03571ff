"""Wishes that come while one run is under way are gathered into the next, which serves them all."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

StillWanted = Callable[[], Awaitable[bool]]
"""Asked after a wait: whoever ran meanwhile, in another process too, may have done our part."""

Close = Callable[[], None]
"""Called by a run when it is about to read what is wanted: who comes later is served by the next one."""


class CoalescedRun(Generic[T]):
    """The requests that one run serves."""

    def __init__(self) -> None:
        self._requests: list[StillWanted] = []
        self._ended = False
        self._result: T | None = None
        self._error: Exception | None = None

    def join(self, request: StillWanted) -> None:
        """Be served with the others."""
        self._requests.append(request)

    def leave(self, request: StillWanted) -> None:
        """Want nothing any more."""
        self._requests.remove(request)

    @property
    def has_ended(self) -> bool:
        """Whether the run was made, well or not."""
        return self._ended

    async def is_wanted(self) -> bool:
        """Whether anybody in it still wants the run; asks until the first who does."""
        for request in tuple(self._requests):
            if await request():
                return True
        return False

    async def run_for_all(self, run: Callable[[], Awaitable[T | None]]) -> T | None:
        """Make the run and keep its end for the others. One that is cancelled is led again by the next of them."""
        try:
            self._result = await run()
        except Exception as error:
            self._error, self._ended = error, True
            raise
        self._ended = True
        return self._result

    async def await_result(self, request: StillWanted) -> T | None:
        """What the run that somebody else led brought for this request.

        A run that failed may have done our part all the same: 99 of 100 machines were made.
        """
        if self._error is None:
            return self._result
        if await request():
            raise self._error
        return None


class RunCoalescer(Generic[T]):
    """One run at a time for each key, in this process; a lease keeps other processes out.

    However many wait, one of them runs and nobody looks into a database meanwhile.
    """

    def __init__(self) -> None:
        self._turns: defaultdict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._open: dict[Hashable, CoalescedRun[T]] = {}

    async def join(
        self, key: Hashable, request: StillWanted, run: Callable[[CoalescedRun[T], Close], Awaitable[T | None]]
    ) -> T | None:
        """Be served by the next run of a key that begins.

        Args:
            key: What is run.
            request: Whether it is still wanted.
            run: Makes the run for a group. It closes the group before it reads what is wanted.
        """
        group = self._open.setdefault(key, CoalescedRun())
        group.join(request)
        try:
            async with self._turns[key]:
                if group.has_ended:
                    return await group.await_result(request)
                return await group.run_for_all(lambda: run(group, lambda: self._close(key, group)))
        finally:
            group.leave(request)
            if group.has_ended:
                self._close(key, group)

    def _close(self, key: Hashable, group: CoalescedRun[T]) -> None:
        if self._open.get(key) is group:
            del self._open[key]
