"""Operations on workers: four of them on PostgreSQL against one, the same hundred simulated operations."""

import tempfile
import time
from pathlib import Path

from hermesops.waiting import pause_blocking
from tests.bench.figures import Board, tell
from tests.support.crash.worker_process import EFFECTS, KIND, FileWorld, Plan, start
from tests.support.real import postgresql
from tests.support.real.registries import registry_at

OPERATIONS = 100
CONCURRENCY = 8
EFFECT_S = 0.5


def measure(board: Board) -> None:
    """Add the figures."""
    with postgresql.running() as server:
        alone = _seconds(server, workers=1)
        together = _seconds(server, workers=4)
    least = OPERATIONS * len(EFFECTS) * EFFECT_S / CONCURRENCY
    board.add(
        f"{OPERATIONS} operations of {len(EFFECTS)} steps of {EFFECT_S} s on 4 workers, PostgreSQL",
        f"{together:.1f} s",
        against=f"one worker {alone:.1f} s ({alone / together:.1f} times as long); "
        f"without any cost of ours {least / 4:.1f} s and {least:.1f} s",
    )


def _seconds(server: postgresql.PostgreSql, *, workers: int) -> float:
    """From the last row that was left to the end of the last operation, with workers that wait for them."""
    tell(f"==> {workers} of hermesops worker")
    with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as folder:
        url = server.new_database()
        plan = Plan(url, url, Path(folder), lease_s=15, effect_s=EFFECT_S, once=False, concurrency=CONCURRENCY)
        registry = registry_at(url)
        processes = [start(plan) for _ in range(workers)]
        while len(registry.leases.list()) < workers:
            pause_blocking(0.05)
        started = time.perf_counter()
        rows = [registry.operations.open(KIND, f"stack/bench/{number}") for number in range(OPERATIONS)]
        for row in rows:
            registry.operations.record_step(row.id, "left to the workers")
        while registry.operations.unfinished():
            pause_blocking(0.05)
        seconds = time.perf_counter() - started
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        assert set(FileWorld(plan.world).counts().values()) == {1}, "something happened twice"
        registry.close()
        return seconds
