"""Runs operations, rollouts and scheduled jobs with the connected parts."""

from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermesops.app.container_parts.connected import Connected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.adapters.release_transfer import ReleaseTransfer
    from hermesops.app.services.jobs import Jobs
    from hermesops.app.services.rollouts import Rollouts
    from hermesops.model.operation import Lease, OperationKind
    from hermesops.operations.runner import Handler
    from hermesops.operations.worker import Worker


class Runtime(Connected):
    """All parts of one environment that need connections, while these are open."""

    @cached_property
    def rollouts(self) -> "Rollouts":
        """Starts and runs rollouts."""
        from hermesops.app.services.rollouts import Rollouts

        return Rollouts(self)

    def handlers(self) -> "Mapping[OperationKind, Handler]":
        """What makes the workflow of each kind of operation."""
        from hermesops.app.handlers import OperationHandlers

        app = self.app
        operations = OperationHandlers(
            registry=app.registry,
            instance_client=self.instance_client,
            cells=app.cells,
            backups=self.backups,
            snapshots=self.snapshots,
            drills=self.drills,
            stack_ups=app.stack_ups,
            pools=self.pools,
            rollouts=self.rollouts,
            mass_changes=app.mass_changes,
            data_gb=app.env.settings.data_gb,
            transfer=self._release_transfer,
        )
        return operations.handlers()

    def _release_transfer(self, lease: "Lease") -> "ReleaseTransfer":
        from hermesops.app.adapters.release_transfer import ReleaseTransfer
        from hermesops.instances.remote.releases import ReleaseClient

        client = ReleaseClient(self.instance_client.channel, lease)
        return ReleaseTransfer(self.app.registry, self.app.releases, client)

    @cached_property
    def jobs(self) -> "Jobs":
        """Scheduled jobs."""
        from hermesops.app.services.jobs import Jobs

        return Jobs(
            settings=self.app.env.settings,
            registry=self.app.registry,
            operations=self.operations,
            backups=self.backups,
            drills=self.drills,
            rollouts=self.rollouts,
            pools=self.pools,
            upkeep=self.upkeep,
            proxy_tokens=self.proxy_tokens,
            model_tokens=self.model_tokens,
        )

    def make_worker(self, *, concurrency: int, grace_s: float) -> "Worker":
        """A worker of this environment.

        Args:
            concurrency: Operations at once.
            grace_s: Seconds that steps have to end once it was told to stop.
        """
        from hermesops.app.container_parts.registry import queue_url
        from hermesops.operations.holder import this_process
        from hermesops.operations.queue import DbosQueue
        from hermesops.operations.worker import Worker

        env, name = self.app.env, this_process()
        queue = partial(DbosQueue, queue_url(env), environment=env.name, worker=name, concurrency=concurrency)
        return Worker(name, self.app.registry, self.operations, lambda turn: queue(turn=turn), grace_s=grace_s)
