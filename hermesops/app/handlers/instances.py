"""What brings agents through their lives: handlers of suspend, resume, resize, relocate and terminate."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.errors import BrokenInvariantError
from hermesops.identity.mass_change import COUNTED
from hermesops.model.backup import BEFORE_RESTORE
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.container_parts.connected import Connected
    from hermesops.instances.expiry import Upkeep
    from hermesops.instances.requests.life_changes import InstanceRequests
    from hermesops.instances.requests.placement import MachinePlacement
    from hermesops.instances.workflows.relocate.workflow import Relocate
    from hermesops.instances.workflows.resize import Resize, Size
    from hermesops.instances.workflows.resume import Resume
    from hermesops.instances.workflows.schedule_termination import ScheduleTermination
    from hermesops.instances.workflows.suspend import Suspend
    from hermesops.instances.workflows.terminate import Terminate
    from hermesops.model.instance import Instance
    from hermesops.operations.runner import Handler


class LifecycleHandlers:
    """Makes works of lives in one session.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app

    def handlers(self) -> "Mapping[OperationKind, Handler]":
        """The kinds of operations that change an agent's life, with what makes their work."""
        return {
            OperationKind.SUSPEND: self._suspend,
            OperationKind.RESUME: self._resume,
            OperationKind.RESIZE: self._resize,
            OperationKind.RELOCATE: self._relocate,
            OperationKind.SCHEDULE_TERMINATION: self._schedule_termination,
            OperationKind.TERMINATE: self._terminate,
        }

    def requests(self) -> "InstanceRequests":
        """Turns what operators ask of lives into rows."""
        from hermesops.instances.requests.life_changes import InstanceRequests, Policy
        from hermesops.instances.workflows.suspend import Keep

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
        request = self._session.requests.terminate(instance.id, keeps_backup=keeps, reason="its days of grace are over")
        return await self._session.operations.run(await request)

    def _suspend(self, operation: Operation, lease: Lease) -> "Suspend":
        from hermesops.instances.workflows.suspend import Keep, Suspend

        reach = self._session.instance_client.with_lease(lease)
        return Suspend(
            instance_of(operation),
            why=_why(operation),
            keep=Keep(str(operation.intent["keep"])),
            registry=self._app.registry,
            world=reach,
            copies=self._session.copies(reach),
            cells=self._app.cell_stacks,
        )

    def _resume(self, operation: Operation, lease: Lease) -> "Resume":
        from hermesops.instances.workflows.resume import Resume

        reach = self._session.instance_client.with_lease(lease)
        return Resume(instance_of(operation), self._app.registry, reach, self._session.copies(reach))

    def _resize(self, operation: Operation, lease: Lease) -> "Resize":
        from hermesops.instances.workflows.resize import Resize

        self._app.mass_changes.refuse_unapproved(operation)
        reach, before = self._session.instance_client.with_lease(lease), operation.intent["before"]
        if not isinstance(before, dict):
            raise BrokenInvariantError(f"operation {operation.id} does not say what the plan was before")
        return Resize(
            instance_of(operation),
            why=_why(operation),
            before=self._size(before),
            size=self._size(operation.intent),
            registry=self._app.registry,
            world=reach,
            copies=self._session.copies(reach),
            cells=self._app.cell_stacks,
        )

    def _size(self, told: "Mapping[str, object]") -> "Size":
        from hermesops.instances.workflows.resize import Size

        plan = Plan(str(told["plan"]))
        return Size(plan, str(told["server_type"]), self._app.env.settings.data_gb[plan])

    def _relocate(self, operation: Operation, lease: Lease) -> "Relocate":
        from hermesops.app.adapters.release_transfer import ReleaseTransfer
        from hermesops.instances.workflows.relocate.request import RelocationRequest
        from hermesops.instances.workflows.relocate.workflow import Relocate

        if operation.intent.get(COUNTED):
            self._app.mass_changes.refuse_unapproved(operation)
        reach = self._session.instance_client.with_lease(lease)
        return Relocate(
            instance_of(operation),
            RelocationRequest.from_intent(operation.intent, why=_why(operation)),
            registry=self._app.registry,
            world=reach,
            backups=self._session.copies(reach),
            cells=self._app.cell_stacks,
            releases=ReleaseTransfer(self._session, lease),
            lease=lease,
        )

    def _schedule_termination(self, operation: Operation, lease: Lease) -> "ScheduleTermination":
        from hermesops.instances.workflows.schedule_termination import ScheduleTermination

        self._app.mass_changes.refuse_unapproved(operation)
        reach = self._session.instance_client.with_lease(lease)
        return ScheduleTermination(
            instance_of(operation),
            why=_why(operation),
            until=datetime.fromisoformat(str(operation.intent["until"])),
            registry=self._app.registry,
            world=reach,
            backups=self._session.copies(reach),
        )

    def _terminate(self, operation: Operation, lease: Lease) -> "Terminate":
        from hermesops.instances.workflows.terminate import Terminate, TerminationRequest

        self._app.mass_changes.refuse_unapproved(operation)
        reach = self._session.instance_client.with_lease(lease)
        return Terminate(
            instance_of(operation),
            TerminationRequest(_why(operation), keeps_backup=bool(operation.intent["keeps_backup"])),
            registry=self._app.registry,
            world=reach,
            gateways=reach.gateways,
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
    if operation.kind is OperationKind.RELOCATE and operation.intent.get("snapshot"):
        return f"{BEFORE_RESTORE} {operation.id}"  # what is on the old machine is replaced by that backup
    return f"before {operation.kind} {operation.id}"
