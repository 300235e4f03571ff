"""Takes in what operators ask of a running agent: suspend, resume, resize, move, restore, terminate.

Everything that can be asked first is asked first; then one row is written that says what shall be, and others do it.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from hermesops.errors import RefusedError, UsageError
from hermesops.instances.ports import Observes
from hermesops.instances.requests.placement import MachinePlacement
from hermesops.instances.steps.personalise import asleep, silence, terminated, under_way
from hermesops.instances.workflows.relocate.request import RelocationRequest
from hermesops.instances.workflows.suspend import Keep
from hermesops.model.backup import Backup
from hermesops.model.cell import Placement
from hermesops.model.ids import ImageId, InstanceId, MachineId, instance_subject
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import GB, Plan
from hermesops.model.spare import Purpose
from hermesops.registry import Registry


class World(Observes, Protocol):
    """What has to be looked at first."""

    async def bytes_in_use(self, machine_id: MachineId) -> int | None:
        """Bytes that an instance's data takes."""


class Backups(Protocol):
    """Backups of instances, as far as they are chosen."""

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The one made last."""

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """One backup of an instance."""


@dataclass(frozen=True)
class Policy:
    """What the environment's settings say about lives.

    Attributes:
        server_types: Of each plan.
        data_gb: Gigabytes of data in each plan.
        grace: For how long a termination can be cancelled.
        keep: What becomes of a suspended agent's machine.
        keeps_former: Whether a machine that was left is kept for a while.
    """

    server_types: Mapping[Plan, str]
    data_gb: Mapping[Plan, int]
    grace: timedelta
    keep: Keep
    keeps_former: bool


class InstanceRequests:
    """Turns requests into rows.

    Args:
        registry: The registry.
        world: Machines and the vendor.
        backups: Backups.
        machine_placement: Where new machines can be.
        policy: Settings.
        hold_lease: Holds the lease of a subject, or refuses.
        admit: Refuses to end or resize one of too many; else what the operation's intent shall say of that.
    """

    def __init__(
        self,
        registry: Registry,
        world: World,
        backups: Backups,
        machine_placement: MachinePlacement,
        policy: Policy,
        hold_lease: Callable[[str], AbstractAsyncContextManager[object]],
        admit: Callable[[OperationKind, InstanceId], Mapping[str, object]] = lambda _kind, _id: {},
    ) -> None:
        self._admit = admit
        self._registry = registry
        self._world = world
        self._backups = backups
        self._machine_placement = machine_placement
        self._policy = policy
        self._hold_lease = hold_lease

    async def suspend(self, user_text: str, *, keep: Keep | None, reason: str) -> Operation:
        """Record that an agent shall be suspended.

        Args:
            user_text: Whose, as typed.
            keep: What becomes of the machine; ``None``: as the settings say.
            reason: Why; goes into the audit.

        Raises:
            UsageError: No reason was given.
            RefusedError: It has ended, or something else is under way for it.
        """
        async with self._taken(user_text, {OperationKind.SUSPEND}, reason) as instance:
            self._refuse_another(instance, OperationKind.SUSPEND, lambda intent: keep in {None, intent["keep"]})
            return self._open(OperationKind.SUSPEND, instance, user_text, reason, {"keep": keep or self._policy.keep})

    async def resume(self, user_text: str, *, undo: bool = False, reason: str) -> Operation:
        """Record that a suspended agent shall be resumed, on its machine or with its newest backup on another.

        So shall one whose gateway rests because something was given up halfway.

        Args:
            user_text: Whose, as typed.
            undo: Whether it was to end: a farewell that has not ended is given up.
            reason: Why; goes into the audit.

        Raises:
            UsageError: No reason was given.
            RefusedError: It is running, or something else is under way for it.
        """
        kinds = {OperationKind.RESUME, OperationKind.RELOCATE}
        ends = {OperationKind.SCHEDULE_TERMINATION, OperationKind.TERMINATE} if undo else set()
        async with self._taken(user_text, kinds | ends, reason) as instance:
            self._abandon(ends, instance, reason)
            if instance.status is InstanceStatus.RUNNING and not self._is_under_way(instance, kinds):
                await self._refuse_awake(instance)
            # Halfway to a new machine the row has a machine again; what is under way ends that.
            moves = self._is_under_way(instance, {OperationKind.RELOCATE})
            if self._registry.instances.is_machine_wanted(instance.id) and not moves:
                return self._open(OperationKind.RESUME, instance, user_text, reason, {})
            snapshot = self._chosen(instance, "")
            here = self._machine_placement.here(instance)
            return self._relocation(instance, user_text, reason, here, snapshot=snapshot, said=None)

    def _abandon(self, ends: AbstractSet[OperationKind], instance: Instance, reason: str) -> None:
        """Close ends that have not gone so far that the machine was given up."""
        for operation in self._registry.operations.list(unfinished=True, instance_id=instance.id):
            if operation.kind not in ends:
                continue
            if operation.kind is OperationKind.TERMINATE and not self._registry.instances.is_machine_wanted(
                instance.id
            ):
                raise under_way(instance, operation)
            self._registry.operations.finish(operation.id, OperationStatus.ABANDONED, f"cancelled: {reason}")

    async def _refuse_awake(self, instance: Instance) -> None:
        node = (await self._world.observe(instance.id)).node
        if node is None or not node.fenced:
            raise RefusedError(
                f"the agent of {instance.title} is running", hint=f"hermesops instance show {instance.title}"
            )

    async def resize(self, user_text: str, plan: Plan, *, onto_new_machine: bool, reason: str) -> Operation:
        """Record that an agent shall have another plan.

        Raises:
            UsageError: No reason was given.
            RefusedError: It is suspended or has ended, has that plan, its data does not fit, JustAVPS does not sell it
                there, or something else is under way for it.
            UnavailableError: Its machine does not say how much data it holds.
        """
        kinds = {OperationKind.RELOCATE if onto_new_machine else OperationKind.RESIZE}
        async with self._taken(user_text, kinds, reason) as instance:
            self._refuse_asleep(instance)
            if instance.plan is plan and not self._is_under_way(instance, kinds):
                raise RefusedError(f"{instance.title} has plan {plan} already")
            await self._refuse_too_small(instance, plan)
            place, size = self._machine_placement.here(instance, plan), self._policy.server_types[plan]
            await self._machine_placement.refuse_unsold(size, place.region)
            if onto_new_machine:
                return self._relocation(instance, user_text, reason, place, plan=plan)
            self._refuse_another(instance, OperationKind.RESIZE, lambda intent: plan == intent["plan"])
            before = {"plan": instance.plan, "server_type": self._policy.server_types[instance.plan]}
            marks = self._admit(OperationKind.RESIZE, instance.id)
            intent = {"before": before, "plan": plan, "server_type": size, **marks}
            return self._open(OperationKind.RESIZE, instance, user_text, reason, intent)

    async def move(self, user_text: str, *, cell: str, region: str, reason: str) -> Operation:
        """Record that an instance shall be on a machine of another cell or region.

        Raises:
            UsageError: No reason was given, neither cell nor region, or there is no such cell.
            RefusedError: It is suspended or has ended, is there already, JustAVPS sells no machine of its plan there,
                or something else is under way for it.
        """
        if bool(cell) == bool(region):
            raise UsageError("say where to: either --cell or --region")
        kinds = {OperationKind.RELOCATE}
        async with self._taken(user_text, kinds, reason) as instance:
            self._refuse_asleep(instance)
            here = self._machine_placement.cell(instance.cell)
            if (cell or region) in {here.cell, here.region} and not self._is_under_way(instance, kinds):
                raise RefusedError(
                    f"{instance.title} is in {cell or region} already", hint="hermesops cell list shows others"
                )
            place = self._machine_placement.cell(cell) if cell else self._machine_placement.region(region, instance)
            await self._machine_placement.refuse_unsold(self._policy.server_types[instance.plan], place.region)
            return self._relocation(instance, user_text, reason, place, said=("cell",) if cell else ())

    async def renew(self, user_text: str, image_id: ImageId, *, reason: str) -> Operation:
        """Record that an instance shall be on a new machine of an image, in the region where it is.

        Raises:
            UsageError: No reason was given.
            RefusedError: It is suspended or has ended, JustAVPS sells no machine of its plan there, or something else
                is under way for it.
        """
        async with self._taken(user_text, {OperationKind.RELOCATE}, reason) as instance:
            self._refuse_asleep(instance)
            place = self._machine_placement.here(instance)
            await self._machine_placement.refuse_unsold(self._policy.server_types[instance.plan], place.region)
            return self._relocation(instance, user_text, reason, place, image_id=image_id, said=("image_id",))

    async def restore(self, user_text: str, *, snapshot: str, reason: str) -> Operation:
        """Record that a backup of an instance shall live on a new machine, in place of what it has now.

        Args:
            user_text: Whose, as typed.
            snapshot: Which backup; empty: the newest.
            reason: Why; goes into the audit.

        Raises:
            UsageError: No reason was given, or there is no such backup.
            RefusedError: It has ended, has no backup, or something else is under way for it.
        """
        async with self._taken(user_text, {OperationKind.RELOCATE}, reason) as instance:
            chosen, place = self._chosen(instance, snapshot), self._machine_placement.here(instance)
            return self._relocation(instance, user_text, reason, place, snapshot=chosen)

    async def schedule_termination(self, user_text: str, *, reason: str) -> Operation:
        """Record that an agent shall end after its days of grace.

        Raises:
            UsageError: No reason was given.
            RefusedError: It has ended, or something else is under way for it.
        """
        async with self._taken(user_text, {OperationKind.SCHEDULE_TERMINATION}, reason) as instance:
            until = (self._registry.now() + self._policy.grace).isoformat()
            marks = self._admit(OperationKind.SCHEDULE_TERMINATION, instance.id)
            return self._open(
                OperationKind.SCHEDULE_TERMINATION, instance, user_text, reason, {"until": until, **marks}
            )

    @asynccontextmanager
    async def _taken(
        self, user_text: str, kinds: AbstractSet[OperationKind], reason: str
    ) -> AsyncGenerator[Instance, None]:
        """The instance, under its lease: exit 3 to whoever comes second has to mean that nothing was changed."""
        if not reason.strip():
            raise UsageError(f"say why you do that to {user_text}", hint='--reason "…"')
        async with self._hold_lease(instance_subject(self._registry.instances.find(user_text).id)):
            instance = self._registry.instances.find(user_text)
            if instance.status is InstanceStatus.TERMINATED:
                raise terminated(instance)
            for operation in self._registry.operations.list(unfinished=True, instance_id=instance.id):
                if operation.kind not in kinds:
                    raise under_way(instance, operation)
            yield instance

    def _is_under_way(self, instance: Instance, kinds: AbstractSet[OperationKind]) -> bool:
        return any(o.kind in kinds for o in self._registry.operations.list(unfinished=True, instance_id=instance.id))

    def _refuse_asleep(self, instance: Instance) -> None:
        if instance.status is InstanceStatus.SUSPENDED:
            raise asleep(instance)

    async def _refuse_too_small(self, instance: Instance, plan: Plan) -> None:
        room, observation = self._policy.data_gb[plan], await self._world.observe(instance.id)
        if self._policy.data_gb[instance.plan] <= room:
            return
        held = (
            await self._world.bytes_in_use(observation.machine.id) if observation.machine and observation.node else None
        )
        if held is None:
            raise silence(instance)
        if held > room * GB:
            raise RefusedError(
                f"{instance.title} has {held / GB:.1f} GB of data; plan {plan} has room for {room} GB",
                hint="the user has to delete some first",
            )

    def _chosen(self, instance: Instance, snapshot: str) -> str:
        if snapshot:
            return self._backups.get(instance.id, snapshot).id
        newest = self._backups.newest(instance.id)
        if newest is None:
            raise RefusedError(f"{instance.title} has no backup", hint=f"hermesops backup create {instance.title}")
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
        said: Sequence[str] | None = (),
    ) -> Operation:
        """Open a relocation, or find the one that is under way; ``said`` is as in ``Wish.asks_the_same``.

        With ``None`` for it whatever is under way is continued.
        """
        wanted = plan or instance.plan
        marks = self._admit(OperationKind.RELOCATE, instance.id) if plan else {}
        request = RelocationRequest(
            "",
            instance.machine_name,
            place.cell,
            place.region,
            wanted,
            self._policy.server_types[wanted],
            image_id or self._machine_placement.image(),
            place.only_plan,
            snapshot,
            keeps_former=self._policy.keeps_former,
        )
        if said is not None:
            self._refuse_another(
                instance,
                OperationKind.RELOCATE,
                lambda intent: request.asks_the_same(RelocationRequest.from_intent(intent, why=""), *said),
            )
        if not self._is_under_way(instance, {OperationKind.RELOCATE}):
            self._drop_leftovers(instance, request)
        return self._open(OperationKind.RELOCATE, instance, user_text, reason, {**request.to_intent(), **marks})

    def _refuse_another(
        self, instance: Instance, kind: OperationKind, is_the_same: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        """Who asks for one change is not told of the good end of another of its kind."""
        for operation in self._registry.operations.list(unfinished=True, instance_id=instance.id):
            if operation.kind is kind and not is_the_same(operation.intent):
                raise under_way(instance, operation)

    def _drop_leftovers(self, instance: Instance, request: RelocationRequest) -> None:
        """A machine that a relocation ordered before it was given up may be of another size or place."""
        for spare in self._registry.spares.list(purpose=Purpose.NEXT, instance_id=instance.id):
            if not request.fits(spare):
                self._registry.spares.retire(spare.name, why="its relocation was given up")

    def _open(
        self,
        kind: OperationKind,
        instance: Instance,
        user_text: str,
        reason: str,
        intent: Mapping[str, object],
    ) -> Operation:
        told = {"user": user_text, "reason": reason.strip(), **intent}
        return self._registry.operations.open(kind, instance_subject(instance.id), intent=told, instance_id=instance.id)
