"""A thousand simulated agents' nightly backups, a day in as long as the backups take: no peak, none missed, none twice.

Everything is real but the machines and the clock: operations, leases, hermes-node's own code, keys in the object store.
"""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.app import Container
from hermesops.app.connected import Connected
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.settings.environment import Environment
from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.timeout(7200)

AGENTS = 1000
PROVISIONS_AT_ONCE = 16
SLOT = timedelta(minutes=10)
SLOTS = 144
HIGHEST = 4.0
"""Times the mean of a slot: minutes drawn at random pass that in less than one of a million nights."""


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("nights"), driver="sim") as command:
        yield command


class Tracked:
    """Counts how many run at once.

    Args:
        run: What is counted.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self.running = self.most = 0

    async def __call__(self, *words: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self._run(*words, **named)
        finally:
            self.running -= 1


async def provisioned(connected: Connected, count: int) -> None:
    room = asyncio.Semaphore(PROVISIONS_AT_ONCE)

    async def one(user: str) -> None:
        async with room:
            _, operation = await connected.admission.admit(user, Plan.LIGHT)
            await connected.operations.run(operation)

    await asyncio.gather(*(one(f"u{number:04}") for number in range(count)))


async def test_a_night_of_a_thousand(world: Command) -> None:
    app = Container(Environment.load("local", world.environ), lambda _: None)
    async with app.connect() as connected:
        began = time.monotonic()
        await provisioned(connected, AGENTS)
        made_s = time.monotonic() - began
        clock = [app.registry.now()]
        app.registry._database._clock = lambda: clock[0]
        tracked = Tracked(connected.operations.run)
        connected.operations.run = tracked  # type: ignore[method-assign] # to count
        slots: list[int] = []
        began = time.monotonic()
        for _ in range(SLOTS):
            clock[0] += SLOT
            problems = await connected.backups.nightly.run()
            assert not any(problems.values()), problems
            slots.append(len(problems))
        night_s = time.monotonic() - began
        instance_ids = Counter(backup.instance_id for backup in app.registry.backups.list())
        nearest = _nearest(app.registry.backups.list())
        loss = app.registry.backups.loss(timedelta(hours=24))
    mean = AGENTS / SLOTS
    _show(
        {
            "agents": str(AGENTS),
            "provisioned in": f"{made_s:.0f} s",
            "a day of their backups in": f"{night_s:.0f} s, {night_s / AGENTS * 1000:.0f} ms each",
            "backups in ten minutes": f"mean {mean:.1f}, most {max(slots)}, least {min(slots)}",
            "twice, and how long between": f"{sum(count > 1 for count in instance_ids.values())}, {nearest}",
            "at once": f"{tracked.most} of {app.env.settings.parallel_backups} that may be",
            "oldest at the day's end": f"{loss.oldest_s / 3600:.1f} h",
            "memory": f"{_server_mb(world.home):.0f} MB the world, {_own_mb():.0f} MB this process",
        }
    )
    assert len(instance_ids) == AGENTS
    # Who was provisioned before this day began, and had its minute before it, is backed up at its begin and its end.
    assert nearest >= timedelta(days=1) - 2 * SLOT
    assert tracked.most <= app.env.settings.parallel_backups
    assert max(slots) <= HIGHEST * mean
    assert (loss.late, loss.never) == (0, 0)


def _nearest(backups: Iterable[Backup]) -> timedelta:
    """The shortest time between two backups of one agent; a week where nobody has two."""
    times: dict[str, list[datetime]] = {}
    for backup in backups:
        times.setdefault(backup.instance_id, []).append(backup.at)
    pairs = [pair for each in times.values() for pair in pairwise(sorted(each))]
    return min((later - earlier for earlier, later in pairs), default=timedelta(days=7))


def _show(figures: dict[str, str]) -> None:
    table = Table("what", "how much", title=f"a night of {AGENTS}, {datetime.now().astimezone():%Y-%m-%d}")
    for what, how_much in figures.items():
        table.add_row(what, how_much)
    Console(width=120).print(table)


def _own_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _server_mb(home: Path) -> float:
    """The most memory that the process which serves the world ever had."""
    pid = (home / "local" / "world" / "server.lock").read_text().strip()
    [peak] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(peak.split()[1]) / 1024
