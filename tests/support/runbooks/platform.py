"""The platform's real monitoring beside a simulated world, for faults of the platform itself."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from hermesops.app import Container
from hermesops.app.services.host_certificates import CERTIFICATE_LIFE
from hermesops.settings import Environment
from hermesops.waiting import Pending, until
from tests.support.real import platform_host
from tests.support.real.command import Command
from tests.support.real.platform_host import PlatformHost
from tests.support.suite.prerequisites import require

SCALE = 0.05
"""Of waiting times of alerts; what is asked every 15 s is asked every second."""

_WITHIN_S = 120.0


@asynccontextmanager
async def watched(world: Command, life: timedelta = CERTIFICATE_LIFE) -> AsyncIterator[tuple[Command, PlatformHost]]:
    """The world with monitoring, and the host of that.

    Args:
        life: Of the host's certificate.
    """
    root = platform_host.programs()
    require(root, "nginx, Prometheus and Alertmanager: apt-get download")
    assert root is not None
    container = Container(Environment.load("local", world.environ), lambda _: None)
    authority = container.authority.load()
    container.registry.close()
    quick = {f"{platform_host.ROLE}_time_scale": SCALE, f"{platform_host.ROLE}_scrape_seconds": 1}
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
        names = {str(one["alert"]) for one in (await world.ok("alert", "list", "--json")).json["alerts"]}
        return True if expected(names) else Pending(str(names))

    await until(as_expected, what="the alerts that are expected", timeout_s=_WITHIN_S, every_s=1)
