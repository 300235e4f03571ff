"""What workers are made of."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hermesops.model.ids import OperationId
from hermesops.settings import Environment
from hermesops.web_address import with_verified_tls

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.operations.worker import Queue, Worker


def make_worker(session: "Connected", *, concurrency: int, grace_s: float) -> "Worker":
    """A worker of the session's environment.

    Args:
        session: What operations are done with.
        concurrency: Operations at once.
        grace_s: Seconds that steps have to end once it was told to stop.
    """
    from hermesops.operations.holder import this_process
    from hermesops.operations.queue import DbosQueue
    from hermesops.operations.worker import Worker

    env, name = session.app.env, this_process()

    def queue(turn: Callable[[OperationId], Awaitable[bool]]) -> "Queue":
        url = _queue_url(env)
        return DbosQueue(url, environment=env.name, worker=name, concurrency=concurrency, turn=turn)

    return Worker(name, session.app.registry, session.operations, queue, grace_s=grace_s)


def _queue_url(env: Environment) -> str:
    """Beside the registry in PostgreSQL, where many computers reach it; else in a file of this computer."""
    url = env.settings.registry_url.get_secret_value() if env.settings.registry_url else ""
    return with_verified_tls(url) if url.startswith("postgresql") else f"sqlite:///{env.folder / 'worker.db'}"
