"""Schedule a termination: stop the gateway, back up, prove the backup, switch the machine off.

After the days of grace ``terminate`` ends the agent; until then ``resume`` cancels that, and starts it with its state.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import stop_and_backup
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.ports import Backups
from hermesops.agents.instances.steps.stop_and_backup import ProveBackup
from hermesops.agents.instances.workflows.suspend import StopMachine
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus


@dataclass(frozen=True)
class StartGracePeriod:
    """Write until when the termination can be cancelled."""


Step = stop_and_backup.Step | ProveBackup | StopMachine | StartGracePeriod


@dataclass(frozen=True)
class ScheduleTerminationState:
    """The instance, and its backup of this operation."""

    observation: Observation
    backup: Backup | None
    newest: Backup | None


def decide(state: ScheduleTerminationState) -> Step | Done | Refused:
    """The next step towards a scheduled termination."""
    instance, machine = state.observation.instance, state.observation.existing_machine
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    off = machine is None or machine.status is MachineStatus.STOPPED
    is_suspended = off and instance.status is InstanceStatus.SUSPENDED
    if is_suspended and instance.grace_until is not None:
        return _ends(instance, instance.grace_until)
    # A suspended agent was backed up when it was suspended, and is not resumed to be backed up again.
    last = state.backup or (state.newest if is_suspended else None)
    if not (is_suspended and last) and (step := stop_and_backup.next_step(state.observation, state.backup)) is not None:
        return step
    if last is None:
        raise ValueError("stopped without a backup")
    if (proving := stop_and_backup.next_proof(instance, last)) is not None:
        return proving
    return StartGracePeriod() if machine is None or off else StopMachine(machine.id)


def _ends(instance: Instance, until: datetime) -> Done:
    return Done(
        f"the agent of {instance.title} is suspended and will be terminated at {until:%Y-%m-%d %H:%M} UTC "
        "unless that is cancelled"
    )


@dataclass
class ScheduleTermination:
    """The work of scheduling one termination, for the operations' loop.

    Attributes:
        until: When the agent is terminated; one scheduled before keeps its time.
    """

    instance_id: InstanceId
    why: str
    until: datetime
    registry: Registry
    client: PowerControl
    backups: Backups

    async def observe(self) -> ScheduleTerminationState:
        """Look at row, machine, node and the last backup."""
        observation = await self.client.observe(self.instance_id)
        return ScheduleTerminationState(
            observation, self.backups.made(self.instance_id, self.why), self.backups.newest(self.instance_id)
        )

    def decide(self, state: ScheduleTerminationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state)

    def describe(self, step: Step, state: ScheduleTerminationState) -> str:
        """The step in a few words."""
        instance = state.observation.instance
        match step:
            case StopMachine():
                return f"switching machine {instance.machine_name} off"
            case StartGracePeriod():
                return "the agent is suspended"
            case _:
                return stop_and_backup.describe(step, instance)

    async def do(self, step: Step, state: ScheduleTerminationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = state.observation.instance
        match step:
            case ProveBackup():
                if (last := state.backup or state.newest) is not None:
                    await self.backups.prove(instance, last)
            case StopMachine(machine_id=machine_id):
                await self.client.stop_machine(instance, machine_id)
            case StartGracePeriod():
                self.registry.instances.begin_grace(instance.id, self.until, why=self.why)
            case StartMachine() | AwaitMachine() | stop_and_backup.Fence() | stop_and_backup.BackUp():
                await stop_and_backup.do(step, instance, client=self.client, backups=self.backups, why=self.why)
            case _ as never:
                assert_never(never)
