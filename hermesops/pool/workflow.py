"""Brings a cell's pool to its size, as the work of an operation; every step may be killed and done again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol, assert_never

from hermesops.cells.coalescing import StillWanted
from hermesops.errors import HermesError, RefusedError
from hermesops.fan_out import Limits, fan_out
from hermesops.justavps.wire import MachineStatus
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName
from hermesops.model.operation import Done, Lease, LeaseHeldError, LeaseLostError, Refused
from hermesops.model.spare import Purpose, Spare, SpareStatus, spare_subject
from hermesops.pool.decide import (
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
from hermesops.registry import Registry

_ASKING = Limits(16, slow_after_s=10.0, within_s=60.0)
_MAKING = Limits(16, slow_after_s=120.0, within_s=1500.0)
"""How many are asked, and made ready, at once; seconds for which one holds up others, and after which it is left."""


class HeldLease(Protocol):
    """A lease that is held."""

    @property
    def lease(self) -> Lease:
        """It."""


class Listed(Protocol):
    """A machine as the vendor lists it."""

    @property
    def id(self) -> str:
        """The vendor's id."""

    @property
    def status(self) -> MachineStatus:
        """In the vendor's words."""


class NodeReport(Protocol):
    """What hermes-node says of its machine."""

    @property
    def instance_id(self) -> InstanceId | None:
        """Whose it is."""


class World(Protocol):
    """Machines, as far as a pool needs them."""

    async def listed(self) -> Mapping[MachineName, Listed]:
        """The vendor's list, by name; of several of a name the newest."""

    async def node(self, machine_id: MachineId) -> NodeReport | None:
        """What hermes-node says; ``None`` while it does not answer."""

    async def await_machine(self, spare: Spare) -> None:
        """Return once it is ready and hermes-node answers."""

    async def faults(self, machine_id: MachineId) -> Sequence[str]:
        """What a machine without a user should promise, and does not."""

    async def warm(self, machine_id: MachineId, lease: Lease) -> str:
        """Start its gateway with a placeholder; the API key that was made there, empty where it stays cold."""


class Cells(Protocol):
    """Stacks of cells."""

    async def apply(self, cell: CellName, *, still_wanted: StillWanted) -> object:
        """Run the cell's stack."""

    async def held(self, cell: CellName) -> frozenset[MachineName]:
        """The machines in the cell's state."""


