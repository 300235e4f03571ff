"""``python -m tests.bench [start] [engine] [registry] [workers] [fleet] [backup] [machines]``: one table, nothing left.

No figure is judged here: a computer that is busy or slow fails nothing. What does fail it is a command that does not
work, or two ways of looking that disagree.
"""

import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path

import structlog

from hermesops.app import App
from hermesops.settings import Environment
from tests.bench import (
    bench_ansible,
    bench_backup,
    bench_demo,
    bench_engine,
    bench_fleet,
    bench_pool,
    bench_provision,
    bench_registry,
    bench_start,
    bench_status,
    bench_verify,
    bench_workers,
)
from tests.bench.figures import Board, tell
from tests.support.command import Command
from tests.support.traces import traces

MACHINES = 10
POOLED = 3
"""Of these, out of a warm pool."""

KINDS = ("start", "engine", "registry", "workers", "fleet", "backup", "machines")


async def in_a_world(board: Board, folder: Path) -> None:
    """What needs machines, in a home and with caches that nobody has used before."""
    home = folder / "home"
    command = Command(home, {"HERMESOPS_CACHE": str(folder / "cache"), "PIP_NO_CACHE_DIR": "1"})
    try:
        await bench_demo.measure(board, command)
        await bench_provision.measure(board, command, MACHINES - len(bench_demo.USERS) - POOLED)
        await bench_pool.measure(board, command, POOLED)
        app = App(Environment.load("local", command.environ), lambda _: None)
        await bench_verify.measure(board, app)
        await bench_ansible.measure(board, app, folder)
    finally:
        tell("==> hermesops local down --purge")
        await command.ok("local", "down", "--purge", "--yes")
    left = traces(home / "local" / "world")
    assert not left, left


def main(kinds: tuple[str, ...]) -> None:
    """Measure, and print what was measured even when something fails on the way."""
    # As the command does it: a line for each call would be part of the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    board = Board()
    try:
        if "start" in kinds:
            tell("==> the programs' start")
            bench_start.measure(board)
        if "engine" in kinds:
            tell("==> the embedded engine")
            bench_engine.measure(board)
        if "registry" in kinds:
            tell("==> the registry")
            bench_registry.measure(board)
        if "workers" in kinds:
            tell("==> operations on workers")
            bench_workers.measure(board)
        if "fleet" in kinds:
            with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as name:
                bench_status.measure(board, Path(name))
                asyncio.run(bench_fleet.measure(board, Path(name), str(Path(name) / "cache")))
        if "backup" in kinds and os.geteuid() == 0:
            tell("==> backups")
            with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as name:
                bench_backup.measure(board, Path(name))
        elif "backup" in kinds:
            tell("==> backups are left out: only root can run a machine's two users")
        if "machines" in kinds and os.geteuid() == 0:
            with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as name:
                asyncio.run(in_a_world(board, Path(name)))
        elif "machines" in kinds:
            tell("==> what needs machines is left out: only root can boot them")
    finally:
        board.show()


if __name__ == "__main__":
    asked = tuple(sys.argv[1:])
    if unknown := set(asked) - set(KINDS):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(KINDS)}")
    main(asked or KINDS)
