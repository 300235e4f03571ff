"""The work of one restore drill; what comes next is decided in ``drill``."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, assert_never

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.instances.observation import MachineState, NodeState
from hermesops.instances.ports import Cells
from hermesops.instances.workflows.restore_drill import decide as drill
from hermesops.instances.workflows.restore_drill.decide import (
    AwaitMachine,
    Drilling,
    Fence,
    Forget,
    GrowCell,
    MarkForDeletion,
    Prove,
    RecordMachine,
    ShrinkCell,
    Step,
    TakeMachine,
)
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId, MachineId, MachineName
from hermesops.model.instance import Instance
from hermesops.model.operation import Done, Operation, Refused
from hermesops.model.spare import Purpose
from hermesops.registry import Registry


class World(Protocol):
    """Machines and nodes."""

    async def machine_named(self, name: MachineName, machine_id: MachineId | None) -> MachineState | None:
        """A machine as the vendor lists it."""

    async def node(self, machine_id: MachineId) -> NodeState | None:
        """What hermes-node says."""

    async def start_machine(self, machine_id: MachineId) -> None:
        """Boot it."""

    async def await_named(self, name: MachineName, machine_id: MachineId) -> None:
        """Return once it is ready and hermes-node answers."""

    async def silence(self, machine_id: MachineId) -> None:
        """Stop its gateway for good."""


class Backups(Protocol):
    """Backups, put onto machines."""

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> object:
        """Put a backup's state on a machine whose gateway is fenced, and compare."""


class Drill:
    """The work of one drill, for the operations' loop.

    Args:
        operation: Its row; says whose backup and which.
        registry: The registry.
        world: Machines and nodes.
        backups: Backups.
        cells: Stacks of cells.
        take: Lends a machine to the drill of an instance: out of a pool, or ordered anew.
    """

    def __init__(
        self,
        operation: Operation,
        *,
        registry: Registry,
        world: World,
        backups: Backups,
        cells: Cells,
        take: Callable[[Instance], Awaitable[object]],
    ) -> None:
        self._operation = operation
        self._instance_id = InstanceId(str(operation.intent["instance"]))
        self._snapshot = str(operation.intent["snapshot"])
        self._why = f"drill {operation.id}"
        self._registry = registry
        self._world = world
        self._backups = backups
        self._cells = cells
        self._take = take

    async def observe(self) -> Drilling:
        """Look at the rows, and at the machine that is lent."""
        instance = self._registry.instances.get(self._instance_id)
        backup = next((one for one in self._registry.backups.list(self._instance_id) if one.id == self._snapshot), None)
        lent = self._registry.spares.list(purpose=Purpose.DRILL, instance_id=self._instance_id)
        spare = next(iter(lent), None)
        machine = await self._world.machine_named(spare.name, spare.machine_id) if spare else None
        checked_at = backup.checked_at if backup else None
        began_at = self._began_at()
        is_over = checked_at is not None and checked_at >= self._operation.created_at
        return Drilling(
            instance,
            backup,
            spare,
            machine,
            await self._world.node(machine.id) if machine and machine.is_up else None,
            in_stack=spare is not None and await self._cells.holds(spare.cell, spare.name),
            is_over=is_over,
            seconds=(checked_at - began_at).total_seconds() if is_over and checked_at and began_at else None,
        )

    def _began_at(self) -> datetime | None:
        return next((step.at for step in self._registry.operations.steps(self._operation.id)), None)

    def decide(self, seen: Drilling) -> Step | Done | Refused:
        """The next step for what was seen."""
        return drill.decide(seen)

    def describe(self, step: Step, seen: Drilling) -> str:
        """The step in a few words."""
        return drill.describe(step, seen)

    async def do(self, step: Step, seen: Drilling) -> None:
        """Do one step; harmless when it was done before."""
        match step:
            case TakeMachine():
                await self._take(seen.instance)
            case MarkForDeletion(name=name):
                self._registry.spares.retire(name, why=self._why)
            case ShrinkCell() | GrowCell():
                await self._apply_cell(seen)
            case Forget(name=name):
                self._registry.spares.forget(name, why=self._why)
            case RecordMachine() | AwaitMachine() | Fence() | Prove():
                await self._on_machine(step, seen)
            case _ as never:
                assert_never(never)

    async def _apply_cell(self, seen: Drilling) -> None:
        """Run the cell's stack, as long as its state and the machine's row differ."""
        if (spare := seen.spare) is None:
            return

        async def differs() -> bool:
            return await self._cells.holds(spare.cell, spare.name) != spare.wanted

        await self._cells.apply(spare.cell, still_wanted=differs)

    async def _on_machine(self, step: RecordMachine | AwaitMachine | Fence | Prove, seen: Drilling) -> None:
        if (spare := seen.spare) is None:
            raise ValueError(f"{step} without a machine")
        match step:
            case RecordMachine(machine_id=machine_id):
                self._registry.spares.set_machine(spare.name, machine_id, why=self._why)
            case AwaitMachine(machine_id=machine_id, stopped=stopped):
                if stopped:
                    await self._world.start_machine(machine_id)
                await self._world.await_named(spare.name, machine_id)
            case Fence(machine_id=machine_id):
                await self._world.silence(machine_id)
            case Prove(machine_id=machine_id) if seen.backup is not None:
                await self._prove(seen.instance, machine_id, seen.backup, spare.name)

    async def _prove(self, instance: Instance, machine_id: MachineId, backup: Backup, name: MachineName) -> None:
        problem = ""
        try:
            await self._backups.restore(instance, machine_id, backup)
        except (BrokenInvariantError, RefusedError) as error:
            problem = error.message
        self._registry.backups.record_check(backup.id, problem, where=f"{self._why} on {name}")
