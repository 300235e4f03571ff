"""Runs an event loop's registry calls in one thread, so that disk and network do not block the loop.

One thread, because SQLite takes one writer at a time anyway, and makes several wait unfairly.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")


async def in_db_thread(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make a registry call in that thread, in the caller's context: audit entries name the caller's actor.

    A cancelled caller first waits until the call has ended.
    """
    run = partial(copy_context().run, call, *args, **options)
    future = asyncio.get_running_loop().run_in_executor(_thread, run)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        raise
