"""Work of the server that outlives the request it came with: tasks and child processes."""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

_STOP_S = 5.0


class Background:
    """Tasks by name, held here because asyncio does not hold them."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Start a task; no two that run have the same name."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._tasks.pop(name))

    async def ended(self, name: str) -> None:
        """Wait until the task of that name has ended, however it ends; returns at once when there is none."""
        if task := self._tasks.get(name):
            await asyncio.wait({task})

    async def close(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_child(command: Sequence[str], *, env: Mapping[str, str], **options: Any) -> int:  # noqa: ANN401 - asyncio's own
    """Run a program to its end; when cancelled, end the program first. The kernel ends it if this process dies.

    Returns:
        Its exit code.
    """
    child = await asyncio.create_subprocess_exec(
        "setpriv", "--pdeathsig=TERM", *command, cwd="/", stdin=asyncio.subprocess.DEVNULL, env=env, **options
    )
    try:
        return await child.wait()
    finally:
        await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await child.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
