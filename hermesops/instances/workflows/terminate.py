"""The end of an instance: its last backup proved, machine and snapshots destroyed, its secrets forgotten.

The row says that the machine shall go (so every run of the cell agrees) before anything is destroyed, and last that it
is gone. Without a backup that was restored once and compared nothing goes, unless that was named.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

from hermesops.errors import RefusedError
from hermesops.instances.observation import MachineState, Observation
from hermesops.instances.ports import Cells, Rests
from hermesops.instances.steps import boot, stop_and_backup, verify_backup
from hermesops.instances.steps.stop_and_backup import Fence
from hermesops.instances.steps.verify_backup import Backups, ProveBackup
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.registry import Registry


@dataclass(frozen=True)
class ShrinkCell:
    """Run the cell's stack without the machine."""


@dataclass(frozen=True)
class MarkTerminated:
    """Write ``terminated`` and drop the instance's secrets."""


@dataclass(frozen=True)
class MarkForDeletion:
    """Take the machine out of what its cell should have."""


Step = stop_and_backup.Step | ProveBackup | MarkForDeletion | Fence | ShrinkCell | MarkTerminated


@dataclass(frozen=True)
class TerminationState:
    """What ending an instance looks at.

    Attributes:
        in_stack: Whether the cell's state still holds the machine.
        fenced: Whether the gateway is known to be stopped; ``False`` when nobody answered.
        reachable: Whether the machine answered at all.
        wanted: Whether the cell should have the machine.
        backup: The last one, made for this very operation.
        newest: The newest one.
    """

    observation: Observation
    in_stack: bool
    fenced: bool
    reachable: bool
    wanted: bool = False
    backup: Backup | None = None
    newest: Backup | None = None


def decide(seen: TerminationState, *, keeps_backup: bool = False) -> Step | Done | Refused:
    """The next step towards the end.

    Args:
        seen: The instance as it is now.
        keeps_backup: Whether what the user has must be in a backup that is known to restore before anything goes.
    """
    instance = seen.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Done(f"the instance of {instance.title} is terminated")
    machine = seen.observation.machine
    gone = machine is None or machine.status is MachineStatus.DELETED
    if seen.wanted:
        proving = _kept(seen, gone=gone) if keeps_backup else None
        return proving or MarkForDeletion()
    if machine is not None and not gone and seen.reachable and not seen.fenced:
        return Fence(machine.id)
    if not gone or seen.in_stack:
        return ShrinkCell()
    return MarkTerminated()


def _kept(seen: TerminationState, *, gone: bool) -> stop_and_backup.Step | ProveBackup | Refused | None:
    instance, last = seen.observation.instance, seen.newest
    if instance.status is InstanceStatus.PROVISIONING:
        return None  # nobody has said anything to it yet
    if not gone and instance.status is InstanceStatus.RUNNING:
        if (resting := stop_and_backup.next_step(seen.observation, seen.backup)) is not None:
            return resting
        last = seen.backup
    return Refused(_no_backup(instance)) if last is None else verify_backup.next_step(instance, last)


def _no_backup(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup, and what the agent knows would be lost",
        hint=f"hermesops instance terminate {instance.title} --now --without-backup, if that is wanted",
    )


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case ProveBackup():
            return verify_backup.describe(instance)
        case MarkForDeletion():
            return f"giving machine {instance.machine_name} up"
        case ShrinkCell():
            return f"destroying machine {instance.machine_name}"
        case MarkTerminated():
            return "forgetting keys and tokens"
        case _:
            return stop_and_backup.describe(step, instance)


@dataclass(frozen=True)
class TerminationRequest:
    """What was asked.

    Attributes:
        why: What the last backup is made for, and why the machine goes.
        keeps_backup: Whether what the user has must be in a backup that is known to restore before anything goes.
    """

    why: str
    keeps_backup: bool


class Gateways(Protocol):
    """The gateways' units."""

    async def is_stopped(self, machine: MachineState | None) -> bool | None:
        """Whether a gateway is stopped and cannot start; ``None`` when the machine does not answer."""

    async def fence(self, machine_id: MachineId) -> None:
        """Stop a gateway so that it does not start again."""


class Snapshots(Protocol):
    """The vendor's images of single instances."""

    async def drop(self, instance_id: InstanceId, *, why: str) -> None:
        """Delete an instance's."""


class Terminate:
    """The work of ending one instance, for the operations' loop.

    Args:
        instance_id: Whose.
        request: What was asked.
        registry: The registry.
        world: Machines and nodes.
        gateways: Their units.
        backups: Backups.
        snapshots: What JustAVPS keeps of its disk, in clear.
        cells: Stacks of cells.
    """

    def __init__(
        self,
        instance_id: InstanceId,
        request: TerminationRequest,
        *,
        registry: Registry,
        world: Rests,
        gateways: Gateways,
        backups: Backups,
        snapshots: Snapshots,
        cells: Cells,
    ) -> None:
        self._instance_id = instance_id
        self._request = request
        self._registry = registry
        self._world = world
        self._gateways = gateways
        self._backups = backups
        self._snapshots = snapshots
        self._cells = cells

    async def observe(self) -> TerminationState:
        """Look at row, machine, gateway, backups and the cell's state."""
        observation = await self._world.observe(self._instance_id)
        stopped = await self._gateways.is_stopped(observation.machine)
        return TerminationState(
            observation,
            in_stack=await self._holds(observation.instance),
            fenced=stopped is True,
            reachable=stopped is not None,
            wanted=self._registry.instances.is_machine_wanted(self._instance_id),
            backup=self._backups.made(self._instance_id, self._request.why),
            newest=self._backups.newest(self._instance_id),
        )

    def decide(self, seen: TerminationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen, keeps_backup=self._request.keeps_backup)

    def describe(self, step: Step, seen: TerminationState) -> str:
        """The step in a few words."""
        return describe(step, seen.observation.instance)

    async def do(self, step: Step, seen: TerminationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.observation.instance
        match step:
            case ProveBackup():
                if (last := seen.backup or seen.newest) is not None:
                    await self._backups.prove(instance, last)
            case MarkForDeletion():
                self._registry.instances.mark_for_deletion(instance.id, why=self._request.why)
            case Fence(machine_id=machine_id) if not seen.wanted:
                # Nothing is waited for: what was under way has no use any more, and nobody may hold the end up.
                await self._gateways.fence(machine_id)
            case ShrinkCell():
                await self._cells.apply(instance.cell, still_wanted=partial(self._holds, instance))
            case MarkTerminated():
                # First: nobody looks after what an ended instance still opens, or has lying about.
                await self._backups.revoke(self._instance_id)
                await self._snapshots.drop(self._instance_id, why=self._request.why)
                self._registry.terminations.terminate(self._instance_id)
            case boot.StartMachine() | boot.AwaitMachine() | Fence() | stop_and_backup.BackUp():
                await stop_and_backup.do(step, instance, world=self._world, copies=self._backups, why=self._request.why)
            case _ as never:
                assert_never(never)

    async def _holds(self, instance: Instance) -> bool:
        return await self._cells.holds(instance.cell, instance.machine_name)
