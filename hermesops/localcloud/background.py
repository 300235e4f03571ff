"""Work that goes on after the answer to whoever asked for it, until it is done or the server ends."""

import asyncio
from collections.abc import Coroutine


class Background:
    """Holds what is under way, which asyncio itself does not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Have something done from now on."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Break off what is under way, and wait until it has ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
