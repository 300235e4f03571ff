"""The platform's real monitoring beside a simulated world, for faults of the platform itself."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from hermesops.app import Container
from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import UnavailableError
from hermesops.model.billing.model_usage import Account, Usage
from hermesops.model.billing.route import ROUTES
from hermesops.model.ids import InstanceId
from hermesops.platform.parts.tls import CERTIFICATE_LIFE
from hermesops.programs.ingest.remote_write import compress, encode_labels, encode_sample, encode_series
from hermesops.programs.model_router.accounts.books import Books, open_books
from hermesops.programs.model_router.metrics import Metrics
from hermesops.programs.model_router.server import metrics_of
from hermesops.settings.environment import Environment
from tests.support.real.commands.command import Command
from tests.support.real.monitoring import platform_host
from tests.support.real.monitoring.alertmanager import Receiver
from tests.support.real.monitoring.platform_host import PlatformHost
from tests.support.suite.prerequisites import require

SCALE = 0.05
"""Of waiting times of alerts; what is asked every 15 s is asked every second."""

_WITHIN_S = 120.0


@asynccontextmanager
async def watched(
    world: Command, life: timedelta = CERTIFICATE_LIFE, *, watchdog_url: str = ""
) -> AsyncIterator[tuple[Command, PlatformHost]]:
    """The world with monitoring, and the host of that.

    Args:
        life: Of the host's certificate.
        watchdog_url: Of the receiver outside; empty for none.
    """
    root = platform_host.programs()
    require(root, "nginx, Prometheus and Alertmanager: apt-get download")
    assert root is not None
    container = Container(Environment.load("local", world.environ), lambda _: None)
    authority = container.authority.load()
    container.registry.close()
    given = {"time_scale": SCALE, "scrape_seconds": 1, "watchdog_url": watchdog_url}
    quick = {f"{platform_host.ROLE}_{name}": value for name, value in given.items()}
    with tempfile.TemporaryDirectory() as folder:
        running = platform_host.running(Path(folder), root, variables=quick, authority=authority, life=life)
        host = await asyncio.to_thread(running.__enter__)
        try:
            yield world.with_variables(HERMESOPS_MONITORING_URL=host.url), host
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)


async def alerts_until(world: Command, expected: Callable[[set[str]], bool]) -> None:
    """Wait until the open alerts are as expected."""

    async def as_expected() -> bool | Pending[bool]:
        names = {str(alert["alert"]) for alert in (await world.ok("alert", "list", "--json")).json["alerts"]}
        return True if expected(names) else Pending(str(names))

    await until(as_expected, what="the alerts that are expected", timeout_s=_WITHIN_S, every_s=1)


@asynccontextmanager
async def monitoring(world: Command) -> AsyncIterator[asyncio.subprocess.Process]:
    """A monitor, until the block ends."""
    monitor = await world.start("monitor", "--every", "1")
    talking = asyncio.create_task(monitor.communicate())
    try:
        yield monitor
    finally:
        if monitor.returncode is None:
            monitor.terminate()
        await talking


@asynccontextmanager
async def reporting(
    host: PlatformHost, cells: Mapping[str, str], jobs: Mapping[str, float] | None = None
) -> AsyncIterator[None]:
    """Machines of instances that are well report, until the block ends.

    Args:
        cells: By the instance's id.
        jobs: How many jobs of each have ended, by outcome; may change meanwhile.
    """
    machines = [host.machine(cell=cell, instance=instance) for instance, cell in cells.items()]

    def report() -> None:
        at = time.time()
        figures = {"hermes_metrics_timestamp_seconds": at, "hermes_agent_up": 1.0, "hermes_gateway_up": 1.0}
        named: dict[tuple[tuple[bytes, bytes], ...], float] = {
            ((b"__name__", name.encode()),): value for name, value in figures.items()
        }
        for outcome, count in (jobs or {}).items():
            named[(b"__name__", b"hermes_jobs_ended"), (b"outcome", outcome.encode())] = count
        body = b"".join(
            encode_series(encode_labels(list(labels)), [encode_sample(value, int(at * 1000))])
            for labels, value in named.items()
        )
        for machine in machines:
            with machine.http(host.url) as http:
                http.post("/ingest/write", content=compress(body)).raise_for_status()

    async def keep() -> None:
        while True:
            await asyncio.to_thread(report)
            await pause(1)  # twice as often is more than one sender may

    async with asyncio.TaskGroup() as group:  # a report that is refused ends the block
        keeping = group.create_task(keep())
        yield
        keeping.cancel()


class OneLedger:
    """A registry as a router uses it, without an instance; it answers unless it has a problem."""

    def __init__(self) -> None:
        self.problem = ""

    def read(self) -> Mapping[InstanceId, Account]:
        """No accounts.

        Raises:
            UnavailableError: It has a problem.
        """
        if self.problem:
            raise UnavailableError(self.problem)
        return {}

    def write(self, batch: str, rows: Sequence[Usage]) -> None:  # noqa: ARG002 - as a ledger is called
        """Take what was used; raises as ``read``."""
        self.read()


@asynccontextmanager
async def routing(host: PlatformHost, folder: Path, ledger: OneLedger) -> AsyncIterator[tuple[Books, Metrics]]:
    """The books of a model router, whose figures Prometheus reads, until the block ends; LiteLLM is not there.

    Args:
        folder: Of its usage that is not delivered.
    """
    books = open_books(ledger, folder, every_s=0.5)
    metrics = metrics_of(books, ROUTES)
    host.figures.router = metrics.exposition
    host.has_router()
    async with books.accounts.kept():
        yield books, metrics


async def heard(outside: Receiver, *, more: int) -> None:
    """Wait until the receiver outside got so many more messages."""
    wanted = len(outside.messages) + more

    async def enough() -> bool | Pending[bool]:
        return len(outside.messages) >= wanted or Pending(f"{len(outside.messages)} of {wanted}")

    await until(enough, what="the receiver outside to hear of monitoring", timeout_s=_WITHIN_S, every_s=0.5)
