"""A real agent, watched by the real platform: it stops, an alert says so, and the alert's runbook ends both."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.real.commands.command import Command, local_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(300)]

REASON = ("--reason", "test")


@asynccontextmanager
async def monitored(world: Command) -> AsyncIterator[None]:
    """The platform's monitoring, and a monitor, until the block ends."""
    await world.ok("local", "up", "--monitoring")
    monitor = await world.start("monitor")
    try:
        yield
    finally:
        monitor.terminate()
        await asyncio.wait_for(monitor.communicate(), 90)


async def shown(what: Callable[[], Awaitable[Any]], expected: Callable[[Any], bool], *, within_s: float) -> None:
    """Wait until what a command shows is as expected."""

    async def as_expected() -> bool | Pending[bool]:
        figure = await what()
        return True if expected(figure) else Pending(str(figure))

    await until(as_expected, what="what is expected", timeout_s=within_s, every_s=3)


async def test_a_stopped_agent_makes_one_alert_whose_runbook_ends_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    quick = {"HERMESOPS_MONITORING_TIME_SCALE": "0.3"}
    async with local_world(tmp_path_factory.mktemp("watched"), variables=quick) as world:
        await world.ok("provision", "ada", "--plan", "light")

        async def condition() -> str:
            health = (await world.ok("fleet", "status", "--health", "healthy,down,silent,unknown", "--json")).json
            return str([instance["health"] for instance in health["health"]["instances"]])

        async def alerts() -> list[str]:
            return [alert["alert"] for alert in (await world.ok("alert", "list", "--json")).json["alerts"]]

        async with monitored(world):
            # Nobody asks the agent: its machine reports it, and the monitor records that.
            await shown(condition, lambda figure: figure == "['healthy']", within_s=180)
            top = (await world.ok("fleet", "top", "--json")).json
            assert top["instances"][0]["user"] == "ada"

            await world.ok("instance", "exec", "ada", *REASON, "--", "systemctl stop hermes-gateway.service")
            await shown(alerts, lambda figure: "GatewayDown" in figure, within_s=200)
            assert await condition() == "['down']"
            held = (await world.ok("alert", "list", "--json")).json["alerts"]
            assert [alert["user"] for alert in held if alert["alert"] == "GatewayDown"] == ["ada"]

            ended = (await world.ok("runbook", "run", "GatewayDown", "--instance", "ada", "--yes", "--json")).json
            assert {"restart": "done", "show-after": "done"}.items() <= {
                step["step"]: step["outcome"] for step in ended["steps"]
            }.items()
            await shown(alerts, lambda figure: "GatewayDown" not in figure, within_s=200)
            await shown(condition, lambda figure: figure == "['healthy']", within_s=120)
            logs = (await world.ok("instance", "logs", "ada", "--since", "1h", "--json")).json
            assert logs["source"] == "monitoring"
            assert any("Started hermes-gateway.service" in line for line in logs["lines"])
            happened = (await world.ok("instance", "timeline", "ada", "--json")).json
            assert "GatewayDown" in str(happened)
            assert "runbook_run" in str(happened)
