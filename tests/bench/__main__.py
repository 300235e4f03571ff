"""``python -m tests.bench [KIND ...]``: one table, and nothing left; without a kind, all of them.

No figure is judged here: a computer that is busy or slow fails nothing. What does fail it is a command that does not
work, or two ways of looking that disagree.
"""

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from hermesops.app import Container
from hermesops.settings.environment import Environment
from tests.bench import (
    bench_ansible,
    bench_api,
    bench_backup,
    bench_console,
    bench_demo,
    bench_engine,
    bench_fleet,
    bench_hostile,
    bench_idle,
    bench_ingest,
    bench_lives,
    bench_messages,
    bench_monitor,
    bench_platform,
    bench_pool,
    bench_provision,
    bench_registry,
    bench_rollout,
    bench_router,
    bench_sqlite,
    bench_start,
    bench_status,
    bench_verify,
    bench_workers,
)
from tests.bench.figures import Board, report
from tests.support.real.commands.command import INSTALLED, Command, local_world
from tests.support.real.monitoring.loki import loki
from tests.support.worlds.local.traces import traces

MACHINES = 10
POOLED = 3
"""Of these, out of a warm pool."""


async def lives(board: Board, folder: Path) -> None:
    """What happens to one agent with a long life."""
    async with local_world(folder / "home", program=INSTALLED) as command:
        await bench_lives.measure(board, command)


async def idle(board: Board, folder: Path, profile: str) -> None:
    """What an agent costs that nobody asks anything."""
    async with local_world(folder / profile, variables={"HERMESOPS_MONITORING_PROFILE": profile}) as command:
        await bench_idle.measure(board, command, profile)


def idle_machines(board: Board, folder: Path) -> None:
    """The same with each profile of a machine's monitoring."""
    asyncio.run(idle(board, folder, "lean"))
    loki()
    asyncio.run(idle(board, folder, "full"))


async def in_a_world(board: Board, folder: Path) -> None:
    """What needs machines, in a home and with caches that nobody has used before."""
    home = folder / "home"
    command = Command(home, {"HERMESOPS_CACHE": str(folder / "cache"), "PIP_NO_CACHE_DIR": "1"}, INSTALLED)
    try:
        await bench_demo.measure(board, command)
        await bench_provision.measure(board, command, MACHINES - len(bench_demo.USERS) - POOLED)
        await bench_pool.measure(board, command, POOLED)
        app = Container(Environment.load("local", command.environ), lambda _: None)
        await bench_verify.measure(board, app)
        await bench_ansible.measure(board, app, folder)
        await bench_rollout.measure(board, app, folder)
    finally:
        report("==> hermesops local down --purge")
        await command.ok("local", "down", "--purge", "--yes")
    left = traces(home / "local" / "world")
    assert not left, left


def fleet(board: Board, folder: Path) -> None:
    """Many simulated machines."""
    bench_status.measure(board, folder)
    asyncio.run(bench_fleet.measure(board, folder, str(folder / "cache")))


@dataclass(frozen=True)
class Kind:
    """One kind of benchmark.

    Attributes:
        title: What it is about.
        measure: Adds its figures; may use a folder that goes away.
        needs_root: Whether it boots machines, or acts as their users.
    """

    title: str
    measure: Callable[[Board, Path], None]
    needs_root: bool = False


KINDS = {
    "start": Kind("the programs' start", lambda board, _: bench_start.measure(board)),
    "engine": Kind("the embedded engine", lambda board, _: bench_engine.measure(board)),
    "platform": Kind("the platform on AWS", lambda board, _: bench_platform.measure(board)),
    "registry": Kind("the registry", lambda board, _: bench_registry.measure(board)),
    "workers": Kind("operations on workers", lambda board, _: bench_workers.measure(board)),
    "fleet": Kind("fleets", fleet),
    "monitor": Kind("the monitor", bench_monitor.measure),
    "hostile": Kind("agents taken over", bench_hostile.measure),
    "ingest": Kind("floods of metrics", bench_ingest.measure, needs_root=True),
    "router": Kind("the model router", bench_router.measure),
    "api": Kind("the users' API", bench_api.measure),
    "console": Kind("the served console", bench_console.measure),
    "messages": Kind("messengers' messages and agents' sockets", bench_messages.measure),
    "backup": Kind("backups", bench_backup.measure, needs_root=True),
    "sqlite": Kind("an agent's SQLite", lambda board, _: asyncio.run(bench_sqlite.measure(board)), needs_root=True),
    "machines": Kind("machines", lambda board, folder: asyncio.run(in_a_world(board, folder)), needs_root=True),
    "idle": Kind("idle machines", idle_machines, needs_root=True),
    "lives": Kind("a long life", lambda board, folder: asyncio.run(lives(board, folder)), needs_root=True),
}


def main(kinds: tuple[str, ...]) -> None:
    """Measure, and print what was measured even when something fails on the way."""
    # As the command does it: a line for each call would be part of the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    board = Board()
    try:
        for kind in (KINDS[name] for name in KINDS if name in kinds):
            if kind.needs_root and os.geteuid() != 0:
                report(f"==> {kind.title} are left out: only root can boot machines and act as their users")
                continue
            report(f"==> {kind.title}")
            with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as name:
                kind.measure(board, Path(name))
    finally:
        board.show()


if __name__ == "__main__":
    asked = tuple(sys.argv[1:])
    if unknown := set(asked) - set(KINDS):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(KINDS)}")
    main(asked or tuple(KINDS))
