"""Group commit: requests that arrive while a run goes on are batched into the next one, which serves them all."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

StillWanted = Callable[[], Awaitable[bool]]
"""Asked after a wait: another run, in another process too, may have done our part."""

Close = Callable[[], None]
"""Called by a run before it reads the rows: later requests are served by the next run."""


@dataclass(eq=False)
class CoalescedRun(Generic[T]):
    """The requests that one run serves.

    Attributes:
        has_ended: Whether the run was made, well or not.
    """

    requests: list[StillWanted] = field(default_factory=list)
    has_ended: bool = False
    result: T | None = None
    error: Exception | None = None

    async def is_wanted(self) -> bool:
        """Whether any request still wants the run."""
        for request in tuple(self.requests):
            if await request():
                return True
        return False

    async def run_for_all(self, run: Callable[[], Awaitable[T | None]]) -> T | None:
        """Make the run and keep its result for the others. After a cancelled one, the next request makes it."""
        try:
            self.result = await run()
        except Exception as error:
            self.error, self.has_ended = error, True
            raise
        self.has_ended = True
        return self.result

    async def await_result(self, request: StillWanted) -> T | None:
        """The result for a request of a run that another request made.

        A failed run may have done our part all the same: 99 of 100 machines were made.
        """
        if self.error is None:
            return self.result
        if await request():
            raise self.error
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
            run: Makes the run for a group of requests; closes the group before it reads the rows.
        """
        group = self._open.setdefault(key, CoalescedRun())
        group.requests.append(request)
        try:
            async with self._turns[key]:
                if group.has_ended:
                    return await group.await_result(request)
                return await group.run_for_all(lambda: run(group, lambda: self._close(key, group)))
        finally:
            group.requests.remove(request)
            if group.has_ended:
                self._close(key, group)

    def _close(self, key: Hashable, group: CoalescedRun[T]) -> None:
        if self._open.get(key) is group:
            del self._open[key]
