"""One request for all concurrent callers of one read. Nothing is cached, so no answer is stale."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A read that is sent once for all callers that wait for its answer.

    Each answer is to a request that was sent after the call: calls during a request wait for the next one.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._out: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The answer, or the error, as all concurrent callers get it."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._out))
            self._next.add_done_callback(self._done)
        # Shielded: a cancelled caller does not cancel the others' request.
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """Cancel all requests in flight, and wait for their end."""
        tasks = [task for task in (self._out, self._next) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before:
            await asyncio.wait({before})
        self._out, self._next = self._next, None
        return await self._ask()

    def _done(self, task: asyncio.Task[T]) -> None:
        """Drop the answer, and retrieve an error without a waiting caller: asyncio would complain."""
        if self._out is task:
            self._out = None
        if not task.cancelled():
            task.exception()
