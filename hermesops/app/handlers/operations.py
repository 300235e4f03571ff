"""What does each kind of operation, given its row and the lease under which it is done."""

from typing import TYPE_CHECKING

from hermesops.app.handlers.instances import LifecycleHandlers, instance_of
from hermesops.app.services.restore_drills import Drills
from hermesops.app.services.stack_runs import StackUps
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.operations.kinds import RestartIntent

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.app.container_parts.connected import Connected
    from hermesops.cells.coalescing import StillWanted
    from hermesops.instances.workflows.configure import Configure
    from hermesops.instances.workflows.provision import Provision
    from hermesops.instances.workflows.restart import Restart
    from hermesops.model.ids import CellName, MachineName
    from hermesops.operations.runner import Handler


class LazyCells:
    """Stacks of cells, with the engine loaded by the first use: a machine out of a pool needs none.

    Args:
        app: The environment.
    """

    def __init__(self, app: "Container") -> None:
        self._app = app

    async def holds(self, cell: "CellName", machine: "MachineName") -> bool:
        """Whether the cell's state has that machine."""
        return await self._app.cell_stacks.holds(cell, machine)

    async def apply(self, cell: "CellName", *, still_wanted: "StillWanted") -> object:
        """Run the cell's stack."""
        return await self._app.cell_stacks.apply(cell, still_wanted=still_wanted)


class OperationHandlers:
    """Makes works in one session.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app

    def handlers(self) -> "dict[OperationKind, Handler]":
        """What makes the work of each kind of operation."""
        session = self._session
        lifecycle = LifecycleHandlers(session)
        return {
            OperationKind.PROVISION: self._provision,
            OperationKind.TERMINATE: lifecycle.terminate,
            OperationKind.RESTART: self._restart,
            OperationKind.CONFIGURE: self._configure,
            OperationKind.SUSPEND: lifecycle.suspend,
            OperationKind.RESUME: lifecycle.resume,
            OperationKind.RESIZE: lifecycle.resize,
            OperationKind.RELOCATE: lifecycle.relocate,
            OperationKind.SCHEDULE_TERMINATION: lifecycle.schedule_termination,
            OperationKind.BACKUP: session.backups.backup_of,
            OperationKind.RESTORE: session.backups.restore_of,
            OperationKind.SNAPSHOT: session.snapshots.work_of,
            OperationKind.DRILL: Drills(session).work_of,
            OperationKind.STACK_UP: StackUps(self._app).work_of,
            OperationKind.POOL_FILL: session.pools.work_of,
            OperationKind.ROLLOUT: session.rollouts.work_of,
        }

    def _provision(self, operation: Operation, lease: Lease) -> "Provision":
        from hermesops.instances.workflows.provision import Provision

        reach = self._session.instance_client.with_lease(lease)
        return Provision(instance_of(operation), self._app.registry, reach, LazyCells(self._app))

    def _restart(self, operation: Operation, lease: Lease) -> "Restart":
        from hermesops.instances.workflows.restart import Restart

        reach = self._session.instance_client.with_lease(lease)
        return Restart(instance_of(operation), RestartIntent.of(operation).before, reach)

    def _configure(self, operation: Operation, lease: Lease) -> "Configure":
        from hermesops.instances.workflows.configure import Configure

        return Configure(instance_of(operation), self._session.instance_client.with_lease(lease))