class PoolFill:
    """The work of filling one cell's pool, for the operations' loop.

    Args:
        cell: Which; it has a row.
        targets: What its pool should hold.
        size: Machines a cell holds at most.
        registry: The registry.
        world: Machines.
        cells: Stacks.
        hold_lease: Holds the lease of a subject while its context lasts; refused at once when somebody else does.
    """

    def __init__(
        self,
        cell: CellName,
        targets: Sequence[Target],
        size: int,
        registry: Registry,
        world: World,
        cells: Cells,
        hold_lease: Callable[[str], AbstractAsyncContextManager[HeldLease]],
    ) -> None:
        self._cell = cell
        self._targets = tuple(targets)
        self._size = size
        self._registry = registry
        self._world = world
        self._cells = cells
        self._hold_lease = hold_lease
        self._lost: tuple[str, ...] = ()
        self._made: set[MachineName] = set()

    async def observe(self) -> PoolObservation:
        """Look at rows, state, vendor and machines.

        Rows last: a machine that was taken meanwhile has none any more.
        """
        listed, in_stack = await asyncio.gather(self._world.listed(), self._cells.held(self._cell))
        spares = [
            one
            for one in self._registry.spares.list(cell=self._cell)
            if one.purpose is Purpose.POOL or not one.wanted  # what others gave up goes with the same run
        ]
        held = [_held(one, listed.get(one.name), is_in_stack=one.name in in_stack) for one in spares]
        asked = [one for one in held if _is_to_be_asked(one)]
        told = {one.spare.name: one for one in await self._told(asked)}
        room = self._size - self._registry.cells.get(self._cell).machines
        seen = tuple(told.get(one.spare.name, one) for one in held)
        return PoolObservation(self._cell, self._targets, seen, max(0, room), self._lost)

    async def _told(self, asked: Sequence[PoolMachine]) -> list[PoolMachine]:
        """What the machines say; one that answers nonsense, or not in its time, is as good as silent."""

        async def one(held: PoolMachine) -> PoolMachine:
            node = await self._world.node(held.machine_id) if held.machine_id else None
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
            UnavailableError: The vendor did not answer, or a guard held the cell's run up; safe to repeat.
        """
        match step:
            case Retire(machines=machines):
                for name, why in machines:
                    await self._retire(name, why)
            case Forget(names=names):
                for name in names:
                    self._registry.spares.forget(name)
            case OrderMachines(target=target, count=count):
                self._order(target, count)
            case ApplyCell():
                await self._cells.apply(self._cell, still_wanted=self._is_wanted)
            case Record(machines=recorded):
                for name, machine_id in recorded:
                    self._registry.spares.set_machine(name, machine_id)
            case MakeReady(names=names):
                await self._make_all_ready([held.spare for held in seen.held if held.spare.name in names])
            case _ as never:
                assert_never(never)

    async def _retire(self, name: MachineName, why: str) -> None:
        """Give a machine up unless somebody takes it at this very moment: then it is a user's."""
        try:
            async with self._hold_lease(spare_subject(name)):
                self._registry.spares.retire(name, why=why)
        except LeaseHeldError:
            return

    def _order(self, target: Target, count: int) -> None:
        for _ in range(count):
            try:
                self._registry.spares.place(
                    Purpose.POOL,
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
        cell = next(one for one in cells if one.name == self._cell)
        if cell.machines >= self._size:
            raise _FullError(f"{self._cell} is full")
        return Placement(cell.name, cell.region, cell.only_plan)

    async def _is_wanted(self) -> bool:
        """Whether rows and state still differ about a spare machine; asked by everybody who waits for the cell."""
        in_stack = await self._cells.held(self._cell)
        return any((one.name in in_stack) != one.wanted for one in self._registry.spares.list(cell=self._cell))

    async def _make_all_ready(self, spares: Sequence[Spare]) -> None:
        for spare, end in zip(spares, await fan_out(spares, self._make_ready, _MAKING), strict=True):
            if isinstance(end, HermesError) and not isinstance(end, LeaseLostError):
                await self._lose(spare.name, end.message)

    async def _make_ready(self, spare: Spare) -> None:
        if spare.machine_id is None:
            return
        try:
            async with self._hold_lease(spare_subject(spare.name)) as turn:
                why = await self._unwell(spare, spare.machine_id)
                if not why:
                    key = await self._world.warm(spare.machine_id, turn.lease)
                    self._registry.spares.mark_ready(spare.name, api_server_key=key)
        except LeaseHeldError:
            return
        if why:
            await self._lose(spare.name, why)

    async def _lose(self, name: MachineName, why: str) -> None:
        """Give up a machine that did not become well; the others go on."""
        self._lost = (*self._lost, f"{name}: {why}")
        await self._retire(name, why)

    async def _unwell(self, spare: Spare, machine_id: MachineId) -> str:
        """Why a machine cannot be used, in a line; empty when it can."""
        if spare.name in self._made:  # or it could keep this run busy for ever
            return "it fell silent again right after it was made ready"
        self._made.add(spare.name)
        try:
            await self._world.await_machine(spare)
            return "; ".join(await self._world.faults(machine_id))[:300]
        except HermesError as error:
            return error.message


def _held(spare: Spare, machine: Listed | None, *, is_in_stack: bool) -> PoolMachine:
    """What is known of a spare machine without asking it."""
    if machine is None:
        return PoolMachine(spare, in_stack=is_in_stack)
    return PoolMachine(spare, MachineId(machine.id), machine.status, in_stack=is_in_stack)


def _is_to_be_asked(held: PoolMachine) -> bool:
    spare = held.spare
    return spare.wanted and spare.status is SpareStatus.READY and held.status is MachineStatus.READY


class _FullError(RefusedError):
    """The cell was filled by others meanwhile."""
