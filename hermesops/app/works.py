"""What does each kind of operation, given its row and the lease under which it is done."""

from typing import TYPE_CHECKING

from hermesops.app.lives import Lives, instance_of
from hermesops.app.stack_ups import StackUps
from hermesops.model.operation import Lease, Operation, OperationKind

if TYPE_CHECKING:
    from hermesops.app.session import Session
    from hermesops.lifecycle.configure import Configure
    from hermesops.lifecycle.provision import Provision
    from hermesops.lifecycle.restart import Restart
    from hermesops.operation.runner import Make


class Works:
    """Makes works in one session.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._app = session.app

    def by_kind(self) -> "dict[OperationKind, Make]":
        """Every kind of operation that can be run, with what makes its work."""
        return {
            OperationKind.PROVISION: self._provision,
            **Lives(self._session).by_kind(),
            OperationKind.RESTART: self._restart,
            OperationKind.CONFIGURE: self._configure,
            **self._session.backups.by_kind(),
            OperationKind.STACK_UP: StackUps(self._app).work_of,
            OperationKind.POOL_FILL: self._session.pools.work_of,
        }

    def _provision(self, operation: Operation, lease: Lease) -> "Provision":
        from hermesops.lifecycle.provision import Provision

        reach = self._session.reach.under(lease)
        return Provision(instance_of(operation), self._app.registry, reach, self._app.cell_stacks)

    def _restart(self, operation: Operation, lease: Lease) -> "Restart":
        from hermesops.lifecycle.restart import Restart

        reach = self._session.reach.under(lease)
        return Restart(instance_of(operation), str(operation.intent["before"]), reach, reach.gateways)

    def _configure(self, operation: Operation, lease: Lease) -> "Configure":
        from hermesops.lifecycle.configure import Configure

        return Configure(instance_of(operation), self._session.reach.under(lease))
