"""Workers killed before and after every write and effect, on both databases: each moment once, and nothing twice."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.model.operation import Operation, OperationStatus
from tests.support.crash.death import KILLED
from tests.support.crash.programs.worker_process import EFFECTS, FileWorld, Plan, leave, start
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.timeout(3600)

MOMENTS = 110
PER_OPERATION = 12
"""Moments that an operation has at least, so that there is always enough work to die in."""


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_worker_dies_at_every_moment(database: str, tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as server:
        url = server.new_database() if database == "postgresql" else f"sqlite:///{tmp_path}/registry.db"
        queue = url if database == "postgresql" else f"sqlite:///{tmp_path}/worker.db"
        plan = Plan(url, queue, tmp_path / "world")
        registry = registry_at(url)
        rows: list[Operation] = []
        killed, started = 0, time.monotonic()
        for dies_at in range(1, MOMENTS + 1):
            numbers = range(dies_at // PER_OPERATION + 1)
            rows += [leave(registry, f"stack/{dies_at}/{number}") for number in numbers]
            dying = start(replace(plan, dies_at=dies_at))
            dying.join(120)
            killed += dying.exitcode == KILLED
        last = start(plan)
        last.join(120)
        counts = FileWorld(plan.world).counts()
        done = sum(registry.operations.get(row.id).status is OperationStatus.DONE for row in rows)
        twice = [effect for effect, count in counts.items() if count != 1]
        _show(database, killed, len(rows), done, len(counts), len(twice), time.monotonic() - started)
        registry.close()
    assert last.exitcode == 0
    assert killed >= MOMENTS * 9 // 10
    assert done == len(rows)
    assert not twice
    assert len(counts) == len(rows) * len(EFFECTS)


def _show(*figures: object) -> None:
    columns = ("database", "workers killed", "operations", "done", "effects", "happened twice", "seconds")
    table = Table(*columns, title="Workers killed at every moment")
    table.add_row(*(f"{figure:.0f}" if isinstance(figure, float) else str(figure) for figure in figures))
    Console(width=120).print(table)
