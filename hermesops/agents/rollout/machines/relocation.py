"""The machines of a rollout of an image: each agent is relocated to another machine, which boots that image.

This changes what a slot cannot: system, kernel, server type. The relocation's own row tells how far one came and how it
ended, so any runner can go on with it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hermesops.agents.backup.drills import Drills
from hermesops.agents.instances.remote import node_commands
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.requests.eligibility import blocks
from hermesops.agents.pool.service import Pools
from hermesops.agents.rollout.machines.slots import held_is_unavailable, machine_of, unwell
from hermesops.base.waiting import pause
from hermesops.errors import BrokenInvariantError, HermesError, Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.slot import SlotsState
from hermesops.model.ids import ImageId, InstanceId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.rollout.records import GateResult, ReleaseStatus, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Spec
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.kinds.agents import RelocateIntent
from hermesops.store.operations.kinds.table import KINDS
from hermesops.store.operations.runner import abandon
from hermesops.store.registry import Registry
from hermesops.vendor.channel import understood

_STATUS_S = 20.0
_AGAIN_S = 1.0
_GIVEN_UP = frozenset({OperationStatus.FAILED, OperationStatus.ABANDONED})


@dataclass(frozen=True)
class RelocationState:
    """An instance and its relocations, as the registry has them.

    Attributes:
        image: What its machine boots from; empty for the vendor's own.
        given_up: The last one that failed or was abandoned.
        blocked_by: An unfinished operation of another kind, beside which none may be relocated.
    """

    instance: Instance
    image: str
    unfinished: Operation | None
    given_up: Operation | None
    blocked_by: Operation | None = None

    @property
    def is_cut_over(self) -> bool:
        """Whether the instance is on the new machine, though its agent may not run there yet."""
        return self.unfinished is not None and self.instance.machine_name != RelocateIntent.of(self.unfinished).origin


@dataclass(frozen=True)
class RelocatedMachines:
    """``hermesops.agents.rollout.ports.Machines`` for images; the release that an agent runs is relocated with it.

    Attributes:
        run: Runs an operation to its end, or waits for the process that does, without narration: a rollout runs many
            at once.
    """

    registry: Registry
    instance_client: PowerControl
    pools: Pools
    drills: Drills
    requests: InstanceRequests
    run: Callable[[Operation], Awaitable[str]]
    purpose: str

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        """Read the image and the last relocation, and ask hermes-node whether the agent is busy."""
        state = await in_db_thread(relocation_state, self.registry, instance_id)
        status = status_of(state)
        if status.absent or status.activation or status.busy:
            return status
        node = await self._node(state.instance)
        if node.get("fenced") and state.given_up:
            return replace(status, activation=status.last_to, phase="unconfirmed")  # its agent does not run yet
        with understood(machine_of(state.instance), "status"):
            return replace(status, busy=SlotsState.from_status(node).busy)

    async def observe_agent(self, target: Target) -> str:
        """Ask the gateway through the proxy, and hermes-node; another machine would not make the agent well."""
        return await unwell(self.registry, self.instance_client, target)

    async def fetch(self, target: Target, release: ReleaseId) -> None:  # noqa: ARG002 - of the port
        """Check that JustAVPS has the image; a machine that boots it is made by the relocation."""
        if not await self.instance_client.is_bootable(ImageId(release)):
            raise RefusedError(f"no machine boots from image {release}", hint=Hint(("image", "list")))

    async def activate(self, target: Target, release: ReleaseId, spec: Spec) -> None:  # noqa: ARG002 - of the port
        """Relocate the agent to a machine of the image and compare its state; on failure, relocate it back."""
        with held_is_unavailable():
            operation = await self.requests.renew(target.instance_id, ImageId(release), reason=self.purpose)
        await self._finish(target, operation)

    async def cancel(self, target: Target) -> None:
        """Do nothing: a relocation that has begun is finished, and undone where the rollout is aborted."""

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        """Finish a relocation that was left; its last step sees the gateway answer through the proxy."""
        state = await in_db_thread(relocation_state, self.registry, target.instance_id)
        if state.unfinished:
            await self._finish(target, state.unfinished)
        elif state.image != release:
            await self._undo(target, f"{self.purpose} was given up")

    async def roll_back(
        self,
        target: Target,
        *,
        lose: bool,  # noqa: ARG002 - nothing is lost by it
        even_revoked: bool = False,  # noqa: ARG002 - an image is not revoked
    ) -> tuple[str, ...]:
        """Relocate the agent, with its present memory, to a machine of the image from before."""
        await self._undo(target, f"{self.purpose} is rolled back")
        return ()

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:
        """Restore the backup that was proved longest ago onto a warm-pool machine, if those boot the image."""
        ready = await in_db_thread(self.pools.ready)
        drills = self.drills
        if (
            not any(str(machine.image_id) == release for machine in ready)
            or await in_db_thread(drills.candidate) is None
        ):
            words = f"no machine of a pool boots from {release}, or there is no backup; before it was {before}"
            return GateResult.NOT_EXERCISED, words
        operation = await drills.open(None, why=self.purpose)
        try:
            return GateResult.PASS, await self.run(operation)
        except (RefusedError, BrokenInvariantError) as error:
            return GateResult.FAIL, error.message

    async def _node(self, instance: Instance) -> Mapping[str, Any]:
        channel = self.instance_client.channel(machine_of(instance))
        status = await node_commands.status(channel, timeout_s=_STATUS_S)
        if status is None:
            raise UnavailableError(f"hermes-node on {instance.machine_name} gives no answer")
        return status

    async def _finish(self, target: Target, operation: Operation) -> None:
        """Finish a relocation; where its agent does not run on the new machine, undo it."""
        try:
            with held_is_unavailable():
                await self.run(operation)
        except (RefusedError, UsageError) as error:
            await self._undo(target, error.message)
            raise RefusedError(error.message, hint=error.hint) from error
        except HermesError as error:
            state = await in_db_thread(relocation_state, self.registry, target.instance_id)
            if not state.is_cut_over:
                raise
            await self._undo(target, error.message)
            raise RefusedError(f"on its new machine: {error.message}", hint=error.hint) from error

    async def _undo(self, target: Target, why: str) -> None:
        """Bring the agent back to a machine of its image before, or start it again where it never left that one."""
        state = await self._given_up(target, why)
        with held_is_unavailable():
            if state.unfinished:
                operation = state.unfinished
            elif state.image != target.release_before:
                image = ImageId(target.release_before)
                operation = await self.requests.renew(target.instance_id, image, reason=self.purpose)
            elif (await self._node(state.instance)).get("fenced"):
                operation = await self.requests.resume(target.instance_id, reason=why)
            else:
                return
            await self.run(operation)

    async def _given_up(self, target: Target, why: str) -> RelocationState:
        """Abandon an unfinished relocation, unless it is the way back; a worker that has taken it over may end it."""
        while True:
            state = await in_db_thread(relocation_state, self.registry, target.instance_id)
            if state.unfinished is None or RelocateIntent.of(state.unfinished).image_id == target.release_before:
                return state
            with suppress(RefusedError):  # a worker has it, or it ended just now
                await abandon(state.unfinished, self.registry, reason=why)
                continue
            await pause(_AGAIN_S)


def relocation_state(registry: Registry, instance_id: InstanceId) -> RelocationState:
    """Read an instance and its relocations."""
    instance = registry.instances.get(instance_id)
    ordered = next(
        (ordered for ordered in registry.fleet.list_ordered(instance.cell) if ordered.instance.id == instance_id), None
    )
    moves = registry.operations.list(instance_id=instance_id, kind=OperationKind.RELOCATE)
    others = registry.operations.list(instance_id=instance_id, unfinished=True)
    return RelocationState(
        instance,
        (ordered.image_id if ordered else None) or "",
        next((operation for operation in moves if not operation.status.has_ended), None),
        next((operation for operation in moves if operation.status in _GIVEN_UP), None),
        next((operation for operation in others if blocks(RelocateIntent, operation.kind)), None),
    )


def status_of(state: RelocationState) -> ReleaseStatus:
    """An instance's image and relocations as rollouts read them. Pure."""
    unfinished, last, blocker = state.unfinished, state.given_up, state.blocked_by
    return ReleaseStatus(
        current=state.image,
        activation=RelocateIntent.of(unfinished).image_id or "" if unfinished else "",
        phase="unconfirmed" if unfinished else "",
        last=f"{last.id} {last.status}" if last else "",
        last_to=RelocateIntent.of(last).image_id or "" if last else "",
        last_failed=last is not None,
        why=last.outcome if last else "",
        reverts=False,
        absent="" if state.instance.status is InstanceStatus.RUNNING else state.instance.status.value,
        step=unfinished.step if unfinished else "",
        busy=f"operation {blocker.id} ({KINDS[blocker.kind].title}) has not ended" if blocker else "",
    )
