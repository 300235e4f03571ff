"""``hermesops worker``: runs operations and scheduled jobs until a signal stops it."""

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.errors import CHANGES_REMAIN
from hermesops.views.operations import worked

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.store.operations.worker import Tally


def worker(
    concurrency: Annotated[
        int, typer.Option(min=1, max=1000, help="Operations at once; that of the worker started last holds for all.")
    ] = 8,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that steps have to end after a signal.")] = 60,
    once: Annotated[
        bool, typer.Option("--once", help="End when every operation has ended or been tried; no jobs.")
    ] = False,
    without_jobs: Annotated[
        bool, typer.Option("--without-jobs", help="Leave scheduled jobs to other workers; see job list.")
    ] = False,
) -> int:
    """Run operations and scheduled jobs: those that --no-wait left, and those of dead runners. Logs JSON on stderr.

    Scheduled jobs run too (hermesops job list), each on one worker at a time.
    SIGTERM ends it after the steps under way; a second one cuts them short. Either is safe at any moment.
    """
    import structlog

    log = structlog.get_logger("hermesops.worker")
    container = context.compose(report=lambda line: log.info("step", words=line), logs_all=True)

    async def work(connected: "Connected") -> "Tally":
        runner = connected.make_worker(concurrency=concurrency, grace_s=grace)
        if once or without_jobs:
            _listen(runner.stop)
            return await runner.run(once=once)
        jobs = connected.jobs.scheduler(grace_s=grace)
        _listen(runner.stop, jobs.stop)
        doing = asyncio.create_task(jobs.run())
        try:
            return await runner.run()
        finally:
            if not jobs.is_stopping:  # a second stop would cut jobs short
                jobs.stop()
            await doing

    tally = context.run_connected(container, work)
    line = f"{tally.done} done, {tally.failed} failed, {len(tally.left)} left"
    result("worker", worked(tally), [line])
    return CHANGES_REMAIN if once and tally.left else 0


def _listen(*stops: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for stop_runner in stops:
            stop_runner()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
