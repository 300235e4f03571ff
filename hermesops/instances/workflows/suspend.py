"""A suspended agent: at rest, backed up, its machine stopped or given back, until it is resumed.

The row says ``suspended`` last. A machine that is kept has ``machine_wanted``; where it was given back the newest
backup is the state.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import assert_never

from hermesops.instances.observation import Observation
from hermesops.instances.ports import Cells, Copies, Rests
from hermesops.instances.steps import boot, stop_and_backup
from hermesops.instances.steps.personalise import terminated
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.registry import Registry


class Keep(StrEnum):
    """What becomes of the machine of a suspended agent."""

    STOPPED = "stopped"
    REMOVED = "removed"


@dataclass(frozen=True)
class StopMachine:
    """Switch the machine off; its disk stays."""

    machine_id: MachineId


@dataclass(frozen=True)
class MarkForDeletion:
    """Take the machine out of what its cell should have."""


@dataclass(frozen=True)
class ShrinkCell:
    """Run the cell's stack without the machine."""


@dataclass(frozen=True)
class MarkSuspended:
    """Write ``suspended`` into the registry."""


Step = stop_and_backup.Step | StopMachine | MarkForDeletion | ShrinkCell | MarkSuspended


@dataclass(frozen=True)
class Sleeping:
    """What suspending looks at.

    Attributes:
        backup: The one made for this very operation.
        wanted: Whether the cell should have the machine.
        in_stack: Whether the cell's state still holds it.
    """

    observation: Observation
    backup: Backup | None
    wanted: bool
    in_stack: bool


def decide(seen: Sleeping, *, keep: Keep) -> Step | Done | Refused:
    """The next step towards a suspended agent.

    Args:
        seen: The instance as it is now.
        keep: What becomes of its machine.
    """
    instance, machine = seen.observation.instance, seen.observation.machine
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(instance))
    gone = machine is None or machine.status is MachineStatus.DELETED
    if instance.status is InstanceStatus.SUSPENDED and _is_kept(seen, keep, gone=gone):
        return _sleeps(instance, keep)  # whoever asks again would resume it only to back it up again
    if not (gone and seen.backup) and (step := stop_and_backup.next_step(seen.observation, seen.backup)) is not None:
        return step
    if keep is Keep.STOPPED and machine is not None and machine.status is not MachineStatus.STOPPED:
        return StopMachine(machine.id)
    if keep is Keep.REMOVED and seen.wanted:
        return MarkForDeletion()
    if keep is Keep.REMOVED and (not gone or seen.in_stack):
        return ShrinkCell()
    if instance.status is not InstanceStatus.SUSPENDED:
        return MarkSuspended()
    return _sleeps(instance, keep)


def _is_kept(seen: Sleeping, keep: Keep, *, gone: bool) -> bool:
    if keep is Keep.REMOVED:
        return gone and not seen.wanted and not seen.in_stack
    machine = seen.observation.machine
    return machine is not None and machine.status is MachineStatus.STOPPED


def _sleeps(instance: Instance, keep: Keep) -> Done:
    return Done(f"the agent of {instance.title} is suspended, its machine is {keep}")


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case StopMachine():
            return f"switching machine {instance.machine_name} off"
        case MarkForDeletion() | ShrinkCell():
            return f"giving machine {instance.machine_name} back"
        case MarkSuspended():
            return "the agent is suspended"
        case _:
            return stop_and_backup.describe(step, instance)


class Suspend:
    """The work of suspending one agent, for the operations' loop.

    Args:
        instance_id: Whose.
        why: What its backup is made for: ``before suspend <operation>``.
        keep: What becomes of its machine.
        registry: The registry.
        world: Machine, node and gateway.
        copies: Backups.
        cells: Stacks of cells.
    """

    def __init__(
        self,
        instance_id: InstanceId,
        *,
        why: str,
        keep: Keep,
        registry: Registry,
        world: Rests,
        copies: Copies,
        cells: Cells,
    ) -> None:
        self._instance_id = instance_id
        self._why = why
        self._keep = keep
        self._registry = registry
        self._world = world
        self._copies = copies
        self._cells = cells

    async def observe(self) -> Sleeping:
        """Look at row, machine, node, backups and the cell's state."""
        observation = await self._world.observe(self._instance_id)
        return Sleeping(
            observation,
            self._copies.made(self._instance_id, self._why),
            wanted=self._registry.instances.is_machine_wanted(self._instance_id),
            in_stack=await self._holds(observation.instance),
        )

    def decide(self, seen: Sleeping) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen, keep=self._keep)

    def describe(self, step: Step, seen: Sleeping) -> str:
        """The step in a few words."""
        return describe(step, seen.observation.instance)

    async def do(self, step: Step, seen: Sleeping) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.observation.instance
        match step:
            case StopMachine(machine_id=machine_id):
                await self._world.stop_machine(instance, machine_id)
            case MarkForDeletion():
                self._registry.instances.leave_machine(instance.id, why=self._why)
            case ShrinkCell():
                await self._cells.apply(instance.cell, still_wanted=partial(self._holds, instance))
            case MarkSuspended():
                self._registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED)
            case boot.StartMachine() | boot.AwaitMachine() | stop_and_backup.Fence() | stop_and_backup.BackUp():
                await stop_and_backup.do(step, instance, world=self._world, copies=self._copies, why=self._why)
            case _ as never:
                assert_never(never)

    async def _holds(self, instance: Instance) -> bool:
        return await self._cells.holds(instance.cell, instance.machine_name)
