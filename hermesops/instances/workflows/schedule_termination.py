"""Schedule a termination: stop the gateway, back up, prove the backup, switch the machine off.

After the days of grace ``terminate`` ends the agent; until then ``resume`` cancels that, and starts it with its state.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from hermesops.instances.observation import Observation
from hermesops.instances.ports import Rests
from hermesops.instances.steps import boot, stop_and_backup, verify_backup
from hermesops.instances.steps.personalise import terminated
from hermesops.instances.steps.verify_backup import Backups, ProveBackup
from hermesops.instances.workflows.suspend import StopMachine
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.registry import Registry


@dataclass(frozen=True)
class StartGracePeriod:
    """Write until when the termination can be cancelled."""


Step = stop_and_backup.Step | ProveBackup | StopMachine | StartGracePeriod


@dataclass(frozen=True)
class ScheduleTerminationState:
    """What a farewell looks at.

    Attributes:
        backup: The last one, made for this very operation.
        newest: The newest one.
    """

    observation: Observation
    backup: Backup | None
    newest: Backup | None


def decide(seen: ScheduleTerminationState) -> Step | Done | Refused:
    """The next step towards a scheduled termination.

    Args:
        seen: The instance as it is now.
    """
    instance, machine = seen.observation.instance, seen.observation.machine
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(instance))
    off = machine is None or machine.status in {MachineStatus.DELETED, MachineStatus.STOPPED}
    sleeps = off and instance.status is InstanceStatus.SUSPENDED
    if sleeps and instance.grace_until is not None:
        return _ends(instance, instance.grace_until)
    # A suspended agent was backed up when it was suspended, and is not resumed to be backed up again.
    last = seen.backup or (seen.newest if sleeps else None)
    if not (sleeps and last) and (step := stop_and_backup.next_step(seen.observation, seen.backup)) is not None:
        return step
    if last is None:
        raise ValueError("at rest without a backup")
    if (proving := verify_backup.next_step(instance, last)) is not None:
        return proving
    return StartGracePeriod() if machine is None or off else StopMachine(machine.id)


def _ends(instance: Instance, until: datetime) -> Done:
    return Done(
        f"the agent of {instance.title} is suspended and will be terminated at {until:%Y-%m-%d %H:%M} UTC "
        "unless that is cancelled"
    )


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case ProveBackup():
            return verify_backup.describe(instance)
        case StopMachine():
            return f"switching machine {instance.machine_name} off"
        case StartGracePeriod():
            return "the agent is suspended"
        case _:
            return stop_and_backup.describe(step, instance)


class ScheduleTermination:
    """The work of one farewell, for the operations' loop.

    Args:
        instance_id: Whose.
        why: What the last backup is made for.
        until: When the agent is terminated; one scheduled before keeps its time.
        registry: The registry.
        world: Machine, node and gateway.
        backups: Backups.
    """

    def __init__(
        self, instance_id: InstanceId, *, why: str, until: datetime, registry: Registry, world: Rests, backups: Backups
    ) -> None:
        self._instance_id = instance_id
        self._why = why
        self._until = until
        self._registry = registry
        self._world = world
        self._backups = backups

    async def observe(self) -> ScheduleTerminationState:
        """Look at row, machine, node and the last backup."""
        observation = await self._world.observe(self._instance_id)
        return ScheduleTerminationState(
            observation, self._backups.made(self._instance_id, self._why), self._backups.newest(self._instance_id)
        )

    def decide(self, seen: ScheduleTerminationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen)

    def describe(self, step: Step, seen: ScheduleTerminationState) -> str:
        """The step in a few words."""
        return describe(step, seen.observation.instance)

    async def do(self, step: Step, seen: ScheduleTerminationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.observation.instance
        match step:
            case ProveBackup():
                if (last := seen.backup or seen.newest) is not None:
                    await self._backups.prove(instance, last)
            case StopMachine(machine_id=machine_id):
                await self._world.stop_machine(instance, machine_id)
            case StartGracePeriod():
                self._registry.instances.begin_grace(instance.id, self._until, why=self._why)
            case boot.StartMachine() | boot.AwaitMachine() | stop_and_backup.Fence() | stop_and_backup.BackUp():
                await stop_and_backup.do(step, instance, world=self._world, copies=self._backups, why=self._why)
            case _ as never:
                assert_never(never)
