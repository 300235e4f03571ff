"""Work that goes on after the answer to whoever asked for it, until it is done or the server ends."""

import asyncio
from collections.abc import Coroutine


class Background:
    """Holds what is under way, which asyncio itself does not."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Have something done from now on; no two under way have one name."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._tasks.pop(name))

    async def ended(self, name: str) -> None:
        """Wait until what is under way by that name has ended, however it does; nothing is no wait."""
        if task := self._tasks.get(name):
            await asyncio.wait({task})

    async def close(self) -> None:
        """Break off what is under way, and wait until it has ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
