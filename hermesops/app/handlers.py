"""Builds the workflow of each kind of operation from its row and lease."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.requests.mass_changes import MassChanges
from hermesops.agents.instances.workflows.configure import Configure
from hermesops.agents.instances.workflows.copies.snapshot import Snapshot
from hermesops.agents.instances.workflows.provision import Provision
from hermesops.agents.instances.workflows.reboot import Reboot
from hermesops.agents.instances.workflows.relocate import Relocate
from hermesops.agents.instances.workflows.resize import Resize
from hermesops.agents.instances.workflows.restart import Restart
from hermesops.agents.instances.workflows.resume import Resume
from hermesops.agents.instances.workflows.schedule_termination import ScheduleTermination
from hermesops.agents.instances.workflows.suspend import Suspend
from hermesops.agents.instances.workflows.terminate import Terminate
from hermesops.model.fleet.instance import Instance
from hermesops.model.image import snapshot_name
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.store.operations.kinds.agents import (
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.operations.kinds.copies import backup_reason
from hermesops.store.operations.kinds.instance_intent import instance_of
from hermesops.store.operations.runner import Handler
from hermesops.store.registry import Registry

if TYPE_CHECKING:
    from hermesops.agents.backup.drills import Drills
    from hermesops.agents.backup.service import Backups
    from hermesops.agents.cells.service import StackUps
    from hermesops.agents.instances.releases.transfer import ReleaseTransfer
    from hermesops.agents.instances.remote.power_control import PowerControl
    from hermesops.agents.instances.requests.snapshots import Snapshots
    from hermesops.agents.pool.service import Pools
    from hermesops.agents.rollout.service import Rollouts
    from hermesops.automation.jobs.service import Jobs


@dataclass(frozen=True)
class OperationHandlers:
    """Builds workflows.

    Attributes:
        backups, snapshots, drills, stack_ups, pools, rollouts, jobs: Make services, which commands of other kinds
            never load.
    """

    registry: Registry
    client: Callable[[Lease], "PowerControl"]
    cells: CellStacks
    backups: Callable[[], "Backups"]
    snapshots: Callable[[], "Snapshots"]
    drills: Callable[[], "Drills"]
    stack_ups: Callable[[], "StackUps"]
    pools: Callable[[], "Pools"]
    rollouts: Callable[[], "Rollouts"]
    jobs: Callable[[], "Jobs"]
    mass_changes: MassChanges
    data_gb: Mapping[Plan, int]
    transfer: Callable[[Lease], "ReleaseTransfer"]

    def handlers(self) -> dict[OperationKind, Handler]:
        """The handler of each kind of operation."""
        return {
            OperationKind.PROVISION: self._provision,
            OperationKind.SUSPEND: self._suspend,
            OperationKind.RESUME: self._resume,
            OperationKind.RESIZE: self._resize,
            OperationKind.RELOCATE: self._relocate,
            OperationKind.SCHEDULE_TERMINATION: self._schedule_termination,
            OperationKind.TERMINATE: self._terminate,
            OperationKind.RESTART: self._restart,
            OperationKind.REBOOT: self._reboot,
            OperationKind.CONFIGURE: self._configure,
            OperationKind.BACKUP: lambda operation, lease: self.backups().backup_of(operation, lease),
            OperationKind.RESTORE: lambda operation, lease: self.backups().restore_of(operation, lease),
            OperationKind.SNAPSHOT: self._snapshot,
            OperationKind.DRILL: lambda operation, lease: self.drills().work_of(operation, lease),
            OperationKind.STACK_UP: lambda operation, lease: self.stack_ups().work_of(operation, lease),
            OperationKind.POOL_FILL: lambda operation, lease: self.pools().work_of(operation, lease),
            OperationKind.JOB_RUN: lambda operation, lease: self.jobs().run_of(operation, lease),
            OperationKind.ROLLOUT: lambda operation, lease: self.rollouts().work_of(operation, lease),
        }

    def _provision(self, operation: Operation, lease: Lease) -> Provision:
        async def save_record(instance: Instance) -> None:
            await self.backups().save_first_record(instance)

        return Provision(instance_of(operation), self.registry, self.client(lease), self.cells, save_record)

    def _suspend(self, operation: Operation, lease: Lease) -> Suspend:
        client = self.client(lease)
        return Suspend(
            instance_of(operation),
            why=backup_reason(operation),
            keep=SuspendIntent.of(operation).keep,
            registry=self.registry,
            client=client,
            backups=self.backups().copies(client),
            cells=self.cells,
        )

    def _resume(self, operation: Operation, lease: Lease) -> Resume:
        client = self.client(lease)
        return Resume(instance_of(operation), self.registry, client, self.backups().copies(client))

    def _resize(self, operation: Operation, lease: Lease) -> Resize:
        self.mass_changes.refuse_unapproved(operation)
        client, intent = self.client(lease), ResizeIntent.of(operation)
        return Resize(
            instance_of(operation),
            why=backup_reason(operation),
            before=intent.before,
            size=intent.after,
            data_gb=self.data_gb,
            registry=self.registry,
            client=client,
            backups=self.backups().copies(client),
            cells=self.cells,
        )

    def _relocate(self, operation: Operation, lease: Lease) -> Relocate:
        intent = RelocateIntent.of(operation)
        if intent.changes_plan:
            self.mass_changes.refuse_unapproved(operation)
        client = self.client(lease)
        return Relocate(
            instance_of(operation),
            intent,
            why=backup_reason(operation),
            registry=self.registry,
            client=client,
            backups=self.backups().copies(client),
            cells=self.cells,
            releases=self.transfer(lease),
        )

    def _schedule_termination(self, operation: Operation, lease: Lease) -> ScheduleTermination:
        self.mass_changes.refuse_unapproved(operation)
        client = self.client(lease)
        return ScheduleTermination(
            instance_of(operation),
            why=backup_reason(operation),
            until=ScheduleTerminationIntent.of(operation).until,
            registry=self.registry,
            client=client,
            backups=self.backups().copies(client),
        )

    def _terminate(self, operation: Operation, lease: Lease) -> Terminate:
        self.mass_changes.refuse_unapproved(operation)
        client = self.client(lease)
        return Terminate(
            instance_of(operation),
            why=backup_reason(operation),
            keeps_backup=TerminateIntent.of(operation).keeps_backup,
            registry=self.registry,
            client=client,
            backups=self.backups().copies(client),
            snapshots=self.snapshots(),
            cells=self.cells,
        )

    def _snapshot(self, operation: Operation, lease: Lease) -> Snapshot:
        snapshots, instance_id = self.snapshots(), instance_of(operation)
        name = snapshot_name(snapshots.environment, instance_id, operation.id)
        return Snapshot(instance_id, name, self.client(lease), snapshots)

    def _restart(self, operation: Operation, lease: Lease) -> Restart:
        return Restart(instance_of(operation), RestartIntent.of(operation).before, self.client(lease))

    def _reboot(self, operation: Operation, lease: Lease) -> Reboot:
        return Reboot(instance_of(operation), operation.id, self.registry, self.client(lease))

    def _configure(self, operation: Operation, lease: Lease) -> Configure:
        return Configure(instance_of(operation), self.client(lease))
