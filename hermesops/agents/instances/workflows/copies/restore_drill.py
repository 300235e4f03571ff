"""Restore one instance's newest backup on a separate machine, compare the states, and destroy the machine.

The machine never becomes the instance's: it gets no payload, so no key, no messenger's token and no setting of the
user, and its gateway is fenced first. A machine that held a user's state never returns to a pool.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.observation import MachineState
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine, return_machine
from hermesops.agents.instances.steps.new_machine import GrowCell, grow_cell
from hermesops.agents.instances.steps.ports import Backups
from hermesops.agents.instances.steps.return_machine import Forget, Retire, ShrinkCell
from hermesops.agents.instances.steps.stop_and_backup import Fence
from hermesops.agents.instances.workflows.provision import RecordMachine
from hermesops.errors import BrokenInvariantError, Hint, RefusedError, UnavailableError
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.operation import Done, Operation, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.kinds.copies import DrillIntent
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus


@dataclass(frozen=True)
class TakeMachine:
    """Take a machine out of a warm pool, or order one where none is ready."""


@dataclass(frozen=True)
class AwaitMachine:
    """Start the machine if it is stopped, and wait until hermes-node answers."""

    machine_id: MachineId
    stopped: bool = False


class Prove(OnMachine):
    """Restore the backup on the machine, compare the states, and record the result."""


Step = TakeMachine | GrowCell | RecordMachine | AwaitMachine | Fence | Prove | return_machine.Step


@dataclass(frozen=True)
class DrillState:
    """The borrowed machine and the backup of a drill.

    Attributes:
        backup: The backup to restore; ``None`` when its row is gone.
        is_over: Whether the backup was checked since the drill began.
        seconds: From taking the machine to that check; ``None`` before.
    """

    instance: Instance
    backup: Backup | None
    row: UnassignedMachine | None = None
    machine: MachineState | None = None
    node: NodeState | None = None
    in_stack: bool = False
    is_over: bool = False
    seconds: float | None = None


def decide(state: DrillState) -> Step | Done | Refused:
    """The next step towards a restored and compared state."""
    row = state.row
    has_ended = state.instance.status is InstanceStatus.TERMINATED
    if row is not None and (state.is_over or has_ended or state.backup is None or not row.wanted):
        is_there = state.machine is not None and state.machine.status is not MachineStatus.DELETED
        return return_machine.next_step(row, exists=state.in_stack or is_there)
    if state.backup is None or has_ended:
        return Refused(RefusedError(f"the backup of {state.instance.title} that was to be restored is kept no more"))
    if state.is_over:
        return _outcome(state.instance, state.backup, state.seconds or 0.0)
    return TakeMachine() if row is None else _on_machine(state, row)


def _on_machine(state: DrillState, row: UnassignedMachine) -> Step | Refused:
    machine, node = state.machine, state.node
    if machine is None or machine.status is MachineStatus.DELETED or not state.in_stack:
        # A run that was killed may have made it and not written it down; what no stack holds, no run destroys.
        return GrowCell()
    if row.machine_id != machine.id:
        return RecordMachine(machine.id)
    if machine.status is MachineStatus.ERROR:
        return Retire(row.name)  # another one is taken then
    if machine.status is not MachineStatus.READY or node is None:
        return AwaitMachine(machine.id, stopped=machine.status is MachineStatus.STOPPED)
    if node.instance_id is not None:
        # Another instance is on it: restore nothing there, and destroy nothing before a person has checked.
        return Refused(
            UnavailableError(
                f"machine {row.name} was lent to a drill and says that it is instance {node.instance_id}'s",
                hint=Hint("touch neither before a person has looked:", ("fleet", "drift", "--deep")),
            )
        )
    return Prove(machine.id) if node.fenced else Fence(machine.id)


def _outcome(instance: Instance, backup: Backup, seconds: float) -> Done | Refused:
    if not backup.is_proved:
        return Refused(
            RefusedError(
                f"backup {backup.id[:8]} of {instance.title} differs after the restore: {backup.checked}",
                hint=Hint(
                    "runbooks/backup-does-not-restore.md;", ("backup", "create", instance.title), "makes another"
                ),
            )
        )
    return Done(
        f"backup {backup.id[:8]} of {instance.title} was restored onto a machine and matches its original, "
        f"{backup.state}; {seconds:.1f} s from taking the machine to the proof"
    )


_WORDS: Mapping[type, str] = {
    TakeMachine: "taking a machine for the restore drill of {user}",
    GrowCell: "creating machine {machine}",
    RecordMachine: "recording machine {machine}",
    AwaitMachine: "waiting for machine {machine}",
    Fence: "stopping the gateway of machine {machine}",
    Prove: "restoring backup {backup} onto machine {machine}, to compare",
    Retire: "marking machine {machine} for removal",
    ShrinkCell: "destroying machine {machine}",
    Forget: "forgetting machine {machine}",
}


@dataclass
class Drill:
    """The work of one drill, for the operations' loop.

    Attributes:
        take: Lends a machine to the drill of an instance: from a pool, or a new one.
    """

    operation: Operation
    registry: Registry
    client: PowerControl
    backups: Backups
    cells: CellStacks
    take: Callable[[Instance], Awaitable[object]]

    @cached_property
    def _intent(self) -> DrillIntent:
        return DrillIntent.of(self.operation)

    @property
    def _why(self) -> str:
        return f"drill {self.operation.id}"

    async def observe(self) -> DrillState:
        """Look at the rows, and at the machine that is lent."""
        of, registry = self._intent.instance, self.registry
        backup = next((each for each in registry.backups.list(of) if each.id == self._intent.snapshot), None)
        row = next(iter(registry.unassigned.list(role=MachineRole.DRILL, instance_id=of)), None)
        machine = await self.client.machine_named(row.name, row.machine_id) if row else None
        checked_at = backup.checked_at if backup else None
        began_at = next((step.at for step in registry.operations.steps(self.operation.id)), None)
        is_over = checked_at is not None and checked_at >= self.operation.created_at
        return DrillState(
            registry.instances.get(of),
            backup,
            row,
            machine,
            await self.client.node(machine.id) if machine and machine.is_up else None,
            in_stack=row is not None and await self.cells.holds(row.cell, row.name),
            is_over=is_over,
            seconds=(checked_at - began_at).total_seconds() if is_over and checked_at and began_at else None,
        )

    def decide(self, state: DrillState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state)

    def describe(self, step: Step, state: DrillState) -> str:
        """The step in a few words."""
        machine = state.row.name if state.row else ""
        backup = state.backup.id[:8] if state.backup else ""
        return _WORDS[type(step)].format(user=state.instance.title, machine=machine, backup=backup)

    async def do(self, step: Step, state: DrillState) -> None:
        """Do one step; harmless when it was done before."""
        if isinstance(step, TakeMachine):
            await self.take(state.instance)
            return
        if (row := state.row) is None:
            raise ValueError(f"{step} without a machine")
        match step:
            case GrowCell():
                await grow_cell(self.cells, row.cell, row.name)
            case Retire() | ShrinkCell() | Forget():
                await return_machine.do(step, row, registry=self.registry, cells=self.cells, why=self._why)
            case RecordMachine() | AwaitMachine() | Fence() | Prove():
                await self._on_machine(step, state, row)
            case _ as never:
                assert_never(never)

    async def _on_machine(
        self, step: RecordMachine | AwaitMachine | Fence | Prove, state: DrillState, row: UnassignedMachine
    ) -> None:
        match step:
            case RecordMachine(machine_id=machine_id):
                self.registry.unassigned.set_machine(row.name, machine_id, why=self._why)
            case AwaitMachine(machine_id=machine_id, stopped=stopped):
                if stopped:
                    await self.client.start_machine(machine_id)
                await self.client.await_named(row.name, machine_id)
            case Fence(machine_id=machine_id):
                await self.client.silence(machine_id)
            case Prove(machine_id=machine_id) if state.backup is not None:
                await self._prove(state.instance, machine_id, state.backup, row.name)

    async def _prove(self, instance: Instance, machine_id: MachineId, backup: Backup, name: MachineName) -> None:
        problem = ""
        try:
            await self.backups.restore(instance, machine_id, backup)
        except (BrokenInvariantError, RefusedError) as error:
            problem = error.message
        self.registry.backups.record_check(backup.id, problem, where=f"{self._why} on {name}")
