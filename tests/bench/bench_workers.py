"""Workers on PostgreSQL: four of them against one, one that is killed, a thousand operations in the queue."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermesops.base.waiting import pause, pause_blocking
from hermesops.store.registry import Registry
from tests.bench.figures import Board, report
from tests.support.crash.programs.worker_process import EFFECTS, FileWorld, Plan, leave, start, worker_over
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at

OPERATIONS = 100
CONCURRENCY = 8
EFFECT_S = 0.5
TIMEOUT_S = 40.0
MANY = 1000
LOOKS = 8


def measure(board: Board) -> None:
    """Add the figures."""
    with postgresql.running() as server:
        alone = _seconds(server, workers=1)
        together = _seconds(server, workers=4)
        takeover_s = _takeover_s(server)
        unseen = _takeover_s(server, is_elsewhere=True)
        never = _takeover_s(server, revives=False)
        filling, observe, turn = _cost_of_many(server)
    least = OPERATIONS * len(EFFECTS) * EFFECT_S / CONCURRENCY
    board.add(
        f"{OPERATIONS} operations of {len(EFFECTS)} steps of {EFFECT_S} s on 4 workers, PostgreSQL",
        f"{together:.1f} s",
        against=f"one worker {alone:.1f} s ({alone / together:.1f} times as long); "
        f"without any cost of ours {least / 4:.1f} s and {least:.1f} s",
    )
    board.add(
        f"kill -9 of a worker in a step of {EFFECT_S} s, until that step is done by its peer",
        _said(takeover_s),
        against=f"killed on another computer {_said(unseen)}; the queue of DBOS without us {_said(never)}",
    )
    board.add(
        f"{MANY} operations put into the empty queue by one worker",
        f"{filling:.1f} s",
        against=f"then each look at all of them costs {observe * 1000:.0f} ms of CPU, twice a second; "
        f"a turn of {len(EFFECTS)} empty steps {turn * 1000:.0f} ms",
    )


def _said(seconds: float | None) -> str:
    return f"not within {TIMEOUT_S:.0f} s" if seconds is None else f"{seconds:.1f} s"


@contextmanager
def _plan(server: postgresql.PostgreSql, **how: Any) -> Iterator[tuple[Plan, Registry]]:  # noqa: ANN401 - fields of Plan
    """A world of its own, and its registry."""
    with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as folder:
        url = server.new_database()
        registry = registry_at(url)
        yield Plan(url, url, Path(folder), lease_s=15, once=False, concurrency=CONCURRENCY, **how), registry
        registry.close()


@contextmanager
def _workers(plan: Plan, count: int) -> Iterator[list[Any]]:
    """Processes that take operations."""
    report(f"==> {count} of hermesops worker")
    processes = [start(plan) for _ in range(count)]
    while plan.workers_up() < count:
        pause_blocking(0.05)
    yield processes
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def _seconds(server: postgresql.PostgreSql, *, workers: int) -> float:
    """From the last row that was left to the end of the last operation, with workers that wait for them."""
    with _plan(server, effect_s=EFFECT_S) as (plan, registry), _workers(plan, workers):
        started = time.perf_counter()
        for number in range(OPERATIONS):
            leave(registry, f"stack/bench/{number}")
        while registry.operations.unfinished():
            pause_blocking(0.05)
        seconds = time.perf_counter() - started
        assert set(FileWorld(plan.world).counts().values()) == {1}, "something happened twice"
        return seconds


def _takeover_s(server: postgresql.PostgreSql, **how: bool) -> float | None:
    """From the death of the worker of an operation to the end of the step that it died in; ``None`` for never."""
    with _plan(server, effect_s=EFFECT_S, **how) as (plan, registry), _workers(plan, 2) as processes:
        row, world = leave(registry, "stack/bench/0"), FileWorld(plan.world)
        while not world.has(row.id, EFFECTS[0]):
            pause_blocking(0.01)
        (holder,) = (lease.holder for lease in registry.leases.list())
        (dying,) = (process for process in processes if str(process.pid) == holder.split(":")[1])
        dying.kill()
        started = time.perf_counter()
        while (seconds := time.perf_counter() - started) < TIMEOUT_S:
            if world.has(row.id, EFFECTS[1]):
                return seconds
            pause_blocking(0.01)
        return None


def _cost_of_many(server: postgresql.PostgreSql) -> tuple[float, float, float]:
    """Seconds to fill the queue, and CPU seconds of one look at a full one and of one turn."""
    with _plan(server, effect_s=3600.0) as (plan, registry):
        for number in range(MANY):
            leave(registry, f"stack/bench/{number}")
        filling, observe = asyncio.run(_looks(plan, registry))
    with _plan(server) as (plan, registry):
        for number in range(OPERATIONS):
            leave(registry, f"stack/bench/{number}")
        before = time.process_time()
        asyncio.run(worker_over(registry, plan).run(once=True))
        return filling, observe, (time.process_time() - before) / OPERATIONS


async def _looks(plan: Plan, registry: Registry) -> tuple[float, float]:
    worker = worker_over(registry, plan)
    looks: list[tuple[float, float]] = []
    tick = worker._tick

    async def timed() -> bool:
        started, before = time.perf_counter(), time.process_time()
        is_idle = await tick()
        looks.append((time.perf_counter() - started, time.process_time() - before))
        return is_idle

    vars(worker).update(_tick=timed)
    running = asyncio.create_task(worker.run())
    while len(looks) < LOOKS:
        await pause(0.05)
    worker.stop()
    worker.stop()
    await running
    return looks[0][0], statistics.median(cpu for _, cpu in looks[1:])
