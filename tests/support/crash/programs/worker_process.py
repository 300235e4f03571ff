"""Workers in processes of their own, over a world of files in which every effect leaves a line, and dying on demand.

A process is forked from a server that has imported everything, so that killing many of them is cheap.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import structlog

from hermesops.base import waiting
from hermesops.model.ids import OperationId
from hermesops.model.operation import Done, Lease, Operation, OperationKind
from hermesops.store.operations.leases import keeper as lease_module
from hermesops.store.operations.leases.holder import this_process
from hermesops.store.operations.queue import DbosQueue, RunOperation
from hermesops.store.operations.runner import QUEUED, Operations
from hermesops.store.operations.worker import Worker
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories import leases as registry_leases
from tests.support.crash.death import Death, Mortal, kill_this_process
from tests.support.real.stores.registries import registry_at

KIND = OperationKind.STACK_UP
EFFECTS = ("order", "boot", "hand over")

_WRITES = (
    "leases.take",
    "leases.renew",
    "leases.release",
    "operations.record_step",
    "operations.record_problem",
    "operations.finish",
)


@dataclass(frozen=True)
class Plan:
    """How a worker process is to behave.

    Attributes:
        registry: URL of the registry.
        queue: URL of DBOS's tables.
        world: Folder of effects.
        lease_s: Seconds a lease lives.
        effect_s: Seconds each effect takes.
        dies_at: The so many-th moment before or after a write or an effect at which it kills itself; 0 for never.
        once: Ends when all is done.
        is_elsewhere: Other processes cannot see whether this one has ended, as if it ran on another computer.
        revives: Puts tasks of dead workers back into the queue.
    """

    registry: str
    queue: str
    world: Path
    lease_s: float = 1.0
    effect_s: float = 0.0
    dies_at: int = 0
    once: bool = True
    concurrency: int = 4
    is_elsewhere: bool = False
    revives: bool = True

    def workers_up(self) -> int:
        """How many worker processes of this world have taken up work."""
        return len(list(self.world.glob("*.up")))


class FileWorld:
    """Effects as files, and a line for each time one was made to happen.

    Args:
        folder: Where; shared by all processes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines = folder / "effects"

    def has(self, operation: OperationId, effect: str) -> bool:
        return (self._folder / f"{operation}.{effect}").exists()

    def make(self, operation: OperationId, effect: str) -> None:
        # The line and the file are one effect: no kill of ours falls between them, as none falls into a vendor's call.
        with self._lines.open("a") as lines:
            lines.write(f"{operation} {effect}\n")
        (self._folder / f"{operation}.{effect}").touch()

    def counts(self) -> Counter[str]:
        """How often each effect of each operation happened."""
        return Counter(self._lines.read_text().splitlines()) if self._lines.exists() else Counter()


class Effects:
    """The work of an operation: its effects, one after the other, each looked for first."""

    def __init__(self, operation: Operation, world: FileWorld, death: Death, effect_s: float) -> None:
        self._id = operation.id
        self._world = world
        self._death = death
        self._effect_s = effect_s

    async def observe(self) -> int:
        return sum(self._world.has(self._id, effect) for effect in EFFECTS)

    def decide(self, count: int) -> str | Done:
        return EFFECTS[count] if count < len(EFFECTS) else Done("everything happened")

    def describe(self, step: str, count: int) -> str:
        return f"{step} after {count}"

    async def do(self, step: str, count: int) -> None:
        assert count == EFFECTS.index(step)
        self._death.point()
        await waiting.pause(self._effect_s)
        self._world.make(self._id, step)
        self._death.point()


def operations_over(registry: Any, plan: Plan, death: Death) -> Operations:  # noqa: ANN401 - a registry, or a mortal one
    """What brings operations to their end in the world of files."""
    world = FileWorld(plan.world)

    def make(operation: Operation, _lease: Lease) -> Effects:
        return Effects(operation, world, death, plan.effect_s)

    return Operations(registry, {KIND: make}, lambda _: None)


def leave(registry: Registry, subject: str) -> Operation:
    """An operation that the workers are to do."""
    row = registry.operations.open(KIND, subject)
    registry.operations.record_step(row.id, QUEUED)
    return row


def work(plan: Plan) -> None:
    """What the process does."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    shorten_leases(plan.lease_s)
    asyncio.run(_work(plan))


def shorten_leases(lease_s: float) -> None:
    """Let leases in this process live as long as a test has patience for."""
    registry_leases.LEASE_LIFE = timedelta(seconds=lease_s)
    vars(lease_module).update(LEASE_S=lease_s, RENEW_S=lease_s / 3, RETRY_S=lease_s / 10)


class _Queue(DbosQueue):
    """The queue, which leaves a file in the world once it is open."""

    is_up: Path

    async def open(self) -> None:
        await super().open()
        self.is_up.touch()


def worker_over(registry: Any, plan: Plan) -> Worker:  # noqa: ANN401 - a registry, or a mortal one
    """The worker that a plan asks for."""
    death, name = Death(plan.dies_at, kill=kill_this_process), this_process()
    mortal: Any = Mortal(registry, death, _WRITES)

    def queue(turn: RunOperation) -> DbosQueue:
        return _Queue(plan.queue, environment="local", worker=name, concurrency=plan.concurrency, turn=turn)

    _Queue.is_up = plan.world / f"{os.getpid()}.up"
    worker = Worker(name, mortal, operations_over(mortal, plan, death), queue, grace_s=5)
    if not plan.revives:
        vars(worker).update(_given_up=lambda *_: set())
    return worker


async def _work(plan: Plan) -> None:
    if plan.is_elsewhere:
        vars(lease_module).update(this_process=lambda: f"elsewhere:{os.getpid()}:00000000.0.{token_hex(4)}")
    worker = worker_over(registry_at(plan.registry), plan)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run(once=plan.once)


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.crash.programs.worker_process"])


def start(plan: Plan) -> Any:  # noqa: ANN401 - multiprocessing's process of this context
    """Start a worker process."""
    plan.world.mkdir(parents=True, exist_ok=True)
    process = _context.Process(target=work, args=(plan,), daemon=True)
    process.start()
    return process
