"""A child process of the world's server: the kernel ends it with us, however we end, and we end it with the task."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

_STOP_S = 5.0


async def run_child(command: Sequence[str], *, env: Mapping[str, str], **options: Any) -> int:  # noqa: ANN401 - asyncio's own
    """Run a program to its end; cancelled, end it first.

    Args:
        command: The program and its arguments.
        env: All of its environment.
        options: Further ones, as ``asyncio.create_subprocess_exec`` takes them.

    Returns:
        What it ended with.
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
