"""A local world of real machines under the platform's monitoring, and what is told of them meanwhile.

Alertmanager is asked every second, as whoever is on call would see it. The monitor's log says what it repairs itself.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hermesops.app import Container
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.errors import HermesError
from hermesops.model.fleet.alert import WATCHDOG, Alert
from hermesops.model.ids import MachineId
from hermesops.observability.telemetry.alerts.alertmanager import Alertmanager
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Channel, ToolboxChannel
from tests.support.real.commands.command import Command, local_world

USERS = ("ada", "bob", "cyd")
"""Two in one cell, the third in another."""

_TOLD_S = 15.0
"""Seconds within which an alert that fires is told of."""

SCALE = 0.3
"""Shorter, a busy computer makes well machines look silent."""

VARIABLES = {
    "HERMESOPS_MONITORING_TIME_SCALE": str(SCALE),
    "HERMESOPS_CELL_SIZE": "2",
    "HERMESOPS_DATA_GB": "light=2,heavy=4",  # a fault fills them
}

PASS_S = 15 * SCALE
PLATFORM = "hermes-local-platform"
REASON = ("--reason", "fault")

_POLL_S = 1.0
_GATEWAY = (
    "systemctl show -p MainPID --value hermes-gateway.service; cut -d ' ' -f 22 /proc/1/stat"  # since when it is up
)

About = tuple[str, str]
"""An alert's name and whom it is about: a user, a cell, or ``fleet``."""


@dataclass
class Firing:
    """An alert from its first sight to its last.

    Attributes:
        told_s: For how many seconds of that nothing muted it.
        told_at: When it was last seen with nothing that muted it; ``None`` for never.
        ended: ``None`` while it fires.
    """

    about: About
    began: float
    told_s: float = 0.0
    told_at: float | None = None
    ended: float | None = None
    figure: str = ""


@dataclass
class Record:
    """Which alerts fire, asked for again and again."""

    ask: Callable[[], Any]
    users: dict[str, str]
    """Aliases by instance id."""
    firings: list[Firing] = field(default_factory=list)
    told: frozenset[About] = frozenset()
    """Those that whoever is on call sees now."""
    problem: str = ""
    at: float = 0.0

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            try:
                alerts: tuple[Alert, ...] = await self.ask()
            except HermesError as error:
                self.problem = error.message
            else:
                self.problem = ""
                self._note(alerts, time.monotonic())
            await pause(_POLL_S)

    def _note(self, alerts: tuple[Alert, ...], now: float) -> None:
        # An alert may fire twice about the same, as page and as ticket, of which the page mutes the ticket.
        loudest_last = sorted(alerts, key=lambda alert: not alert.is_muted)
        alert_of = {(alert.name, self._whose(alert)): alert for alert in loudest_last if alert.name != WATCHDOG}
        loud = {about for about, alert in alert_of.items() if not alert.is_muted}
        open_ones = {firing.about: firing for firing in self.firings if firing.ended is None}
        for about, alert in alert_of.items():
            firing = open_ones.get(about)
            if firing is None:
                firing = Firing(about, now, figure=alert.figure)
                self.firings.append(firing)
            elif about in loud and about in self.told:
                firing.told_s += now - self.at
            firing.told_at = now if about in loud else firing.told_at
        for about, firing in open_ones.items():
            if about not in alert_of:
                firing.ended = now
        self.told, self.at = frozenset(loud), now

    def _whose(self, alert: Alert) -> str:
        return self.users.get(alert.instance) or alert.instance or alert.cell or "fleet"

    def since(self, moment: float) -> list[Firing]:
        """Those that fired after a moment, also if they began before it."""
        return [firing for firing in self.firings if firing.ended is None or firing.ended > moment]


class LoggedMonitor:
    """``hermesops monitor``, and what it has logged."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.lines: list[dict[str, Any]] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it."""
        self._process = await self._command.start("monitor", "--every", f"{PASS_S:g}")
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr
        async for line in process.stderr:
            with contextlib.suppress(ValueError):
                self.lines.append({**json.loads(line), "read_at": time.monotonic()})

    async def kill(self) -> None:
        """Kill it, as a lost host would."""
        assert self._process
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """End it as systemd would."""
        if self._process and self._process.returncode is None:
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 90)
            await self.kill()
        if self._reading:
            await self._reading

    def repairs(self, since: float) -> set[tuple[str, str]]:
        """What it began to repair after a moment: action and user."""
        return {
            (str(line["action"]), str(line.get("user", line.get("operation_id"))))
            for line in self.lines
            if line.get("event") == "repair_begins" and line["read_at"] >= since
        }


