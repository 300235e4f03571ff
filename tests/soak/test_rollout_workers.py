"""A rollout left to four workers on PostgreSQL, of which one after the other is killed: it goes on, nobody twice."""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.base import waiting
from tests.support.real.commands.command import Command, local_world
from tests.support.real.stores import postgresql
from tests.support.releases.simulated import built
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.timeout(3600), pytest.mark.postgres]

USERS = 40
WORKERS = 4
KILLED_EVERY_S = (1.0, 6.0)
FIRST_S = 6.0
SEED = 20261123
TIMEOUT_S = 1800
QUICK = ("--soak", "1s", "--settle", "1s", "--vitals", "none", "--max-unavailable", "20%")


@asynccontextmanager
async def _workers(command: Command) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Workers that run; whoever kills one puts another into the list."""
    running = [await _worker(command) for _ in range(WORKERS)]
    try:
        yield running
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(process.communicate() for process in running))


async def _worker(command: Command) -> asyncio.subprocess.Process:
    return await command.start("worker", "--without-jobs", "--quiet")


async def _status(command: Command) -> dict[str, Any]:
    rollout_status: dict[str, Any] = (await command.ok("rollout", "status", "--json")).json
    return rollout_status


async def _killed_until_done(command: Command, workers: list[asyncio.subprocess.Process]) -> tuple[int, list[float]]:
    """Kill workers at random until the rollout has ended; how many, and the seconds until one went on each time."""
    chance, killed, gaps = random.Random(SEED), 0, list[float]()  # noqa: S311 - no secret
    began, count, since, died = time.monotonic(), -1, 0.0, 0.0
    next_kill = FIRST_S
    while True:
        status = await _status(command)
        if status["rollout"]["state"] not in {"pending", "running"}:
            return killed, gaps
        now = time.monotonic() - began
        assert now < TIMEOUT_S, status["rollout"]
        events = status["progress"]["reached"] + sum(1 for target in status["targets"] if target["touched_at"])
        if events != count:
            count, since = events, now
            if died:
                gaps.append(since - died)
                died = 0.0
        if now >= next_kill:
            place = chance.randrange(WORKERS)
            workers[place].kill()
            await workers[place].communicate()
            workers[place] = await _worker(command)
            killed, died, next_kill = killed + 1, now, now + chance.uniform(*KILLED_EVERY_S)
        await waiting.pause(0.2)


async def test_a_rollout_ends_well_whichever_of_four_workers_is_killed(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as database:
        registry = {"HERMESOPS_REGISTRY_URL": database.new_database()}
        async with local_world(tmp_path, image=False, driver="sim", variables=registry) as command:
            await command.ok("registry", "migrate")
            await command.ok("image", "build")
            wishes = tmp_path / "users.csv"
            wishes.write_text("user,plan,region\n" + "".join(f"user-{number},light,\n" for number in range(USERS)))
            await command.ok("provision", "--from", str(wishes))
            release = await built(command, "good")
            await command.ok("rollout", "start", release, "--all", "--detach", *QUICK)
            began = time.monotonic()
            async with _workers(command) as workers:
                killed, gaps = await _killed_until_done(command, workers)
            seconds = time.monotonic() - began
            status = await _status(command)
            counts = [
                len((await command.ok("backup", "list", f"user-{number}", "--json")).json["backups"])
                for number in range(USERS)
            ]
            _show(
                killed, status["progress"]["reached"], sum(count > 1 for count in counts), max(gaps, default=0), seconds
            )
            assert status["rollout"]["state"] == "done", status["rollout"]
            assert {target["state"] for target in status["targets"]} == {"healthy"}
            # Each activation begins with a backup.
            assert counts == [1] * USERS
            assert killed >= WORKERS


def _show(*figures: object) -> None:
    columns = ("workers killed", f"of {USERS} reached", "brought twice", "longest until it went on, s", "seconds")
    table = Table(*columns, title="A rollout on four workers")
    table.add_row(*(f"{figure:.1f}" if isinstance(figure, float) else str(figure) for figure in figures))
    Console(width=120).print(table)
