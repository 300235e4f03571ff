"""Suspend an agent: stop its gateway, back it up, then stop its machine or return it.

The row says ``suspended`` last. A machine that is kept has ``machine_wanted``; if it was returned, the
newest backup is the state.
"""

from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine, stop_and_backup
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.ports import Backups
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.kinds.agents import Keep
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus


class StopMachine(OnMachine):
    """Switch the machine off; its disk stays."""


@dataclass(frozen=True)
class MarkForDeletion:
    """Take the machine out of what its cell should have."""


@dataclass(frozen=True)
class ShrinkCell:
    """Run the cell's stack without the machine."""


@dataclass(frozen=True)
class MarkSuspended:
    """Write the status ``suspended`` into the registry."""


Step = stop_and_backup.Step | StopMachine | MarkForDeletion | ShrinkCell | MarkSuspended


@dataclass(frozen=True)
class SuspendState:
    """The instance, its backup, and its machine in the stack.

    Attributes:
        backup: The one made for this very operation.
        in_stack: Whether the cell's state still holds it.
    """

    observation: Observation
    backup: Backup | None
    wanted: bool
    in_stack: bool


def decide(state: SuspendState, *, keep: Keep) -> Step | Done | Refused:
    """The next step towards a suspended agent."""
    instance, machine = state.observation.instance, state.observation.machine
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    gone = state.observation.existing_machine is None
    if instance.status is InstanceStatus.SUSPENDED and _is_kept(state, keep, gone=gone):
        return _done(instance, keep)  # another backup would need a resume first
    if not (gone and state.backup) and (step := stop_and_backup.next_step(state.observation, state.backup)) is not None:
        return step
    if keep is Keep.STOPPED and machine is not None and machine.status is not MachineStatus.STOPPED:
        return StopMachine(machine.id)
    if keep is Keep.REMOVED and state.wanted:
        return MarkForDeletion()
    if keep is Keep.REMOVED and (not gone or state.in_stack):
        return ShrinkCell()
    if instance.status is not InstanceStatus.SUSPENDED:
        return MarkSuspended()
    return _done(instance, keep)


def _is_kept(state: SuspendState, keep: Keep, *, gone: bool) -> bool:
    if keep is Keep.REMOVED:
        return gone and not state.wanted and not state.in_stack
    machine = state.observation.machine
    return machine is not None and machine.status is MachineStatus.STOPPED


def _done(instance: Instance, keep: Keep) -> Done:
    return Done(f"the agent of {instance.title} is suspended, its machine is {keep}")


@dataclass
class Suspend:
    """The work of suspending one agent, for the operations' loop."""

    instance_id: InstanceId
    why: str
    keep: Keep
    registry: Registry
    client: PowerControl
    backups: Backups
    cells: CellStacks

    async def observe(self) -> SuspendState:
        """Look at row, machine, node, backups and the cell's state."""
        observation = await self.client.observe(self.instance_id)
        return SuspendState(
            observation,
            self.backups.made(self.instance_id, self.why),
            wanted=self.registry.instances.is_machine_wanted(self.instance_id),
            in_stack=await self._holds(observation.instance),
        )

    def decide(self, state: SuspendState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state, keep=self.keep)

    def describe(self, step: Step, state: SuspendState) -> str:
        """The step in a few words."""
        instance = state.observation.instance
        match step:
            case StopMachine():
                return f"switching machine {instance.machine_name} off"
            case MarkForDeletion():
                return f"marking machine {instance.machine_name} for removal"
            case ShrinkCell():
                return f"destroying machine {instance.machine_name}"
            case MarkSuspended():
                return "the agent is suspended"
            case _:
                return stop_and_backup.describe(step, instance)

    async def do(self, step: Step, state: SuspendState) -> None:
        """Do one step; harmless when it was done before."""
        instance = state.observation.instance
        match step:
            case StopMachine(machine_id=machine_id):
                await self.client.stop_machine(instance, machine_id)
            case MarkForDeletion():
                self.registry.instances.leave_machine(instance.id, why=self.why)
            case ShrinkCell():
                await self.cells.apply(instance.cell, still_wanted=lambda: self._holds(instance))
            case MarkSuspended():
                self.registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED)
            case StartMachine() | AwaitMachine() | stop_and_backup.Fence() | stop_and_backup.BackUp():
                await stop_and_backup.do(step, instance, client=self.client, backups=self.backups, why=self.why)
            case _ as never:
                assert_never(never)

    async def _holds(self, instance: Instance) -> bool:
        return await self.cells.holds(instance.cell, instance.machine_name)
