"""What does each kind of operation, given its row and the lease under which it is done."""

from dataclasses import dataclass

from hermesops.app.container_parts.lazy_cells import LazyCells
from hermesops.app.handlers.instances import LifecycleHandlers
from hermesops.app.operation_rows import instance_of
from hermesops.app.services.backups import Backups
from hermesops.app.services.pools import Pools
from hermesops.app.services.restore_drills import Drills
from hermesops.app.services.rollouts import Rollouts
from hermesops.app.services.snapshots import Snapshots
from hermesops.app.services.stack_runs import StackUps
from hermesops.instances.remote.power_control import PowerControl
from hermesops.instances.workflows.configure import Configure
from hermesops.instances.workflows.provision import Provision
from hermesops.instances.workflows.restart import Restart
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.operations.runner import Handler
from hermesops.registry import Registry


@dataclass(frozen=True)
class OperationHandlers:
    """Makes the workflow of any operation."""

    registry: Registry
    instance_client: PowerControl
    cells: LazyCells
    lifecycle: LifecycleHandlers
    backups: Backups
    snapshots: Snapshots
    drills: Drills
    stack_ups: StackUps
    pools: Pools
    rollouts: Rollouts

    def handlers(self) -> dict[OperationKind, Handler]:
        """Every kind of operation that can be run, with what makes its workflow."""
        return {
            OperationKind.PROVISION: self._provision,
            **self.lifecycle.handlers(),
            OperationKind.RESTART: self._restart,
            OperationKind.CONFIGURE: self._configure,
            **self.backups.handlers(),
            OperationKind.SNAPSHOT: self.snapshots.work_of,
            OperationKind.DRILL: self.drills.work_of,
            OperationKind.STACK_UP: self.stack_ups.work_of,
            OperationKind.POOL_FILL: self.pools.work_of,
            OperationKind.ROLLOUT: self.rollouts.work_of,
        }

    def _provision(self, operation: Operation, lease: Lease) -> Provision:
        reach = self.instance_client.with_lease(lease)
        return Provision(instance_of(operation), self.registry, reach, self.cells)

    def _restart(self, operation: Operation, lease: Lease) -> Restart:
        reach = self.instance_client.with_lease(lease)
        return Restart(instance_of(operation), str(operation.intent["before"]), reach, reach.gateways)

    def _configure(self, operation: Operation, lease: Lease) -> Configure:
        return Configure(instance_of(operation), self.instance_client.with_lease(lease))
