"""``hermesops monitor``: watches heartbeats until a signal stops it, and has dead machines repaired."""

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.errors import UsageError
from hermesops.views.automation import monitor as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.automation.monitor.runner import Monitor


def monitor(
    once: Annotated[
        bool, typer.Option("--once", help="Make one pass, wait for the repairs that it begins, and show it.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only say which monitor leads; fail when none does.")] = False,
    every: Annotated[float, typer.Option(min=1, help="Seconds from one pass to the next.")] = 15,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that repairs have to end after a signal.")] = 60,
) -> None:
    """Watch heartbeats, and bring dead machines up again, within the limits of monitoring.*. Logs JSON on stderr.

    A machine that is silent is asked by toolbox and by proxy first; any answer means that monitoring is broken. Of
    several monitors one acts. SIGTERM ends it; killing it at any moment is safe.
    """
    if once and check:
        raise UsageError("--once and --check exclude each other")
    if check:
        _check()
        return
    import structlog

    log = structlog.get_logger("hermesops.monitor")
    container = context.compose(report=lambda line: log.info("step", words=line), logs_all=True)

    async def work(connected: "Connected") -> "Monitor":
        async with connected.monitor(every_s=every, grace_s=grace) as running:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, running.stop)
            await running.run(once=once)
            return running

    finished = context.run_connected(container, work)
    result("monitor", shapes.ended(finished), _lines(finished))


def _check() -> None:
    from hermesops.views.agents.fleet import MONITOR_MAY

    container = context.compose()
    lease, actions = container.monitor_lead.require(), container.env.settings.monitoring.actions
    line = f"monitor {lease.holder} acts; it {MONITOR_MAY[actions]}"
    result("monitor-check", shapes.leader(lease.holder, actions), [line])


def _lines(finished: "Monitor") -> list[str]:
    from hermesops.automation.monitor.decide import Continue

    if finished.last is None:
        leader = finished.tally.follows
        return [f"no pass was made: {f'monitor {leader} leads' if leader else 'it was stopped before'}"]
    last, verdict = finished.last, finished.last.verdict
    heartbeats = "" if last.knows_heartbeats else "; heartbeats are not known"
    lines = [f"{counted(last.expected, 'agent')} should run, suspected dead: {verdict.suspects}{heartbeats}"]
    lines += [
        f"{decision.user}: {type(decision).__name__.lower()}: {decision.why}"
        for decision in verdict.decisions
        if not isinstance(decision, Continue)
    ]
    lines += [f"{reason.value}: {why}" for reason, why in verdict.stopped.items()]
    repairs = sorted(finished.tally.repairs.items())
    return lines + [f"{action}: {count} {outcome}" for (action, outcome), count in repairs]
