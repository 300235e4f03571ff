"""Accepts requests to change an instance: suspend, resume, resize, move, restore, restart, configure, terminate.

Everything that can be checked is checked first, under the instance's lease. Then one row with the
intent is written, and a workflow carries it out.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests import eligibility
from hermesops.agents.instances.requests.eligibility import Requirement
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.agents.instances.requests.placement import MachinePlacement, refuse_unsold
from hermesops.agents.instances.requests.settings_patch import SettingsPatch
from hermesops.agents.instances.requests.termination import Termination
from hermesops.agents.instances.steps.ports import Backups
from hermesops.errors import AlreadySoError, Hint, Parameter, RefusedError, UsageError
from hermesops.model.access.masking import changed, outline
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import ImageId, InstanceId, MachineId
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import GB, Plan
from hermesops.store.operations.kinds.agents import (
    ApprovedList,
    ConfigureIntent,
    Keep,
    PlanSize,
    RebootIntent,
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ResumeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.registry import Registry

_UNDOES = frozenset({OperationKind.RESUME, OperationKind.RELOCATE})
"""Operations by which an agent whose termination was cancelled runs again."""


@dataclass(frozen=True)
class Policy:
    """The environment's settings about changes of instances.

    Attributes:
        grace: For how long a termination can be cancelled.
    """

    server_types: Mapping[Plan, str]
    data_gb: Mapping[Plan, int]
    grace: timedelta
    keep: Keep
    keeps_previous: bool


Admit = Callable[[OperationKind, InstanceId], ApprovedList | None]
"""Raises where a change exceeds the limit for mass changes; else returns the list that approves it, if any."""


@dataclass(frozen=True)
class InstanceRequests:
    """Turns requests into rows.

    A request without a reason, where one is asked for, raises ``UsageError``; where another process works on the
    instance, any raises ``LeaseHeldError``. Nothing is changed by a request that raises.
    """

    registry: Registry
    client: PowerControl
    backups: Backups
    machine_placement: MachinePlacement
    policy: Policy
    opener: OperationOpener
    admit: Admit = lambda _kind, _id: None

    async def terminate(self, user_text: str, *, keeps_backup: bool, reason: str) -> Operation:
        """Record that an instance shall end now.

        Args:
            keeps_backup: Whether its last backup has to be made and proved first; else from here on every run of its
                cell may destroy its machine.

        Raises:
            RefusedError: Somebody is working on the instance, or too many end; nothing was changed.
        """
        async with self.opener.eligible(user_text, eligibility.TERMINATE) as instance:
            intent = TerminateIntent(
                user=user_text,
                machine_name=instance.machine_name,
                reason=reason,
                keeps_backup=keeps_backup,
                approved=self.admit(OperationKind.TERMINATE, instance.id),
            )
            operation = self.opener.open(instance, intent)
            # An open termination keeps its own ``keeps_backup``.
            if not TerminateIntent.of(operation).keeps_backup:
                self.opener.mark_for_deletion(instance, reason or f"terminate {operation.id}")
        return operation

    async def end(self, user_text: str, termination: Termination, *, reason: str) -> Operation:
        """Record that an agent shall end, now or after its days of grace.

        Raises:
            RefusedError: As ``terminate`` and ``schedule_termination``.
        """
        if termination.at_once:
            return await self.terminate(user_text, keeps_backup=termination.keeps_backup, reason=reason)
        return await self.schedule_termination(user_text, reason=reason or "asked for")

    async def schedule_termination(self, user_text: str, *, reason: str) -> Operation:
        """Record that an agent shall end after its days of grace.

        Raises:
            RefusedError: It has ended, has never started, or has another unfinished operation.
        """
        async with self._asked(user_text, eligibility.SCHEDULE_TERMINATION, reason) as instance:
            intent = ScheduleTerminationIntent(
                user=user_text,
                reason=reason.strip(),
                until=self.registry.now() + self.policy.grace,
                approved=self.admit(OperationKind.SCHEDULE_TERMINATION, instance.id),
            )
            return self.opener.open(instance, intent)

    async def restart(self, user_text: str, *, reason: str = "") -> Operation:
        """Record that a gateway shall be restarted, with the id of its present start and the reason, if any.

        Raises:
            UnavailableError: Its machine does not answer.
            RefusedError: It is suspended, its machine is gone, or another operation works on it. In all these cases
                nothing was changed.
        """
        async with self.opener.eligible(user_text, eligibility.RESTART) as instance:
            machine = await self.client.machine(instance)
            if machine is None:
                is_backed_up = self.registry.backups.is_backed_up(instance.id)
                raise refusals.unreachable(Observation(instance, None, is_backed_up=is_backed_up))
            before = await self.client.gateways.invocation(MachineId(machine.id))
            return self.opener.open(instance, RestartIntent(user=user_text, before=before, reason=reason.strip()))

    async def reboot(self, user_text: str, *, reason: str) -> Operation:
        """Record that a machine shall be brought up that does not answer; one that answers is left alone.

        Raises:
            RefusedError: The agent is suspended, has ended or has never started, or another operation works on it.
        """
        async with self._asked(user_text, eligibility.REBOOT, reason) as instance:
            return self.opener.open(instance, RebootIntent(user=user_text, reason=reason.strip()))

    async def configure(self, user_text: str, patch: SettingsPatch | None, *, reason: str) -> Operation:
        """Record an instance's new settings and that its machine shall have them.

        Args:
            patch: What the settings become; ``None`` means those before.

        Raises:
            RefusedError: It is suspended or has ended, something is under way for it, or there is nothing to go back
                to.
            UnavailableError: Its machine does not answer. In all these cases nothing was changed.
        """
        if not reason.strip():
            raise UsageError(
                f"settings are a user's own; say why you change those of {user_text}",
                hint=Hint(("instance", "settings", user_text, "--reason", "WHY")),
            )
        async with self.opener.eligible(user_text, eligibility.CONFIGURE) as instance:
            node = await self._settable(instance)
            settings = self.registry.instance_secrets.settings(instance.id)
            new_settings = patch(settings) if patch else self.registry.instance_secrets.settings_before(instance.id)
            if new_settings is None:
                raise RefusedError(
                    f"the settings of {instance.title} were never changed: there is nothing to go back to"
                )
            if new_settings.provider and not node.takes_endpoint:
                raise refusals.knows_no_provider(instance)
            intent = ConfigureIntent(
                user=user_text,
                reason=reason.strip(),
                changed=tuple(changed(settings, new_settings)),
                settings=outline(new_settings),
            )
            return self.opener.change_settings(instance, new_settings, intent)

    async def refuse_provider(self, user_text: str) -> None:
        """Check that an instance takes a model provider of its user's now; raises as ``configure``."""
        async with self.opener.eligible(user_text, eligibility.CONFIGURE) as instance:
            if not (await self._settable(instance)).takes_endpoint:
                raise refusals.knows_no_provider(instance)

    async def _settable(self, instance: Instance) -> NodeState:
        observation = await self.client.observe(instance.id)
        if observation.machine is None or observation.node is None:
            raise refusals.unreachable(observation)
        return observation.node

    async def suspend(self, user_text: str, *, keep: Keep | None, reason: str) -> Operation:
        """Record that an agent shall be suspended.

        Args:
            keep: What becomes of the machine; ``None``: as the settings say.

        Raises:
            RefusedError: It has ended, has never started, or has another unfinished operation.
        """
        async with self._asked(user_text, eligibility.SUSPEND, reason) as instance:
            intent = SuspendIntent(user=user_text, reason=reason.strip(), keep=keep or self.policy.keep)
            return self.opener.open(instance, intent, lambda begun: keep in {None, begun.keep})

    async def resume(self, user_text: str, *, undo: bool = False, reason: str) -> Operation:
        """Record that a suspended agent shall be resumed, on its machine or with its newest backup on another.

        This also starts a gateway that an abandoned operation left stopped.

        Args:
            undo: Whether to cancel a scheduled termination.

        Raises:
            AlreadySoError: It is running.
            RefusedError: It has another unfinished operation.
        """
        requirement = eligibility.CANCEL_TERMINATION if undo else eligibility.RESUME
        async with self._asked(user_text, requirement, reason) as instance:
            self._cancel(requirement.cancels, instance, reason)
            moves = bool(self.opener.unfinished(instance, OperationKind.RELOCATE))
            if instance.status is InstanceStatus.RUNNING and not moves:
                await self._refuse_running(instance)
            # During a relocation the row has a machine again; the unfinished operation completes it.
            if self.registry.instances.is_machine_wanted(instance.id) and not moves:
                return self.opener.open(instance, ResumeIntent(user=user_text, reason=reason.strip()))
            snapshot = self._chosen(instance, "")
            here = self.machine_placement.here(instance)
            return self._relocation(instance, user_text, reason, here, snapshot=snapshot, compared=None)

    async def undo_termination(self, user_text: str, *, reason: str) -> Operation:
        """Record that a scheduled termination shall be cancelled, and that the agent shall run again.

        Raises:
            AlreadySoError: No termination is scheduled: a suspended agent stays suspended.
            RefusedError: As ``resume``.
        """
        instance = self.registry.instances.find(user_text)
        unfinished = self.opener.unfinished(instance)
        has_begun = any(operation.kind in _UNDOES for operation in unfinished)
        is_suspended = instance.status is InstanceStatus.SUSPENDED
        if is_suspended and not has_begun and not eligibility.is_ending(instance, unfinished):
            hint = Hint(("instance", "resume", instance.title, "--reason", "WHY"), "runs the agent again")
            raise AlreadySoError(f"no termination of {instance.title} is scheduled", hint=hint)
        return await self.resume(user_text, undo=True, reason=reason)

    def _cancel(self, ends: AbstractSet[OperationKind], instance: Instance, reason: str) -> None:
        """Close terminations that have not marked the machine for deletion yet."""
        for operation in self.opener.unfinished(instance, *ends) if ends else ():
            if operation.kind is OperationKind.TERMINATE and not self.registry.instances.is_machine_wanted(instance.id):
                raise refusals.operation_unfinished(instance, operation)
            self.opener.cancel(operation, reason)

    async def _refuse_running(self, instance: Instance) -> None:
        if self.opener.unfinished(instance, OperationKind.RESUME):
            return
        node = (await self.client.observe(instance.id)).node
        if node is None or not node.fenced:
            raise AlreadySoError(
                f"the agent of {instance.title} is running", hint=Hint(("instance", "show", instance.title))
            )

    async def resize(self, user_text: str, plan: Plan, *, onto_new_machine: bool, reason: str) -> Operation:
        """Record that an agent shall have another plan.

        Raises:
            AlreadySoError: It has that plan.
            RefusedError: It is suspended or has ended, its data does not fit, JustAVPS does not sell it there, or has
                another unfinished operation.
            UnavailableError: Its machine does not say how much data it holds.
        """
        requirement = eligibility.RELOCATE if onto_new_machine else eligibility.RESIZE
        async with self._asked(user_text, requirement, reason) as instance:
            if instance.plan is plan and not self.opener.unfinished(instance, requirement.kind.kind):
                raise AlreadySoError(f"{instance.title} has plan {plan} already")
            await self._refuse_too_small(instance, plan)
            place, size = self.machine_placement.here(instance, plan), self.policy.server_types[plan]
            await refuse_unsold(self.client, size, place.region)
            if onto_new_machine:
                return self._relocation(instance, user_text, reason, place, plan=plan)
            intent = ResizeIntent(
                user=user_text,
                reason=reason.strip(),
                before=PlanSize(instance.plan, self.policy.server_types[instance.plan]),
                after=PlanSize(plan, size),
                approved=self.admit(OperationKind.RESIZE, instance.id),
            )
            return self.opener.open(instance, intent, lambda begun: begun.after.plan is plan)

    def shrinks(self, instance: Instance, plan: Plan) -> bool:
        """Whether a plan has room for less data than an instance's own."""
        return self.policy.data_gb[plan] < self.policy.data_gb[instance.plan]

    async def _refuse_too_small(self, instance: Instance, plan: Plan) -> None:
        room, observation = self.policy.data_gb[plan], await self.client.observe(instance.id)
        if not self.shrinks(instance, plan):
            return
        answers = observation.machine is not None and observation.node is not None
        used = await self.client.bytes_in_use(observation.machine.id) if answers and observation.machine else None
        if used is None:
            raise refusals.unreachable(observation)
        if used > room * GB:
            raise RefusedError(
                f"{instance.title} has {used / GB:.1f} GB of data; plan {plan} has room for {room} GB",
                hint="the user has to delete some first",
            )

    async def move(self, user_text: str, *, cell: str, region: str, reason: str) -> Operation:
        """Record that an instance shall be on a machine of another cell or region.

        Raises:
            UsageError: Neither cell nor region, or there is no such cell.
            AlreadySoError: It is there.
            RefusedError: It is suspended or has ended, JustAVPS sells no machine of its plan there, or has another
                unfinished operation.
        """
        if bool(cell) == bool(region):
            raise UsageError(
                "name one place to move to",
                hint=Hint("give either", Parameter("cell", "CELL"), "or", Parameter("region", "REGION")),
            )
        async with self._asked(user_text, eligibility.RELOCATE, reason) as instance:
            here = self.machine_placement.cell(instance.cell)
            moves = self.opener.unfinished(instance, OperationKind.RELOCATE)
            if (cell or region) in {here.cell, here.region} and not moves:
                raise AlreadySoError(
                    f"{instance.title} is in {cell or region} already", hint=Hint(("cell", "list"), "shows others")
                )
            place = self.machine_placement.cell(cell) if cell else self.machine_placement.region(region, instance)
            await refuse_unsold(self.client, self.policy.server_types[instance.plan], place.region)
            return self._relocation(instance, user_text, reason, place, compared=("cell",) if cell else ())

    async def renew(self, user_text: str, image_id: ImageId, *, reason: str) -> Operation:
        """Record that an instance shall be on a new machine of an image, in the region where it is.

        Raises:
            RefusedError: It is suspended or has ended, JustAVPS sells no machine of its plan there, or something else
                is under way for it.
        """
        async with self._asked(user_text, eligibility.RELOCATE, reason) as instance:
            place = self.machine_placement.here(instance)
            await refuse_unsold(self.client, self.policy.server_types[instance.plan], place.region)
            return self._relocation(instance, user_text, reason, place, image_id=image_id, compared=("image_id",))

    async def restore(self, user_text: str, *, snapshot: str, reason: str) -> Operation:
        """Record that an instance shall run on a new machine, from a backup instead of its present state.

        Args:
            snapshot: The backup's id; empty for the newest.

        Raises:
            UsageError: There is no such backup.
            RefusedError: It has ended, has no backup, or has another unfinished operation.
        """
        async with self._asked(user_text, eligibility.RESTORE_ANEW, reason) as instance:
            chosen, place = self._chosen(instance, snapshot), self.machine_placement.here(instance)
            return self._relocation(instance, user_text, reason, place, snapshot=chosen)

    def _chosen(self, instance: Instance, snapshot: str) -> str:
        if snapshot:
            return self.backups.get(instance.id, snapshot).id
        newest = self.backups.newest(instance.id)
        if newest is None:
            raise refusals.no_backup(instance)
        return newest.id

    def _relocation(
        self,
        instance: Instance,
        user_text: str,
        reason: str,
        place: Placement,
        *,
        plan: Plan | None = None,
        snapshot: str = "",
        image_id: ImageId | None = None,
        compared: Sequence[str] | None = (),
    ) -> Operation:
        """Open a relocation, or find the one that is under way; ``compared`` is as in ``RelocateIntent.asks_the_same``.

        ``None`` continues any relocation that is under way.
        """
        size = plan or instance.plan
        intent = RelocateIntent(
            user=user_text,
            reason=reason.strip(),
            origin=instance.machine_name,
            cell=place.cell,
            region=place.region,
            plan=size,
            server_type=self.policy.server_types[size],
            image_id=image_id or self.machine_placement.image(),
            only_plan=place.only_plan,
            snapshot=snapshot,
            keeps_previous=self.policy.keeps_previous,
            changes_plan=plan is not None,
            approved=self.admit(OperationKind.RELOCATE, instance.id) if plan else None,
        )
        if not self.opener.unfinished(instance, OperationKind.RELOCATE):
            self.opener.retire_leftovers(instance, intent)
        is_the_same = None if compared is None else (lambda begun: intent.asks_the_same(begun, *compared))
        return self.opener.open(instance, intent, is_the_same)

    def _asked(
        self,
        user_text: str,
        requirement: Requirement,
        reason: str,
    ) -> AbstractAsyncContextManager[Instance]:
        """As ``OperationOpener.eligible``, for requests that need a reason."""
        if not reason.strip():
            raise UsageError(f"say why you do that to {user_text}", hint=Hint(Parameter("reason", "WHY")))
        return self.opener.eligible(user_text, requirement)
