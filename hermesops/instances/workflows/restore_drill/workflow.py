"""Does what ``restore_drill.decide`` says."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol, assert_never

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.instances.ports import Backups, Cells
from hermesops.instances.remote.power_control import PowerControl
from hermesops.instances.workflows.restore_drill import decide as drill
from hermesops.instances.workflows.restore_drill.decide import (
    AwaitMachine,
    DrillState,
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
from hermesops.model.ids import InstanceId, MachineId, MachineName, OperationId
from hermesops.model.instance import Instance
from hermesops.model.operation import Done, Operation, OperationStep, Refused
from hermesops.model.spare import Purpose, Spare
from hermesops.operations.kinds import DrillIntent


class Rows(Protocol):
    """The registry, as far as a drill reads and writes it."""

    def get_instance(self, instance_id: InstanceId) -> Instance:
        """One instance."""

    def list_backups(self, instance_id: InstanceId) -> Sequence[Backup]:
        """Its backups."""

    def list_spares(self, *, purpose: Purpose, instance_id: InstanceId) -> Sequence[Spare]:
        """Its spare machines."""

    def operation_steps(self, operation_id: OperationId) -> Sequence[OperationStep]:
        """The steps that an operation has begun, oldest first."""

    def note_check(self, backup_id: str, problem: str, *, where: str) -> None:
        """Record what came of a restore."""

    def set_spare_machine(self, name: MachineName, machine_id: MachineId, *, why: str) -> object:
        """Record the vendor's id of a spare machine."""

    def retire_spare(self, name: MachineName, *, why: str) -> object:
        """Give a spare machine up."""

    def forget_spare(self, name: MachineName, *, why: str) -> object:
        """Remove the row of a spare machine that is gone."""


class Drill:
    """The work of one drill, for the operations' loop.

    Args:
        operation: Its row; says whose backup and which.
        rows: The registry.
        client: Machines and nodes.
        backups: Backups.
        cells: Stacks of cells.
        take: Lends a machine to the drill of an instance: out of a pool, or ordered anew.
    """

    def __init__(
        self,
        operation: Operation,
        *,
        rows: Rows,
        client: PowerControl,
        backups: Backups,
        cells: Cells,
        take: Callable[[Instance], Awaitable[object]],
    ) -> None:
        self._operation = operation
        intent = DrillIntent.of(operation)
        self._instance_id = intent.instance
        self._snapshot = intent.snapshot
        self._why = f"drill {operation.id}"
        self._rows = rows
        self._client = client
        self._backups = backups
        self._cells = cells
        self._take = take

    async def observe(self) -> DrillState:
        """Look at the rows, and at the machine that is lent."""
        instance = self._rows.get_instance(self._instance_id)
        backup = next((one for one in self._rows.list_backups(self._instance_id) if one.id == self._snapshot), None)
        lent = self._rows.list_spares(purpose=Purpose.DRILL, instance_id=self._instance_id)
        spare = next(iter(lent), None)
        machine = await self._client.machine_named(spare.name, spare.machine_id) if spare else None
        checked_at = backup.checked_at if backup else None
        began_at = self._began_at()
        is_over = checked_at is not None and checked_at >= self._operation.created_at
        return DrillState(
            instance,
            backup,
            spare,
            machine,
            await self._client.node(machine.id) if machine and machine.is_up else None,
            in_stack=spare is not None and await self._cells.holds(spare.cell, spare.name),
            is_over=is_over,
            seconds=(checked_at - began_at).total_seconds() if is_over and checked_at and began_at else None,
        )

    def _began_at(self) -> datetime | None:
        return next((step.at for step in self._rows.operation_steps(self._operation.id)), None)

    def decide(self, seen: DrillState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return drill.decide(seen)

    def describe(self, step: Step, seen: DrillState) -> str:
        """The step in a few words."""
        return drill.describe(step, seen)

    async def do(self, step: Step, seen: DrillState) -> None:
        """Do one step; harmless when it was done before."""
        match step:
            case TakeMachine():
                await self._take(seen.instance)
            case MarkForDeletion(name=name):
                self._rows.retire_spare(name, why=self._why)
            case ShrinkCell() | GrowCell():
                await self._apply_cell(seen)
            case Forget(name=name):
                self._rows.forget_spare(name, why=self._why)
            case RecordMachine() | AwaitMachine() | Fence() | Prove():
                await self._on_machine(step, seen)
            case _ as never:
                assert_never(never)

    async def _apply_cell(self, seen: DrillState) -> None:
        """Run the cell's stack, as long as its state and the machine's row differ."""
        if (spare := seen.spare) is None:
            return

        async def differs() -> bool:
            return await self._cells.holds(spare.cell, spare.name) != spare.wanted

        await self._cells.apply(spare.cell, still_wanted=differs)

    async def _on_machine(self, step: RecordMachine | AwaitMachine | Fence | Prove, seen: DrillState) -> None:
        if (spare := seen.spare) is None:
            raise ValueError(f"{step} without a machine")
        match step:
            case RecordMachine(machine_id=machine_id):
                self._rows.set_spare_machine(spare.name, machine_id, why=self._why)
            case AwaitMachine(machine_id=machine_id, stopped=stopped):
                if stopped:
                    await self._client.start_machine(machine_id)
                await self._client.await_named(spare.name, machine_id)
            case Fence(machine_id=machine_id):
                await self._client.silence(machine_id)
            case Prove(machine_id=machine_id) if seen.backup is not None:
                await self._prove(seen.instance, machine_id, seen.backup, spare.name)

    async def _prove(self, instance: Instance, machine_id: MachineId, backup: Backup, name: MachineName) -> None:
        problem = ""
        try:
            await self._backups.restore(instance, machine_id, backup)
        except (BrokenInvariantError, RefusedError) as error:
            problem = error.message
        self._rows.note_check(backup.id, problem, where=f"{self._why} on {name}")
