"""Group commit: requests that arrive while a run goes on are batched into the next one, which serves them all."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

StillWanted = Callable[[], Awaitable[bool]]
"""Asked after a wait: another run, in another process too, may have done our part."""

Close = Callable[[], None]
"""Called by a run before it reads what is wanted: later requests are served by the next run."""


class CoalescedRun(Generic[T]):
    """The requests that one run serves."""

    def __init__(self) -> None:
        self._requests: list[StillWanted] = []
        self._ended = False
        self._result: T | None = None
        self._error: Exception | None = None

    def join(self, request: StillWanted) -> None:
        """Add a request."""
        self._requests.append(request)

    def leave(self, request: StillWanted) -> None:
        """Withdraw a request."""
        self._requests.remove(request)

    @property
    def has_ended(self) -> bool:
        """Whether the run was made, well or not."""
        return self._ended

    async def is_wanted(self) -> bool:
        """Whether any request still wants the run."""
        for request in tuple(self._requests):
            if await request():
                return True
        return False

    async def run_for_all(self, run: Callable[[], Awaitable[T | None]]) -> T | None:
        """Make the run and keep its result for the others. After a cancelled one, the next request makes it."""
        try:
            self._result = await run()
        except Exception as error:
            self._error, self._ended = error, True
            raise
        self._ended = True
        return self._result

    async def await_result(self, request: StillWanted) -> T | None:
        """The result for a request of a run that another request made.

        A failed run may have done our part all the same: 99 of 100 machines were made.
        """
        if self._error is None:
            return self._result
        if await request():
            raise self._error
        return None


class RunCoalescer(Generic[T]):
    """One run at a time for each key, in this process; a lease keeps other processes out.

    However many wait, one of them runs, and the others do not poll a database.
    """

    def __init__(self) -> None:
        self._turns: defaultdict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._open: dict[Hashable, CoalescedRun[T]] = {}

    async def join(
        self, key: Hashable, request: StillWanted, run: Callable[[CoalescedRun[T], Close], Awaitable[T | None]]
    ) -> T | None:
        """Be served by the next run of a key.

        Args:
            run: Makes the run for a group of requests; closes the group before it reads what is wanted.
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
