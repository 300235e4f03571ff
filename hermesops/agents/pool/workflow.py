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
from hermesops.store.operations.lease import LeaseKeeper
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
            one
            for one in self.registry.unassigned.list(cell=self.cell)
            if one.role is MachineRole.WARM or not one.wanted  # the same run deletes what others marked
        ]
        held = [_held(one, listed.get(one.name), is_in_stack=one.name in in_stack) for one in unassigned]
        ready = [one for one in held if one.row.wanted and one.row.status is UnassignedStatus.READY]
        asked = [one for one in ready if one.status is MachineStatus.READY]
        told = {one.row.name: one for one in await self._told(asked)}
        room = self.size - self.registry.cells.get(self.cell).machines
        seen = tuple(told.get(one.row.name, one) for one in held)
        return PoolObservation(self.cell, tuple(self.targets), seen, max(0, room), self._lost)

    async def _told(self, asked: Sequence[PoolMachine]) -> list[PoolMachine]:
        """What the machines say; one that answers nonsense, or too late, counts as silent."""

        async def one(held: PoolMachine) -> PoolMachine:
            node = await self.machines.node(held.machine_id) if held.machine_id else None
            return replace(held, is_silent=node is None, belongs_to=node.instance_id if node else None)

        answers = await fan_out(asked, one, _ASKING)
        return [
            replace(held, is_silent=True) if isinstance(said, HermesError) else said
            for held, said in zip(asked, answers, strict=True)
        ]

    def decide(self, seen: PoolObservation) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen)

    def describe(self, step: Step, seen: PoolObservation) -> str:
        """The step in a few words."""
        return describe(step, seen)

    async def do(self, step: Step, seen: PoolObservation) -> None:
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
                await self._make_all_ready([held.row for held in seen.held if held.row.name in names])
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
        cell = next(one for one in cells if one.name == self.cell)
        if cell.machines >= self.size:
            raise _FullError(f"{self.cell} is full")
        return Placement(cell.name, cell.region, cell.only_plan)

    async def _is_wanted(self) -> bool:
        """Whether rows and state still differ about a pool machine."""
        in_stack = await self.cells.held(self.cell)
        return any((one.name in in_stack) != one.wanted for one in self.registry.unassigned.list(cell=self.cell))

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
            return "it fell silent again right after it was made ready"
        self._made.add(row.name)
        try:
            await self.machines.await_machine(row)
            return "; ".join(await self.machines.faults(machine_id))[:300]
        except HermesError as error:
            return error.message


def _held(row: UnassignedMachine, machine: Machine | None, *, is_in_stack: bool) -> PoolMachine:
    """What is known of a pool machine without asking it."""
    if machine is None:
        return PoolMachine(row, in_stack=is_in_stack)
    return PoolMachine(row, MachineId(machine.id), machine.status, in_stack=is_in_stack)


class _FullError(RefusedError):
    """The cell is full: other processes took the room."""
