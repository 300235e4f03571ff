"""``hermesops worker``: does what operations intend, until told to stop."""

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.errors import CHANGES_REMAIN

if TYPE_CHECKING:
    from hermesops.operation.worker import Tally, Worker


def worker(
    concurrency: Annotated[
        int, typer.Option(min=1, max=1000, help="Operations at once; the worker started last says it for all.")
    ] = 8,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that steps have to end when told to stop.")] = 60,
    once: Annotated[bool, typer.Option("--once", help="End when every operation has ended or been tried.")] = False,
) -> int:
    """Bring operations to their end: those left with --no-wait, and those whose runner died. Logs JSON on stderr.

    SIGTERM ends it after the steps under way; a second one cuts them short. Either is safe at any moment.
    """
    import structlog

    log = structlog.get_logger("hermesops.worker")
    app = context.compose(tell=lambda line: log.info("step", words=line), logs_all=True)

    async def work() -> "Tally":
        from hermesops.app.worker import make_worker

        async with app.session() as session:
            made = make_worker(session, concurrency=concurrency, grace_s=grace)
            _listen(made)
            return await made.run(once=once)

    tally = context.run(work())
    result(
        "worker",
        {
            "done": tally.done,
            "failed": tally.failed,
            "left": [{"id": operation, "problem": problem} for operation, problem in tally.left.items()],
        },
        [f"{tally.done} done, {tally.failed} failed, {len(tally.left)} left"],
    )
    return CHANGES_REMAIN if once and tally.left else 0


def _listen(made: "Worker") -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, made.stop)
