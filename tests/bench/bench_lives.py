"""What a user notices of suspend, resume, resize, move and restore, with a long life of 1 GB: how long nobody answers.

The gateway is asked through the vendor's proxy as the platform asks it, some twenty times a second; the gap is the
longest time between two good answers.
"""

import asyncio
import inspect
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from hermesops.app import Container
from hermesops.app.connected import Connected
from hermesops.base import waiting
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.instance import Instance
from hermesops.settings.environment import Environment
from tests.bench import bench_backup
from tests.bench.figures import Board, report, spread
from tests.support.real.commands.command import Command

USER = "elder"
TURNS = 3
_EVERY_S = 0.05
_HOME = "/var/lib/hermes"
_ASKED = ("--reason", "bench")
_ANSWERS = frozenset({GatewayHealth.OK, GatewayHealth.DEGRADED})

_LIFE = {"MESSAGES": 20_000, "MESSAGE_BYTES": 2_000, "FILES": 8_500, "FILE_BYTES": 100_000}
"""The agent's own database has an index of every word, which takes as much again as what was said."""

_ACTS = {
    "resize, in place": ("instance", "resize", USER, "--plan", "heavy", *_ASKED),
    "move, onto a new machine in another region": ("instance", "move", USER, "--region", "nbg1", *_ASKED),
    "backup": ("backup", "create", USER),
    "restore, in place": ("backup", "restore", USER, "--yes", *_ASKED),
    "restore, onto a new machine": ("backup", "restore", USER, "--onto-new-machine", "--yes", *_ASKED),
    "suspend": ("instance", "suspend", USER, *_ASKED),
    "resume": ("instance", "resume", USER, *_ASKED),
    "resize, onto a new machine": ("instance", "resize", USER, "--plan", "light", "--onto-new-machine", *_ASKED),
    "move, back": ("instance", "move", USER, "--region", "hel1", *_ASKED),
}
"""In this order they come back to where they began."""


@dataclass
class Watch:
    """When the gateway answered.

    Attributes:
        gaps: Seconds between good answers that were more apart than two looks.
    """

    gaps: list[float] = field(default_factory=list)
    _last: float = field(default_factory=time.monotonic)

    def saw(self, health: GatewayHealth) -> None:
        """Take in an answer."""
        now = time.monotonic()
        if health in _ANSWERS:
            self.gaps.append(now - self._last)
            self._last = now

    @property
    def longest(self) -> float:
        """The gap; a gateway that does not answer any more is in one that has not ended."""
        return max([*self.gaps, time.monotonic() - self._last])


async def measure(board: Board, command: Command) -> None:
    """Add the figures, in a world that is up and has an image."""
    lives = command.with_variables(HERMESOPS_LAST_BACKUP="required")
    await lives.ok("provision", USER, "--plan", "light")
    report("==> a long life")
    size = await _grow_old(lives)
    await lives.ok("backup", "create", USER)
    gaps, whole = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    app = Container(Environment.load("local", command.environ), lambda _: None)
    async with app.connect() as connected:
        for turn in range(TURNS):
            for name, words in _ACTS.items():
                report(f"==> {name} ({turn + 1} of {TURNS})")
                async with _watched(connected) as watch:
                    whole[name].append((await lives.ok(*words)).seconds)
                    await waiting.pause(4 * _EVERY_S)
                    gaps[name].append(watch.longest)
    for name in _ACTS:
        board.add(
            f"{name}, {size / 1e6:,.0f} MB of state, {TURNS} times",
            f"nobody answers for {spread(gaps[name], 1)}",
            against=f"whole command: {spread(whole[name], 1)}",
        )
    both = [first + other for first, other in zip(gaps["suspend"], gaps["resume"], strict=True)]
    board.add("  suspended and resumed at once", f"p50 {statistics.median(both):.1f} s", against="the two above")
    await lives.ok("instance", "terminate", USER, "--now", "--without-backup", "--yes", *_ASKED)


async def _grow_old(command: Command) -> int:
    """Give the agent, which runs, a state as ``bench_backup`` makes it; its bytes."""
    program = "\n".join(
        [
            "import base64, os, sqlite3",
            "from pathlib import Path",
            *(f"{name} = {value}" for name, value in _LIFE.items()),
            inspect.getsource(bench_backup.fill),
            f"print(fill(Path({_HOME!r})))",
        ]
    )
    ran = await command.ok(
        *("instance", "exec", USER, "--timeout", "600", "--user", "hermes", *_ASKED, "--", "python3", "-c", program)
    )
    return int(ran.stdout.strip())


@asynccontextmanager
async def _watched(connected: Connected) -> AsyncIterator[Watch]:
    watch = Watch()
    asking = asyncio.create_task(_ask(connected, watch))
    try:
        yield watch
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(connected: Connected, watch: Watch) -> None:
    registry = connected.container.registry
    while True:
        watch.saw(await _health(connected, registry.instances.find(USER)))
        await waiting.pause(_EVERY_S)


async def _health(connected: Connected, instance: Instance) -> GatewayHealth:
    machine = await connected.client.find_machine(instance.machine_name)
    if machine is None:
        return GatewayHealth.SILENT
    return await connected.agents.health(
        machine, connected.container.registry.instance_secrets.api_server_key(instance.id)
    )
