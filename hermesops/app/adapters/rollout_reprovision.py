"""The machines of a rollout's targets for its runner: each agent onto another machine, which boots another image.

What a slot cannot change comes so: system, kernel, server type. The relocation's own row is the memory of how far one
came; what its outcome says of the image is read from there, so that whoever goes on knows as much.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermesops.app.adapters.rollout_in_place import machine_of, others_are_at_it, unwell
from hermesops.channel import understood
from hermesops.errors import BrokenInvariantError, HermesError, RefusedError, UnavailableError, UsageError
from hermesops.instances.remote import node_commands
from hermesops.model.ids import ImageId, InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import GateResult, ReleaseStatus, Target
from hermesops.model.slot import SlotsState
from hermesops.operations.db_thread import in_db_thread
from hermesops.operations.kinds import RelocateIntent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.container_parts.connected import Connected
    from hermesops.model.instance import Instance
    from hermesops.model.rollout_spec import Spec
    from hermesops.operations.runner import Operations
    from hermesops.registry import Registry

_LOOK_S = 20.0
_GIVEN_UP = frozenset({OperationStatus.FAILED, OperationStatus.ABANDONED})


@dataclass(frozen=True)
class Whereabouts:
    """Where an instance is, as the registry has it.

    Attributes:
        image: What its machine boots from; empty for the vendor's own.
        moving: The relocation that has not ended.
        given_up: The last one that was given up.
    """

    instance: "Instance"
    image: str
    moving: Operation | None
    given_up: Operation | None

    @property
    def is_cut_over(self) -> bool:
        """Whether it is on the new machine already, though its agent may not live there yet."""
        return self.moving is not None and self.instance.machine_name != RelocateIntent.of(self.moving).origin


class MachineMoves:
    """Images brought to instances by machines that boot them; the release that an agent runs goes with it.

    Args:
        session: What they are reached with.
        purpose: What it is done for, as ``rollout ID``.
    """

    def __init__(self, session: "Connected", purpose: str) -> None:
        self._session = session
        self._registry = session.app.registry
        self._purpose = purpose

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        """See which image it is on, and how its last relocation ended.

        Raises:
            UnavailableError: Its machine gives no answer.
        """
        found = await in_db_thread(whereabouts, self._registry, instance_id)
        standing = status_of(found)
        if standing.absent or standing.activation:
            return standing
        node = await self._node(found.instance)
        if node.get("fenced") and found.given_up:
            return replace(standing, activation=standing.last_to, phase="unconfirmed")  # it does not live yet
        with understood(machine_of(found.instance), "status"):
            return replace(standing, busy=SlotsState.from_status(node).busy)

    async def observe_agent(self, target: Target) -> str:
        """What is wrong with the agent; on another machine it would be as much."""
        return await unwell(self._session, target)

    async def fetch(self, target: Target, release: ReleaseId) -> None:  # noqa: ARG002 - the runner's words
        """See that machines can boot the image; making one is part of the move, and the old one serves meanwhile.

        Raises:
            RefusedError: JustAVPS has no such image, or machines cannot boot from it.
        """
        if not await self._session.instance_client.is_bootable(ImageId(release)):
            raise RefusedError(f"no machine boots from image {release}", hint="hermesops image list")

    async def activate(self, target: Target, release: ReleaseId, spec: "Spec") -> None:  # noqa: ARG002 - the runner's
        """Bring the agent onto a machine of the image, its memory held against what it was; else back where it was.

        Raises:
            RefusedError: It does not live there; it does where it was.
            UnavailableError: It is halfway, or somebody else works on the instance.
        """
        with others_are_at_it():
            operation = await self._renewal(target, release)
        await self._finish(target, operation)

    async def cancel(self, target: Target) -> None:
        """A relocation that has begun is brought to its end, and back where that is what is wanted."""

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        """Go on with one that was left halfway; its last step sees the gateway answer through the proxy.

        Raises:
            RefusedError: It does not live there; it does where it was.
            UnavailableError: It is halfway still.
        """
        found = await in_db_thread(whereabouts, self._registry, target.instance_id)
        if found.moving:
            await self._finish(target, found.moving)
        elif found.image != release:
            await self._undo(target, f"{self._purpose} was given up")

    async def back(
        self,
        target: Target,
        spec: "Spec",  # noqa: ARG002 - the runner's words
        *,
        lose: bool,  # noqa: ARG002 - nothing is lost by it
        even_revoked: bool = False,  # noqa: ARG002 - an image is not revoked
    ) -> None:
        """Bring the agent to a machine of the image from before, with what it remembers by now.

        Raises:
            UnavailableError: No answer, or somebody else works on the instance.
            RefusedError: It cannot be done, as where that image is gone.
        """
        await self._undo(target, f"{self._purpose} is put back")

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:
        """Restore the backup that was proved longest ago onto a machine of the pool, if those boot that image."""
        from hermesops.app.services.restore_drills import Drills

        ready = await in_db_thread(self._session.pools.ready)
        drills = Drills(self._session)
        if not any(str(one.image_id) == release for one in ready) or await in_db_thread(drills.candidate) is None:
            words = f"no machine of a pool boots from {release}, or nobody has a backup; before it was {before}"
            return GateResult.NOT_EXERCISED, words
        operation = await drills.open(None, why=self._purpose)
        try:
            return GateResult.PASS, await self._operations.run(operation)
        except (RefusedError, BrokenInvariantError) as error:
            return GateResult.FAIL, error.message

    @property
    def _operations(self) -> "Operations":
        """Which tell nothing: there are many at once, and the rollout says how each ended."""
        from hermesops.app.handlers.operations import OperationHandlers
        from hermesops.operations.runner import Operations

        return Operations(self._registry, OperationHandlers(self._session).handlers(), lambda _: None)

    async def _node(self, instance: "Instance") -> "Mapping[str, Any]":
        told = await node_commands.status(
            self._session.instance_client.channel(machine_of(instance)), timeout_s=_LOOK_S
        )
        if told is None:
            raise UnavailableError(f"hermes-node on {instance.machine_name} gives no answer")
        return told

    async def _renewal(self, target: Target, image: str) -> Operation:
        return await self._session.instance_requests.renew(target.instance_id, ImageId(image), reason=self._purpose)

    async def _finish(self, target: Target, operation: Operation) -> None:
        """Bring a relocation to its end; where its agent does not come to live, have it live where it was."""
        try:
            with others_are_at_it():
                await self._operations.run(operation)
        except (RefusedError, UsageError) as error:
            await self._undo(target, error.message)
            raise RefusedError(error.message, hint=error.hint) from error
        except HermesError as error:
            found = await in_db_thread(whereabouts, self._registry, target.instance_id)
            if not found.is_cut_over:
                raise
            await self._undo(target, error.message)
            raise RefusedError(f"on its new machine: {error.message}", hint=error.hint) from error

    async def _undo(self, target: Target, why: str) -> None:
        from hermesops.operations.abandon import abandon

        found = await in_db_thread(whereabouts, self._registry, target.instance_id)
        with others_are_at_it():
            if found.moving:
                await abandon(found.moving, self._registry, reason=why)
            if found.image != target.release_before:
                operation = await self._renewal(target, target.release_before)
            elif (await self._node(found.instance)).get("fenced"):
                operation = await self._session.instance_requests.resume(target.instance_id, reason=why)
            else:
                return
            await self._operations.run(operation)


def whereabouts(registry: "Registry", instance_id: InstanceId) -> Whereabouts:
    """Where an instance is, and what became of its relocations."""
    instance = registry.instances.get(instance_id)
    ordered = next((one for one in registry.fleet.list_ordered(instance.cell) if one.instance.id == instance_id), None)
    moves = registry.operations.list(instance_id=instance_id, kind=OperationKind.RELOCATE)
    return Whereabouts(
        instance,
        (ordered.image_id if ordered else None) or "",
        next((one for one in moves if not one.status.has_ended), None),
        next((one for one in moves if one.status in _GIVEN_UP), None),
    )


def status_of(found: Whereabouts) -> ReleaseStatus:
    """Where an instance is, in a rollout's words. Pure."""
    moving, last = found.moving, found.given_up
    return ReleaseStatus(
        current=found.image,
        activation=RelocateIntent.of(moving).image_id or "" if moving else "",
        phase="unconfirmed" if moving else "",
        last=f"{last.id} {last.status}" if last else "",
        last_to=RelocateIntent.of(last).image_id or "" if last else "",
        last_failed=last is not None,
        why=last.outcome if last else "",
        absent="" if found.instance.status is InstanceStatus.RUNNING else found.instance.status.value,
    )
