"""Runs a Pulumi program on the SDK, in a thread and a context of its own.

The SDK keeps its settings in context variables, so any number of stacks can run in one process at once; nothing
of the process's environment is changed for it.
"""

import asyncio
import contextlib
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

from hermesops.engine.embedded.protocol.monitor import EngineLog, Monitor
from hermesops.engine.interface import Program, StackConfig
from hermesops.model.stack import StackRef

THREADS_PER_OPERATION = 4
"""The SDK blocks a thread per registration under way; the CLI's own host has this factor too."""


def start_program(
    program: Program,
    *,
    ref: StackRef,
    monitor: Monitor,
    engine: EngineLog,
    parallel: int,
    dry: bool,
    config: StackConfig,
) -> "asyncio.Future[None]":
    """Start a program; the future ends with it, and with what it raised."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    ended.add_done_callback(asyncio.Future.exception)  # a cancelled run does not ask what the program raised

    def settle(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def host() -> None:
        error: BaseException | None = None
        try:
            _configure(ref, monitor, engine, parallel, dry=dry, config=config)
            _drive(program, parallel)
        except BaseException as raised:  # noqa: BLE001  the edge of a thread: whatever it was belongs to the caller
            error = raised if isinstance(raised, Exception) else RuntimeError(f"the program ended with {raised!r}")
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever wanted to know
            loop.call_soon_threadsafe(settle, error)

    context = contextvars.Context()
    threading.Thread(target=context.run, args=(host,), name=f"pulumi-{ref.stack}", daemon=True).start()
    return ended


def _configure(
    ref: StackRef, monitor: Monitor, engine: EngineLog, parallel: int, *, dry: bool, config: StackConfig
) -> None:
    from pulumi.runtime import settings  # noqa: PLC0415  loads the SDK
    from pulumi.runtime.config import set_all_config  # noqa: PLC0415  loads the SDK

    settings.ROOT.set(None)
    settings.configure(
        settings.Settings(
            project=ref.project,
            stack=ref.stack,
            monitor=monitor,
            engine=engine,
            parallel=parallel,
            dry_run=dry,
            organization="organization",
            legacy_apply_enabled=False,
        )
    )
    set_all_config(dict(config.values), list(config.secret))


def _drive(program: Program, parallel: int) -> None:
    from pulumi.runtime.stack import run_in_stack  # noqa: PLC0415  loads the SDK

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # what matters is raised by run_in_stack
    threads = ThreadPoolExecutor(max_workers=parallel * THREADS_PER_OPERATION)
    loop.set_default_executor(threads)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(run_in_stack(program))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))  # noqa: TID251  lets cancelled tasks end; waits for nothing
        threads.shutdown(wait=False, cancel_futures=True)
        loop.close()
