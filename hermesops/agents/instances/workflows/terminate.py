"""Terminate an instance: check its last backup, destroy machine and snapshots, erase its secrets.

The row marks the machine for deletion, for every run of the cell, before anything is destroyed. Without a backup that
was restored once and compared, nothing is destroyed unless the operator said so.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests.snapshots import Snapshots
from hermesops.agents.instances.steps import stop_and_backup
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.ports import Backups
from hermesops.agents.instances.steps.stop_and_backup import Fence, ProveBackup
from hermesops.agents.instances.workflows.suspend import MarkForDeletion, ShrinkCell
from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.store.registry import Registry
from hermesops.vendor.channel import MachineGoneError


@dataclass(frozen=True)
class MarkTerminated:
    """Write ``terminated`` and drop the instance's secrets."""


Step = stop_and_backup.Step | ProveBackup | MarkForDeletion | Fence | ShrinkCell | MarkTerminated


@dataclass(frozen=True)
class TerminationState:
    """The instance, its last backup, and its machine in the stack.

    Attributes:
        fenced: Whether the gateway is known to be stopped; ``False`` without an answer.
        reachable: Whether the machine answered at all.
    """

    observation: Observation
    in_stack: bool
    fenced: bool
    reachable: bool
    wanted: bool = False
    backup: Backup | None = None
    newest: Backup | None = None


def decide(state: TerminationState, *, keeps_backup: bool = False) -> Step | Done | Refused:
    """The next step towards the end.

    Args:
        keeps_backup: Whether a backup with a successful test restore is required before anything is destroyed.
    """
    instance = state.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Done(f"the instance of {instance.title} is terminated")
    machine = state.observation.existing_machine
    gone = machine is None
    if state.wanted:
        proving = _kept(state, gone=gone) if keeps_backup else None
        return proving or MarkForDeletion()
    if machine is not None and state.reachable and not state.fenced:
        return Fence(machine.id)
    if not gone or state.in_stack:
        return ShrinkCell()
    return MarkTerminated()


def _kept(state: TerminationState, *, gone: bool) -> stop_and_backup.Step | ProveBackup | Refused | None:
    instance, last = state.observation.instance, state.newest
    if instance.status is InstanceStatus.PROVISIONING:
        return None  # it has no data of a user yet
    if not gone and instance.status is InstanceStatus.RUNNING:
        if (resting := stop_and_backup.next_step(state.observation, state.backup)) is not None:
            return resting
        last = state.backup
    return Refused(_no_backup(instance)) if last is None else stop_and_backup.next_proof(instance, last)


def _no_backup(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup, and the agent's state would be lost",
        hint=Hint(("instance", "terminate", instance.title, "--now", "--without-backup"), ", if that is wanted"),
    )


@dataclass
class Terminate:
    """The work of ending one instance, for the operations' loop.

    Attributes:
        why: The reason of the last backup and of the deletion.
        snapshots: Images of its disk at JustAVPS, which are not encrypted.
    """

    instance_id: InstanceId
    why: str
    keeps_backup: bool
    registry: Registry
    client: PowerControl
    backups: Backups
    snapshots: Snapshots
    cells: CellStacks

    async def observe(self) -> TerminationState:
        """Look at row, machine, gateway, backups and the cell's state."""
        observation = await self.client.observe(self.instance_id)
        stopped = await self.client.gateways.is_stopped(observation.machine)
        return TerminationState(
            observation,
            in_stack=await self._holds(observation.instance),
            fenced=stopped is True,
            reachable=stopped is not None,
            wanted=self.registry.instances.is_machine_wanted(self.instance_id),
            backup=self.backups.made(self.instance_id, self.why),
            newest=self.backups.newest(self.instance_id),
        )

    def decide(self, state: TerminationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state, keeps_backup=self.keeps_backup)

    def describe(self, step: Step, state: TerminationState) -> str:
        """The step in a few words."""
        instance = state.observation.instance
        match step:
            case MarkForDeletion():
                return f"marking machine {instance.machine_name} for removal"
            case ShrinkCell():
                return f"destroying machine {instance.machine_name}"
            case MarkTerminated():
                return "forgetting keys and tokens"
            case _:
                return stop_and_backup.describe(step, instance)

    async def do(self, step: Step, state: TerminationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = state.observation.instance
        match step:
            case ProveBackup():
                if (last := state.backup or state.newest) is not None:
                    await self.backups.prove(instance, last)
            case MarkForDeletion():
                self.registry.instances.mark_for_deletion(instance.id, why=self.why)
            case Fence(machine_id=machine_id) if not state.wanted:
                # Do not wait for running turns: their results are not needed, and they must not delay the termination.
                with suppress(MachineGoneError):  # each run of the cell destroys it, now that it is marked
                    await self.client.gateways.fence(machine_id)
            case ShrinkCell():
                await self.cells.apply(instance.cell, still_wanted=lambda: self._holds(instance))
            case MarkTerminated():
                # First: after the end nothing would revoke its access or delete its snapshots.
                await self.backups.revoke(self.instance_id)
                await self.snapshots.drop(self.instance_id, why=self.why)
                self.registry.terminations.terminate(self.instance_id)
            case StartMachine() | AwaitMachine() | Fence() | stop_and_backup.BackUp():
                await stop_and_backup.do(step, instance, client=self.client, backups=self.backups, why=self.why)
            case _ as never:
                assert_never(never)

    async def _holds(self, instance: Instance) -> bool:
        return await self.cells.holds(instance.cell, instance.machine_name)
