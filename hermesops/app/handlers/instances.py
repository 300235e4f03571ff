"""What brings agents through their lives: handlers of suspend, resume, resize, relocate and terminate."""

from datetime import timedelta
from typing import TYPE_CHECKING

from hermesops.errors import BrokenInvariantError
from hermesops.model.backup import BEFORE_RESTORE
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.operations.kinds import (
    Keep,
    PlanSize,
    RelocateIntent,
    ResizeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.instances.expiry import Upkeep
    from hermesops.instances.requests.changes import InstanceRequests
    from hermesops.instances.requests.placement import MachinePlacement
    from hermesops.instances.workflows.relocate.workflow import Relocate
    from hermesops.instances.workflows.resize import Resize, Size
    from hermesops.instances.workflows.resume import Resume
    from hermesops.instances.workflows.schedule_termination import ScheduleTermination
    from hermesops.instances.workflows.suspend import Suspend
    from hermesops.instances.workflows.terminate import Terminate
    from hermesops.model.instance import Instance


class LifecycleHandlers:
    """Makes works of lives in one session.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app

    def requests(self) -> "InstanceRequests":
        """Turns what operators ask of lives into rows."""
        from hermesops.instances.requests.changes import InstanceRequests, Policy

        settings, registry, reach = self._app.env.settings, self._app.registry, self._session.instance_client
        policy = Policy(
            settings.server_types,
            settings.data_gb,
            timedelta(days=settings.grace_days),
            Keep(settings.suspended_machines),
            keeps_former=settings.former_days > 0,
        )
        return InstanceRequests(
            registry,
            reach,
            self._session.copies(reach),
            self.machine_placement(),
            policy,
            self._app.hold_lease,
            admit=self._app.mass_changes.admit,
        )

    def machine_placement(self) -> "MachinePlacement":
        """Where machines of instances can be, and what they boot from."""
        from hermesops.cells.scheduling import choose_cell
        from hermesops.instances.requests.placement import MachinePlacement

        settings = self._app.env.settings
        size, apart = settings.cell_size, settings.plans_apart
        return MachinePlacement(
            self._app.registry, self._session.instance_client, choose_cell, settings.image, size, apart
        )

    def upkeep(self) -> "Upkeep":
        """Does what has fallen due."""
        from hermesops.instances.expiry import Upkeep

        settings = self._app.env.settings
        kept = timedelta(days=settings.former_days)
        return Upkeep(self._app.registry, self._app.cell_stacks, self._end, kept)

    async def _end(self, instance: "Instance") -> str:
        keeps = self._app.env.settings.last_backup == "required"
        requests, why = self._session.instance_requests, "its days of grace are over"
        operation = await requests.terminate(instance.id, keeps_backup=keeps, reason=why)
        return await self._session.operations.run(operation)

    def suspend(self, operation: Operation, lease: Lease) -> "Suspend":
        """What suspends an agent, from its row."""
        from hermesops.instances.workflows.suspend import Suspend

        reach = self._session.instance_client.with_lease(lease)
        return Suspend(
            instance_of(operation),
            why=_why(operation),
            keep=SuspendIntent.of(operation).keep,
            registry=self._app.registry,
            client=reach,
            backups=self._session.copies(reach),
            cells=self._app.cell_stacks,
        )

    def resume(self, operation: Operation, lease: Lease) -> "Resume":
        """What resumes an agent, from its row."""
        from hermesops.instances.workflows.resume import Resume

        reach = self._session.instance_client.with_lease(lease)
        return Resume(instance_of(operation), self._app.registry, reach, self._session.copies(reach))

    def resize(self, operation: Operation, lease: Lease) -> "Resize":
        """What changes a plan in place, from its row."""
        from hermesops.instances.workflows.resize import Resize

        self._app.mass_changes.refuse_unapproved(operation)
        reach, intent = self._session.instance_client.with_lease(lease), ResizeIntent.of(operation)
        return Resize(
            instance_of(operation),
            why=_why(operation),
            before=self._size(intent.before),
            size=self._size(intent.after),
            registry=self._app.registry,
            client=reach,
            backups=self._session.copies(reach),
            cells=self._app.cell_stacks,
        )

    def _size(self, size: PlanSize) -> "Size":
        from hermesops.instances.workflows.resize import Size

        return Size(size.plan, size.server_type, self._app.env.settings.data_gb[size.plan])

    def relocate(self, operation: Operation, lease: Lease) -> "Relocate":
        """What brings an instance onto another machine, from its row."""
        from hermesops.app.adapters.release_transfer import ReleaseTransfer
        from hermesops.instances.workflows.relocate.workflow import Relocate

        intent = RelocateIntent.of(operation)
        if intent.changes_plan:
            self._app.mass_changes.refuse_unapproved(operation)
        reach = self._session.instance_client.with_lease(lease)
        return Relocate(
            instance_of(operation),
            intent,
            why=_why(operation),
            registry=self._app.registry,
            client=reach,
            backups=self._session.copies(reach),
            cells=self._app.cell_stacks,
            releases=ReleaseTransfer(self._session, lease),
        )

    def schedule_termination(self, operation: Operation, lease: Lease) -> "ScheduleTermination":
        """What schedules a termination, from its row."""
        from hermesops.instances.workflows.schedule_termination import ScheduleTermination

        self._app.mass_changes.refuse_unapproved(operation)
        reach = self._session.instance_client.with_lease(lease)
        return ScheduleTermination(
            instance_of(operation),
            why=_why(operation),
            until=ScheduleTerminationIntent.of(operation).until,
            registry=self._app.registry,
            client=reach,
            backups=self._session.copies(reach),
        )

    def terminate(self, operation: Operation, lease: Lease) -> "Terminate":
        """What ends an instance, from its row."""
        from hermesops.instances.workflows.terminate import Terminate

        self._app.mass_changes.refuse_unapproved(operation)
        reach = self._session.instance_client.with_lease(lease)
        return Terminate(
            instance_of(operation),
            why=_why(operation),
            keeps_backup=TerminateIntent.of(operation).keeps_backup,
            registry=self._app.registry,
            client=reach,
            backups=self._session.copies(reach),
            snapshots=self._session.snapshots,
            cells=self._app.cell_stacks,
        )


def instance_of(operation: Operation) -> InstanceId:
    """Whose an operation is.

    Raises:
        BrokenInvariantError: Its row names no instance.
    """
    if operation.instance_id is None:
        raise BrokenInvariantError(f"operation {operation.id} of kind {operation.kind} names no instance")
    return operation.instance_id


def _why(operation: Operation) -> str:
    """What a backup is made for that this operation makes: made once for it, however often it is continued."""
    if operation.kind is OperationKind.RELOCATE and RelocateIntent.of(operation).snapshot:
        return f"{BEFORE_RESTORE} {operation.id}"  # what is on the old machine is replaced by that backup
    return f"before {operation.kind} {operation.id}"
