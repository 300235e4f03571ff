"""Replace an agent's state by a backup, on the machine that it is on.

It stops the gateway, backs up the present state, restores, and starts the gateway only on the state of the backup.
"""

from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine, start_verified, stop_and_backup
from hermesops.agents.instances.steps.machine_table import own_machine
from hermesops.agents.instances.steps.personalise import AwaitGateway, Personalise, next_step
from hermesops.agents.instances.steps.ports import Backups
from hermesops.agents.instances.steps.start_verified import Release
from hermesops.agents.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.errors import UnavailableError
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import BEFORE_RESTORE, Backup
from hermesops.model.recovery.state import State
from hermesops.store.operations.kinds.copies import RestoreIntent
from hermesops.store.registry import Registry


class RestoreBackup(OnMachine):
    """Replace the state by the backup; the replaced state is kept beside it."""


@dataclass(frozen=True)
class Record:
    """Write down that it is in place, and revoke the model tokens from before: from here on the agent may change it."""


Step = Fence | BackUp | RestoreBackup | Record | Release | Personalise | AwaitGateway


@dataclass(frozen=True)
class RestoreState:
    """The instance and the backups of a restore.

    Attributes:
        before: The backup of the replaced state, made for this operation.
        state: The state on the machine; read only while the gateway is stopped.
        is_recorded: Whether this operation has restored the backup.
    """

    observation: Observation
    source: Backup
    before: Backup | None
    state: State | None
    is_recorded: bool


def decide(state: RestoreState, *, keeps: bool, payload_digest: str) -> Step | Done | Refused:
    """The next step.

    Args:
        keeps: Whether the present state is backed up first, which is impossible for a damaged one.
        payload_digest: Digest of the payload that the node should have, with a token made after the restore.
    """
    instance = state.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    own = own_machine(state.observation)
    if isinstance(own, Refused):
        return own
    machine, node = own
    if state.is_recorded:
        return _started(state, machine, node, payload_digest)
    if not node.fenced:
        return Fence(machine.id)
    if keeps and state.before is None:
        return BackUp(machine.id)
    is_in_place = state.state is not None and state.state.is_of(state.source.id, state.source.state)
    return Record() if is_in_place else RestoreBackup(machine.id)


def _started(state: RestoreState, machine: MachineState, node: NodeState, payload_digest: str) -> Step | Done | Refused:
    if node.fenced:
        return Release(machine.id)
    if (step := next_step(state.observation, machine, node, payload_digest=payload_digest)) is not None:
        return step
    source = state.source
    title = state.observation.instance.title
    return Done(f"{title} has the state of backup {source.id[:8]} of {source.at:%Y-%m-%d %H:%M} UTC: {source.state}")


@dataclass
class Restore:
    """The work of putting one backup in place, for the operations' loop."""

    instance_id: InstanceId
    operation_id: OperationId
    request: RestoreIntent
    registry: Registry
    client: PowerControl
    backups: Backups

    @property
    def _why(self) -> str:
        return f"{BEFORE_RESTORE} {self.operation_id}"

    async def observe(self) -> RestoreState:
        """Look at machine, node, gateway and backups; at the state only while nothing writes to it."""
        observation = await self.client.observe(self.instance_id)
        is_recorded = self.registry.backups.restored_by(self.instance_id) == self.operation_id
        is_stopped = observation.node is not None and observation.node.fenced and not is_recorded
        return RestoreState(
            observation,
            self.backups.get(self.instance_id, self.request.snapshot),
            self.backups.made(self.instance_id, self._why),
            await self._state(observation.machine) if is_stopped and observation.machine else None,
            is_recorded,
        )

    async def _state(self, machine: MachineState) -> State | None:
        try:
            return await self.client.state(machine.id)
        except UnavailableError:
            return None  # a damaged state cannot be digested, and may be why a backup is restored

    def decide(self, state: RestoreState) -> Step | Done | Refused:
        """The next step for what was seen."""
        digest = self.client.payload_digest(state.observation.instance)
        return decide(state, keeps=self.request.keeps, payload_digest=digest)

    def describe(self, step: Step, state: RestoreState) -> str:
        """The step in a few words."""
        instance, source = state.observation.instance, state.source
        match step:
            case Fence():
                return stop_and_backup.describe(step, instance)
            case BackUp():
                return f"backing up what {instance.title} has now"
            case RestoreBackup():
                return f"putting backup {source.id[:8]} in place"
            case Record():
                return f"backup {source.id[:8]} is in place"
            case Personalise():
                return f"handing {instance.title} a new model token"
            case Release() | AwaitGateway():
                return start_verified.describe(step, instance)

    async def do(self, step: Step, state: RestoreState) -> None:
        """Do one step; harmless when it was done before."""
        instance = state.observation.instance
        match step:
            case Fence(machine_id=machine_id):
                await self.client.fence(instance, machine_id)
            case BackUp(machine_id=machine_id):
                await self.backups.make(instance, machine_id, why=self._why)
            case RestoreBackup(machine_id=machine_id):
                await self.backups.restore(instance, machine_id, state.source)
            case Record():
                self.registry.backups.record_restored(
                    instance.id, state.source.id, self.operation_id, why=self.request.reason
                )
            case Release() | Personalise() | AwaitGateway():
                await start_verified.do(step, instance, client=self.client, registry=self.registry)
            case _ as never:
                assert_never(never)