@dataclass
class WatchedFleet:
    """The world.

    Attributes:
        folder: For files of tests.
    """

    command: Command
    container: Container
    monitor: LoggedMonitor
    record: Record
    folder: Path

    async def ok(self, *words: str) -> Any:  # noqa: ANN401 - whatever the command's JSON is
        """The JSON that a command prints."""
        return (await self.command.ok(*words, "--json")).json

    async def provision(self, user: str) -> None:
        """Give another user an agent."""
        await self.command.ok("provision", user, "--plan", "light")
        self.record.users[(await self.instance(user))["instance_id"]] = user

    async def terminate(self, user: str) -> None:
        """End it, if it has not been; nothing is kept."""
        if (await self.instance(user))["status"] == "terminated":
            return
        words = ("instance", "terminate", user, "--now", "--without-backup", "--yes")
        await self.command.ok(*words, *REASON)

    async def instance(self, user: str) -> Mapping[str, Any]:
        """How ``instance show`` has it."""
        shown: Mapping[str, Any] = (await self.ok("instance", "show", user))["instance"]
        return shown

    async def on_machine(self, user: str, script: str, *, timeout_s: float = 120) -> str:
        """Run a script as root on a user's machine; what it printed."""
        async with self.channel((await self.instance(user))["machine_id"]) as channel:
            return await _run(channel, script, timeout_s)

    async def on_platform(self, script: str, *, timeout_s: float = 120) -> str:
        """The same on the platform's host."""
        [machine] = [row for row in await self.command.machines() if row["name"] == PLATFORM]
        async with self.channel(machine["id"]) as channel:
            return await _run(channel, script, timeout_s)

    @asynccontextmanager
    async def channel(self, machine_id: str) -> AsyncIterator[Channel]:
        """The toolbox of a machine."""
        async with self.container.vendor() as client:
            yield ToolboxChannel(client, MachineId(machine_id))

    async def query(self, promql: str) -> list[Any]:
        """Prometheus's vector."""
        client = self.container.monitoring_client()
        assert client
        return list(await Metrics(client).instant(promql))

    async def all_report(self) -> None:
        """Wait for the first figures of every machine, whose sender waits longer after each refusal.

        Its pauses are not scaled, so that one may look silent before the platform has heard of it at all.
        """

        async def all_there() -> bool | Pending[bool]:
            heard = await self.query("count by (machine) (hermes_platform_heartbeat_timestamp_seconds)")
            return len(heard) >= len(USERS) or Pending(f"{len(heard)} of {len(USERS)}")

        await until(all_there, what="the first figures of every machine", timeout_s=300, every_s=2)
        await pause(_TOLD_S)  # what fired meanwhile is told a little later
        await self.quiet(within_s=300)

    async def gateways(self) -> dict[str, str]:
        """Of each user, what changes when the gateway or the machine is started anew."""
        starts = {}
        for user in USERS:
            try:
                starts[user] = await self.on_machine(user, _GATEWAY, timeout_s=20)
            except (HermesError, AssertionError):
                starts[user] = "unknown"
        return starts

    async def quiet(self, whose: Collection[str] = (), *, within_s: float) -> None:
        """Wait until no alert fires, or none about those users and cells."""

        async def none() -> bool | Pending[bool]:
            if self.record.problem:
                return Pending(self.record.problem)
            loud = sorted(about for about in self.record.told if not whose or about[1] in whose)
            return Pending(str(loud)) if loud else True

        await until(none, what="all alerts to end", timeout_s=within_s, every_s=1)

    async def ended(self, alert: tuple[str, str], *, within_s: float) -> None:
        """Wait until nobody is told of that alert, by its name and whom it is about."""

        async def none() -> bool | Pending[bool]:
            return alert not in self.record.told or Pending(str(sorted(self.record.told)))

        await until(none, what=f"{alert[0]} of {alert[1]} to end", timeout_s=within_s, every_s=1)


async def _run(channel: Channel, script: str, timeout_s: float) -> str:
    ran = await channel.run(script, timeout_s=timeout_s)
    assert ran.exit_code == 0, f"{script} -> {ran.exit_code}\n{ran.text}\n{ran.stderr.decode(errors='replace')}"
    return ran.text


@asynccontextmanager
async def watched_fleet(
    home: Path, *, has_platform: bool = False, serves_users: bool = False
) -> AsyncIterator[WatchedFleet]:
    """A monitored world with an agent of each user, and a monitor.

    With a platform its host has all services, the monitor among them; else monitoring alone, and the monitor runs here.
    Where it serves users, the world's vendors are there, too, and Stripe sends its events to the platform's door.
    Without a platform the users' processes run here, with the messengers' connector.
    ``HERMESOPS_TEST_HOME`` names the home of a kept one, which is neither made nor purged: that takes minutes.
    """
    kept = os.environ.get("HERMESOPS_TEST_HOME")  # noqa: TID251 - a choice of whoever runs the tests
    opened = _kept(Path(kept)) if kept else local_world(home, variables=VARIABLES)
    async with opened as command:
        if not kept:
            if serves_users:
                await command.ok("local", "down")
                await command.ok("local", "up", "--vendors")
            if has_platform:
                await command.ok("stack", "up", "platform")
                await command.ok("platform", "connect", "--yes")
            if has_platform and serves_users:
                await command.ok("stack", "up", "platform")
            for user in USERS:  # one after the other, so that the third is in another cell
                await command.ok("provision", user, "--plan", "light")
            if not has_platform:
                await command.ok("local", "up", "--monitoring")
        container = Container(Environment.load("local", command.environ), lambda _: None)
        users = {(await _instance(command, user))["instance_id"]: user for user in USERS}
        client = container.monitoring_client()
        assert client
        ask = partial(Alertmanager(client).alerts, muted=True)
        record = Record(ask, users)
        monitor = LoggedMonitor(command)
        if not has_platform:
            await monitor.start()
        keeping = asyncio.create_task(record.keep())
        try:
            fleet = WatchedFleet(command, container, monitor, record, home)
            await fleet.all_report()
            yield fleet
        finally:
            await cancel(keeping)
            await monitor.end()


async def _instance(command: Command, user: str) -> Mapping[str, Any]:
    instance: Mapping[str, Any] = (await command.ok("instance", "show", user, "--json")).json["instance"]
    return instance


@asynccontextmanager
async def _kept(home: Path) -> AsyncIterator[Command]:
    yield Command(home, dict(VARIABLES))
