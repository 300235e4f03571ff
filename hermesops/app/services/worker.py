"""What workers are made of."""

from collections.abc import Awaitable, Callable

from hermesops.model.ids import OperationId
from hermesops.operations.holder import this_process
from hermesops.operations.queue import DbosQueue
from hermesops.operations.runner import Operations
from hermesops.operations.worker import Queue, Worker
from hermesops.registry import Registry
from hermesops.settings import Environment
from hermesops.web_address import with_verified_tls


def make_worker(
    env: Environment, registry: Registry, operations: Operations, *, concurrency: int, grace_s: float
) -> Worker:
    """A worker of an environment.

    Args:
        env: The environment.
        registry: Where operations are.
        operations: Runs them.
        concurrency: Operations at once.
        grace_s: Seconds that steps have to end once it was told to stop.
    """
    name = this_process()

    def queue(turn: Callable[[OperationId], Awaitable[bool]]) -> Queue:
        return DbosQueue(_queue_url(env), environment=env.name, worker=name, concurrency=concurrency, turn=turn)

    return Worker(name, registry, operations, queue, grace_s=grace_s)


def _queue_url(env: Environment) -> str:
    """Beside the registry in PostgreSQL, where many computers reach it; else in a file of this computer."""
    url = env.settings.registry_url.get_secret_value() if env.settings.registry_url else ""
    return with_verified_tls(url) if url.startswith("postgresql") else f"sqlite:///{env.folder / 'worker.db'}"
