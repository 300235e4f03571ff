"""A backup put in the place of an agent's state, on the machine that it is on.

First no gateway, then a copy of what is there, then the backup; the gateway lives again only with what was copied then.
"""

from dataclasses import dataclass
from typing import Protocol, assert_never

from hermesops.errors import UnavailableError
from hermesops.instances.observation import MachineState, NodeState, Observation
from hermesops.instances.ports import Copies, HandsOver, Rests
from hermesops.instances.steps.personalise import (
    AwaitGateway,
    Personalise,
    next_step,
    not_its_own,
    out_of_reach,
    terminated,
)
from hermesops.instances.steps.start_verified import Release
from hermesops.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import BEFORE_RESTORE, Backup
from hermesops.model.ids import InstanceId, MachineId, OperationId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.model.state import State
from hermesops.registry import Registry


@dataclass(frozen=True)
class RestoreBackup:
    """Put the backup in the place of what is there, which is kept beside it."""

    machine_id: MachineId


@dataclass(frozen=True)
class Record:
    """Write down that it is in place, and revoke the model tokens from before: from here on the agent may change it."""


Step = Fence | BackUp | RestoreBackup | Record | Release | Personalise | AwaitGateway


@dataclass(frozen=True)
class RestoreState:
    """What putting a backup in place looks at.

    Attributes:
        source: What is put in place.
        before: A copy of what was there, made for this very operation.
        state: What is there; looked at only while the gateway rests.
        is_recorded: Whether this very operation has put it in place.
    """

    observation: Observation
    source: Backup
    before: Backup | None
    state: State | None
    is_recorded: bool


def decide(seen: RestoreState, *, keeps: bool, payload_digest: str) -> Step | Done | Refused:
    """The next step.

    Args:
        seen: The instance as it is now.
        keeps: Whether what is there is copied first; a state that is damaged cannot be.
        payload_digest: Digest of what the node should have been given, with a token of after the restore.
    """
    instance, machine, node = seen.observation.instance, seen.observation.machine, seen.observation.node
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(instance))
    if machine is None or machine.status is not MachineStatus.READY or node is None:
        return Refused(out_of_reach(instance))
    if node.instance_id != instance.id:
        return Refused(not_its_own(instance, node.instance_id or "nobody"))
    if seen.is_recorded:
        return _wake(seen, machine, node, payload_digest)
    if not node.fenced:
        return Fence(machine.id)
    if keeps and seen.before is None:
        return BackUp(machine.id)
    return Record() if seen.state == seen.source.state else RestoreBackup(machine.id)


def _wake(seen: RestoreState, machine: MachineState, node: NodeState, payload_digest: str) -> Step | Done | Refused:
    if node.fenced:
        return Release(machine.id)
    if (step := next_step(seen.observation, machine, node, payload_digest=payload_digest)) is not None:
        return step
    source = seen.source
    return Done(
        f"{seen.observation.instance.title} has the state of backup {source.id[:8]} of {source.at:%Y-%m-%d %H:%M} UTC: "
        f"{source.state}"
    )


def describe(step: Step, instance: Instance, source: Backup) -> str:
    """The step in a few words."""
    match step:
        case Fence():
            return f"stopping the gateway of {instance.title}"
        case BackUp():
            return f"backing up what {instance.title} has now"
        case RestoreBackup():
            return f"putting backup {source.id[:8]} in place"
        case Record():
            return f"backup {source.id[:8]} is in place"
        case Release():
            return f"starting the gateway of {instance.title}"
        case Personalise():
            return f"handing {instance.title} a new model token"
        case AwaitGateway():
            return "waiting for the gateway"
        case _ as never:
            assert_never(never)


class Backups(Copies, Protocol):
    """Backups, found and put back."""

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """One backup of an instance."""

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> object:
        """Put a backup's state on a machine whose gateway is fenced."""


class World(Rests, HandsOver, Protocol):
    """Machine, node and gateway."""

    async def release(self, machine_id: MachineId) -> None:
        """Take the fence away and start the gateway."""


@dataclass(frozen=True)
class RestoreRequest:
    """What was asked for.

    Attributes:
        snapshot: Of the backup, in full.
        keeps: Whether what is there is copied first.
        reason: For the audit.
    """

    snapshot: str
    keeps: bool
    reason: str


class Restore:
    """The work of putting one backup in place, for the operations' loop.

    Args:
        instance_id: Whose.
        operation_id: Which operation this is.
        request: What was asked for.
        registry: The registry.
        world: Machine, node and gateway.
        backups: Backups.
    """

    def __init__(
        self,
        instance_id: InstanceId,
        operation_id: OperationId,
        request: RestoreRequest,
        *,
        registry: Registry,
        world: World,
        backups: Backups,
    ) -> None:
        self._instance_id = instance_id
        self._operation_id = operation_id
        self._request = request
        self._why = f"{BEFORE_RESTORE} {operation_id}"
        self._registry = registry
        self._world = world
        self._backups = backups

    async def observe(self) -> RestoreState:
        """Look at machine, node, gateway and backups; at the state only while nothing writes to it."""
        observation = await self._world.observe(self._instance_id)
        is_recorded = self._registry.backups.restored_by(self._instance_id) == self._operation_id
        rests = observation.node is not None and observation.node.fenced and not is_recorded
        return RestoreState(
            observation,
            self._backups.get(self._instance_id, self._request.snapshot),
            self._backups.made(self._instance_id, self._why),
            await self._state(observation.machine) if rests and observation.machine else None,
            is_recorded,
        )

    async def _state(self, machine: MachineState) -> State | None:
        try:
            return await self._world.state(machine.id)
        except UnavailableError:
            return None  # what is damaged cannot be told, and may be why a backup is wanted back

    def decide(self, seen: RestoreState) -> Step | Done | Refused:
        """The next step for what was seen."""
        digest = self._world.payload_digest(seen.observation.instance)
        return decide(seen, keeps=self._request.keeps, payload_digest=digest)

    def describe(self, step: Step, seen: RestoreState) -> str:
        """The step in a few words."""
        return describe(step, seen.observation.instance, seen.source)

    async def do(self, step: Step, seen: RestoreState) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.observation.instance
        match step:
            case Fence(machine_id=machine_id):
                await self._world.fence(instance, machine_id)
            case BackUp(machine_id=machine_id):
                await self._backups.make(instance, machine_id, why=self._why)
            case RestoreBackup(machine_id=machine_id):
                await self._backups.restore(instance, machine_id, seen.source)
            case Record():
                self._registry.backups.record_restored(
                    instance.id, seen.source.id, self._operation_id, why=self._request.reason
                )
            case Release(machine_id=machine_id):
                await self._world.release(machine_id)
            case Personalise(machine_id=machine_id, request=request):
                await self._world.personalise(instance, machine_id, request)
            case AwaitGateway(machine_id=machine_id):
                # Killed between taking the fence away and starting it, somebody left it stopped; one that runs goes on.
                await self._world.release(machine_id)
                await self._world.await_gateway(instance, machine_id)
            case _ as never:
                assert_never(never)
