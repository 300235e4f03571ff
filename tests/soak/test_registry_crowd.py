"""Computers at random on one PostgreSQL, killed at random and started again, the database restarted meanwhile."""

import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.base.waiting import pause_blocking
from hermesops.store.registry.audit.anchor import Anchor
from tests.support.crash.programs.registry_hammer import contradictions
from tests.support.real.ends_with_us import KILLED
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(1800)]

COMPUTERS = 2
KILLS = 30
RESTARTS = 3
CHANGES = 15
"""Audited changes between two deaths of a computer, at least."""
SEED = 20260101
_HAMMER = (*KILLED, sys.executable, "-m", "tests.support.crash.programs.registry_hammer")


@dataclass
class Crowd:
    """Processes that work on one registry, each on a computer with an anchor of its own."""

    url: str
    folder: Path
    started: int = 0
    lives: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)
    changes: dict[int, int] = field(default_factory=dict)

    def start(self, computer: int, rounds: int = 10**6) -> subprocess.Popen[bytes]:
        self.started += 1
        path = self.folder / f"said-{self.started}"
        arguments = [self.url, str(self.anchor(computer)), str(1000 * computer + self.started), str(rounds)]
        with path.open("wb") as out:
            process = subprocess.Popen([*_HAMMER, *arguments], stdout=out, stderr=out)
        self.lives.append((process, path))
        return process

    def anchor(self, computer: int) -> Path:
        return self.folder / f"computer-{computer}.anchor"

    def let_work(self, computer: int) -> None:
        """Wait until a computer has changed some things since it was asked the last time."""
        anchor = Anchor(self.anchor(computer))
        wanted = self.changes.get(computer, 0) + CHANGES
        for _ in range(600):
            self.changes[computer] = sum(1 for _ in anchor.heads())
            if self.changes[computer] >= wanted:
                return
            pause_blocking(0.1)
        raise AssertionError(self.said())

    def said(self) -> list[str]:
        """Every whole line; a kill may have torn the last one."""
        return [
            line for _, path in self.lives for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]


def test_whatever_is_killed_nothing_contradicts_itself(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    chance = random.Random(SEED)  # noqa: S311 - moments, no secrets
    began = time.monotonic()
    with postgresql.running() as server:
        crowd = Crowd(server.new_database(), tmp_path)
        registry = registry_at(crowd.url)
        working = {computer: crowd.start(computer) for computer in range(COMPUTERS)}
        restart_at = set(chance.sample(range(KILLS), RESTARTS))
        for kill in range(KILLS):
            computer = chance.randrange(COMPUTERS)
            crowd.let_work(computer)
            pause_blocking(chance.uniform(0, 0.2))
            assert working[computer].poll() is None, crowd.said()
            working[computer].kill()
            working[computer].wait()
            if kill in restart_at:
                server.restart()
            working[computer] = crowd.start(computer)
        for process in working.values():
            process.kill()
            process.wait()
        anchors = [Anchor(crowd.anchor(computer)) for computer in range(COMPUTERS)]
        names = contradictions(registry, anchors, crowd.said())
        entries = len(registry.audit.list(limit=10**9))
        registry.close()
    table = Table(title="Registry: computers at random on one PostgreSQL")
    for column in ("computers", "kill -9", "database restarts", "audit entries", "tokens", "seconds", "contradictions"):
        table.add_column(column)
    figures = (COMPUTERS, KILLS, RESTARTS, entries, len(crowd.said()), round(time.monotonic() - began), len(names))
    table.add_row(*map(str, figures))
    Console().print(table)
    assert names == []
    assert entries > CHANGES * KILLS / 2, "they did work"
