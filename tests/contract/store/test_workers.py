"""Workers on SQLite and PostgreSQL: killed, robbed of their queue, cut off from the database; nothing happens twice."""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.base.waiting import pause, pause_blocking
from hermesops.model.operation import LeaseHeldError, Operation, OperationStatus
from hermesops.store.registry import Registry
from tests.support.crash.death import KILLED, Death
from tests.support.crash.programs.worker_process import EFFECTS, FileWorld, Plan, leave, operations_over, start
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(30)

OPERATIONS = 4
KILLS = 5
SEED = 20260101
MOMENTS = OPERATIONS * (2 * 2 * len(EFFECTS) + 6)
"""How many moments to die at a worker has that does everything alone, about."""


@pytest.fixture
def plan(registry_url: str, tmp_path: Path) -> Plan:
    is_file = registry_url.startswith("sqlite")
    return Plan(registry_url, f"sqlite:///{tmp_path}/worker.db" if is_file else registry_url, tmp_path / "world")


@pytest.fixture
def registry(plan: Plan) -> Iterator[Registry]:
    opened = registry_at(plan.registry)
    yield opened
    opened.close()


def leave_all(registry: Registry, numbers: range) -> list[Operation]:
    return [leave(registry, f"stack/fleet/{number}") for number in numbers]


def ends(process: Any) -> None:  # noqa: ANN401 - multiprocessing's process
    process.join(60)
    assert process.exitcode == 0


def all_happened_once(registry: Registry, plan: Plan, rows: list[Operation]) -> None:
    assert {row.id: registry.operations.get(row.id).status for row in rows} == {
        row.id: OperationStatus.DONE for row in rows
    }
    assert FileWorld(plan.world).counts() == {f"{row.id} {effect}": 1 for row in rows for effect in EFFECTS}


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        pause_blocking(0.05)
    raise AssertionError("it did not come to pass within 30 s")


def test_killed_at_any_moment_the_next_worker_finishes_and_nothing_happens_twice(
    registry: Registry, plan: Plan
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - moments, no secrets
    rows = leave_all(registry, range(OPERATIONS))
    killed = 0
    for dies_at in [1, *(chance.randrange(2, MOMENTS // 2) for _ in range(KILLS - 1))]:
        dying = start(replace(plan, dies_at=dies_at))
        dying.join(60)
        killed += dying.exitcode == KILLED
    assert killed > KILLS // 2
    ends(start(plan))
    all_happened_once(registry, plan, rows)


def test_a_peer_takes_over_from_a_killed_worker(registry: Registry, plan: Plan) -> None:
    rows = leave_all(registry, range(OPERATIONS))
    dying = start(replace(plan, dies_at=MOMENTS // 4, effect_s=0.05))
    peer = start(replace(plan, effect_s=0.05))
    dying.join(60)
    ends(peer)
    all_happened_once(registry, plan, rows)


def drop_queue(plan: Plan) -> None:
    engine = sa.create_engine(plan.queue.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            tables = sa.inspect(connection).get_table_names()
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            for table in tables:
                connection.exec_driver_sql(f'DROP TABLE IF EXISTS "{table}"')
        else:
            connection.exec_driver_sql("DROP SCHEMA dbos CASCADE")
    engine.dispose()


def test_a_lost_queue_is_filled_again_from_the_rows(registry: Registry, plan: Plan) -> None:
    rows = leave_all(registry, range(OPERATIONS))
    worker = start(replace(plan, once=False, effect_s=0.1, concurrency=2))
    until(lambda: bool(FileWorld(plan.world).counts()))
    drop_queue(plan)
    rows += leave_all(registry, range(OPERATIONS, 2 * OPERATIONS))
    until(lambda: not registry.operations.unfinished())
    worker.terminate()
    ends(worker)
    all_happened_once(registry, plan, rows)


@pytest.mark.postgres
def test_a_restart_of_the_database_loses_nothing(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as server:  # its own: others' work is not to be disturbed
        url = server.new_database()
        plan = Plan(url, url, tmp_path / "world", lease_s=5)
        registry = registry_at(url)
        rows = leave_all(registry, range(OPERATIONS))
        worker = start(replace(plan, once=False, effect_s=0.1, concurrency=2))
        until(lambda: bool(FileWorld(plan.world).counts()))
        server.restart()
        until(lambda: not registry.operations.unfinished())
        worker.terminate()
        ends(worker)
        all_happened_once(registry, plan, rows)
        registry.close()


async def test_workers_and_a_command_on_one_row_share_one_lease(registry: Registry, plan: Plan) -> None:
    slow = replace(plan, effect_s=0.5, lease_s=5)  # a busy computer renews a lease of a second too late
    (row,) = leave_all(registry, range(1))
    workers = [start(slow), start(slow)]
    command = operations_over(registry, slow, Death())
    while not registry.leases.list():
        await pause(0.05)
    if any(lease.subject == row.subject for lease in registry.leases.list()):
        with pytest.raises(LeaseHeldError, match=row.subject):
            await command.run(row)
    assert await command.resume(row, wait_s=30) == "everything happened"
    for worker in workers:
        await asyncio.to_thread(ends, worker)
    all_happened_once(registry, plan, [row])
    assert len({step.holder for step in registry.operations.steps(row.id)} - {""}) == 1


async def test_a_worker_that_is_told_to_stop_leaves_the_rest_to_the_next(registry: Registry, plan: Plan) -> None:
    (row,) = leave_all(registry, range(1))
    stopped = start(replace(plan, once=False, effect_s=1.0))
    until(lambda: registry.operations.get(row.id).step.startswith(EFFECTS[0]))
    stopped.terminate()
    await asyncio.to_thread(ends, stopped)
    assert FileWorld(plan.world).counts() == {f"{row.id} {EFFECTS[0]}": 1}, "the step under way is finished"
    assert registry.leases.list() == (), "every lease is given back"
    await asyncio.to_thread(ends, start(plan))
    all_happened_once(registry, plan, [row])
