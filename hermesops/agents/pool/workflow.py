"""Fills a cell's pool to its size, as the workflow of an operation; each step may be killed and repeated."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.pool.decide import (
    ApplyCell,
    Forget,
    MakeReady,
    OrderMachines,
    PoolMachine,
    PoolObservation,
    Record,
    Retire,
    Step,
    Target,
    decide,
    describe,
)
from hermesops.agents.pool.machines import PoolMachines
from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import HermesError, RefusedError
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus, machine_subject
from hermesops.model.ids import CellName, MachineId, MachineName
from hermesops.model.operation import Done, LeaseHeldError, LeaseLostError, Refused
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import Machine, MachineStatus

_ASKING = Limits(16, slow_after_s=10.0, within_s=60.0)
_MAKING = Limits(16, slow_after_s=120.0, within_s=1500.0)
"""How many are asked, and made ready, at once; seconds for which one holds a place, and after which it is cancelled."""


@dataclass
class PoolFill:
    """The workflow of filling one cell's pool.

    Attributes:
        size: Machines that a cell holds at most.
        hold_lease: Holds the lease of a subject while its context lasts; refused at once when it is held.
    """

    cell: CellName
    targets: Sequence[Target]
    size: int
    registry: Registry
    machines: PoolMachines
    cells: CellStacks
    hold_lease: Callable[[str], LeaseKeeper]
    _lost: tuple[str, ...] = field(default=(), init=False)
    _made: set[MachineName] = field(default_factory=set, init=False)

    async def observe(self) -> PoolObservation:
        """Observe rows, state, vendor and machines.

        Rows are read last: a machine that was claimed meanwhile has no row any more.
        """
        listed, in_stack = await asyncio.gather(self.machines.listed(), self.cells.held(self.cell))
        unassigned = [
            row
            for row in self.registry.unassigned.list(cell=self.cell)
            if row.role is MachineRole.WARM or not row.wanted  # the same run deletes what others marked
        ]
        machines = [_machine_of(row, listed.get(row.name), is_in_stack=row.name in in_stack) for row in unassigned]
        ready = [machine for machine in machines if machine.row.wanted and machine.row.status is UnassignedStatus.READY]
        to_ask = [machine for machine in ready if machine.status is MachineStatus.READY]
        answers = {machine.row.name: machine for machine in await self._ask(to_ask)}
        room = self.size - self.registry.cells.get(self.cell).machines
        updated = tuple(answers.get(machine.row.name, machine) for machine in machines)
        return PoolObservation(self.cell, tuple(self.targets), updated, max(0, room), self._lost)

    async def _ask(self, machines: Sequence[PoolMachine]) -> list[PoolMachine]:
        """Ask hermes-node on each machine; one that answers nonsense, or too late, counts as silent."""

        async def ask(machine: PoolMachine) -> PoolMachine:
            node = await self.machines.node(machine.machine_id) if machine.machine_id else None
            return replace(machine, is_silent=node is None, belongs_to=node.instance_id if node else None)

        answers = await fan_out(machines, ask, _ASKING)
        return [
            replace(machine, is_silent=True) if isinstance(answer, HermesError) else answer
            for machine, answer in zip(machines, answers, strict=True)
        ]

    def decide(self, observation: PoolObservation) -> Step | Done | Refused:
        """Choose the next step for an observation; see ``pool.decide.decide``."""
        return decide(observation)

    def describe(self, step: Step, observation: PoolObservation) -> str:
        """Describe a step in one line, for narration and for the operation's row."""
        return describe(step, observation)

    async def do(self, step: Step, observation: PoolObservation) -> None:
        """Do one step; harmless when it was done before.

        Raises:
            UnavailableError: The vendor did not answer, or a guard refused the cell's run; safe to repeat.
        """
        match step:
            case Retire(machines=machines):
                for name, why in machines:
                    await self._retire(name, why)
            case Forget(names=names):
                for name in names:
                    self.registry.unassigned.forget(name)
            case OrderMachines(target=target, count=count):
                self._order(target, count)
            case ApplyCell():
                await self.cells.apply(self.cell, still_wanted=self._is_wanted)
            case Record(machines=recorded):
                for name, machine_id in recorded:
                    self.registry.unassigned.set_machine(name, machine_id)
            case MakeReady(names=names):
                await self._make_all_ready(
                    [machine.row for machine in observation.machines if machine.row.name in names]
                )
            case _ as never:
                assert_never(never)

    async def _retire(self, name: MachineName, why: str) -> None:
        """Mark a machine for deletion, unless it is being claimed: then it is a user's."""
        try:
            async with self.hold_lease(machine_subject(name)):
                self.registry.unassigned.retire(name, why=why)
        except LeaseHeldError:
            return

    def _order(self, target: Target, count: int) -> None:
        for _ in range(count):
            try:
                self.registry.unassigned.place(
                    MachineRole.WARM,
                    plan=target.plan,
                    server_type=target.server_type,
                    image_id=target.image_id,
                    choose=self._choose,
                    why=f"pool of {target.size}",
                )
            except _FullError:
                return

    def _choose(self, cells: Sequence[Cell]) -> Placement:
        """This cell; asked again under its lock, so that it is never overfilled."""
        cell = next(cell for cell in cells if cell.name == self.cell)
        if cell.machines >= self.size:
            raise _FullError(f"{self.cell} is full")
        return Placement(cell.name, cell.region, cell.only_plan)

    async def _is_wanted(self) -> bool:
        """Whether rows and state still differ about a pool machine."""
        in_stack = await self.cells.held(self.cell)
        return any((row.name in in_stack) != row.wanted for row in self.registry.unassigned.list(cell=self.cell))

    async def _make_all_ready(self, unassigned: Sequence[UnassignedMachine]) -> None:
        for row, end in zip(unassigned, await fan_out(unassigned, self._make_ready, _MAKING), strict=True):
            if isinstance(end, HermesError) and not isinstance(end, LeaseLostError):
                await self._lose(row.name, end.message)

    async def _make_ready(self, row: UnassignedMachine) -> None:
        if row.machine_id is None:
            return
        try:
            async with self.hold_lease(machine_subject(row.name)) as turn:
                why = await self._unwell(row, row.machine_id)
                if not why:
                    key = await self.machines.warm(row.machine_id, turn.lease)
                    self.registry.unassigned.mark_ready(row.name, api_server_key=key)
        except LeaseHeldError:
            return
        if why:
            await self._lose(row.name, why)

    async def _lose(self, name: MachineName, why: str) -> None:
        """Mark a machine that did not become ready for deletion; the others go on."""
        self._lost = (*self._lost, f"{name}: {why}")
        await self._retire(name, why)

    async def _unwell(self, row: UnassignedMachine, machine_id: MachineId) -> str:
        """Why a machine cannot be used, in one line; empty when it can."""
        if row.name in self._made:  # or it could keep this run busy for ever
            return "no answer right after it became ready"
        self._made.add(row.name)
        try:
            await self.machines.await_machine(row)
            return "; ".join(await self.machines.faults(machine_id))[:300]
        except HermesError as error:
            return error.message


def _machine_of(row: UnassignedMachine, machine: Machine | None, *, is_in_stack: bool) -> PoolMachine:
    """Describe a pool machine by its row and the vendor's list, without asking it."""
    if machine is None:
        return PoolMachine(row, in_stack=is_in_stack)
    return PoolMachine(row, MachineId(machine.id), machine.status, in_stack=is_in_stack)


class _FullError(RefusedError):
    """The cell is full: other processes took the room."""
