"""Operations: leases, runner, handlers and workers."""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from hermesops.agents.instances.remote.power_control import PowerControl
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.base.narration import Reporter
    from hermesops.model.operation import Lease, OperationKind
    from hermesops.store.operations.directory import OperationDirectory
    from hermesops.store.operations.intent import AbandonNote
    from hermesops.store.operations.leases.keeper import LeaseKeeper
    from hermesops.store.operations.runner import Handler, Operations
    from hermesops.store.operations.worker import Worker


def hold_lease(container: "Container", subject: str) -> "LeaseKeeper":
    """Hold the lease of a subject while the context lasts; refused at once if another process holds it."""
    from hermesops.store.operations.leases.keeper import LeaseKeeper

    return LeaseKeeper(container.registry, subject)


def make_operations(
    container: "Container", handlers: "Mapping[OperationKind, Handler]", *, report: "Reporter | None" = None
) -> "Operations":
    """Runs operations with the given handlers, reporting each step in a line."""
    from hermesops.store.operations.runner import Operations

    return Operations(container.registry, handlers, report or container.report)


def directory(container: "Container") -> "OperationDirectory":
    """Finds operations in the registry, with their history."""
    from hermesops.store.operations.directory import OperationDirectory

    return OperationDirectory(container.registry)


def abandon(container: "Container") -> "Callable[..., Coroutine[Any, Any, AbandonNote]]":
    """Closes an operation's row; ``hermesops.store.operations.runner.abandon`` in this environment's registry."""
    from hermesops.store.operations import runner

    return partial(runner.abandon, registry=container.registry)


def operations(connected: "Connected") -> "Operations":
    """Runs operations of every kind until they end, under their leases."""
    return connected.container.make_operations(connected.handlers())


def handlers(connected: "Connected") -> "Mapping[OperationKind, Handler]":
    """Makers of the workflow of each kind of operation."""
    from hermesops.app.handlers import OperationHandlers

    container = connected.container
    return OperationHandlers(
        registry=container.registry,
        client=partial(_client_with, connected),
        cells=container.cell_stacks,
        backups=lambda: connected.backups,
        snapshots=lambda: connected.snapshots,
        drills=lambda: connected.drills,
        stack_ups=lambda: container.stack_ups,
        pools=lambda: connected.pools,
        rollouts=lambda: connected.rollouts,
        jobs=lambda: connected.jobs,
        mass_changes=container.mass_changes,
        data_gb=container.env.settings.data_gb,
        transfer=connected.release_transfer,
    ).handlers()


def _client_with(connected: "Connected", lease: "Lease") -> "PowerControl":
    connected.instance_keys.router_key()  # where it is missing, the operation changes nothing
    client = connected.instance_client
    return client if connected.is_dry_run else client.with_lease(lease)  # without a lease nothing is recorded


def make_worker(connected: "Connected", *, concurrency: int, grace_s: float) -> "Worker":
    """A worker of this environment.

    Args:
        grace_s: Seconds for running steps to end after a stop was requested.
    """
    from hermesops.access.registry_place import queue_url
    from hermesops.store.operations.leases.holder import this_process
    from hermesops.store.operations.queue import DbosQueue
    from hermesops.store.operations.worker import Worker

    container, name = connected.container, this_process()
    env = container.env
    queue = partial(DbosQueue, queue_url(env), environment=env.name, worker=name, concurrency=concurrency)
    return Worker(name, container.registry, connected.operations, lambda turn: queue(turn=turn), grace_s=grace_s)
