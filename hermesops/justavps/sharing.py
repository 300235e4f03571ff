"""One answer for all who ask the same at the same time. It holds nothing back from earlier, so it is never stale."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A question that is asked once for everybody who waits for its answer.

    What anybody is told was asked after they came: who comes while the question is out waits for the next one.

    Args:
        ask: The question; changes nothing.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._out: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The answer, or the error, that all who came meanwhile get too."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._out))
            self._next.add_done_callback(self._heard)
        # Shielded: who gives up waiting does not take the answer from the others.
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """Ask no more."""
        asked = [task for task in (self._out, self._next) if task]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before:
            await asyncio.wait({before})
        self._out, self._next = self._next, None
        return await self._ask()

    def _heard(self, task: asyncio.Task[T]) -> None:
        """Keep no answer, and take note of an error that everybody stopped waiting for: asyncio would complain."""
        if self._out is task:
            self._out = None
        if not task.cancelled():
            task.exception()
