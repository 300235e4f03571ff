"""Brings a cell's pool to its size, as the work of an operation; every step may be killed and done again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, assert_never

from hermesops.errors import HermesError, RefusedError
from hermesops.justavps.wire import MachineStatus
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Finished, Impossible, Lease, LeaseHeldError
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, SpareStatus, spare_subject
from hermesops.placement.gathering import StillWanted
from hermesops.placement.pool import (
    BringCell,
    Forget,
    Held,
    MakeReady,
    Order,
    PoolSight,
    Record,
    Retire,
    Step,
    Target,
    decide,
    describe,
)


class Rows(Protocol):
    """The registry, as far as a pool is written."""

    def get_cell(self, name: CellName) -> Cell:
        """One cell."""

    def list_spares(self, *, cell: CellName) -> Sequence[Spare]:
        """Its machines beside those of instances."""

    def place_spare(
        self,
        purpose: Purpose,
        *,
        plan: Plan,
        server_type: str,
        image_id: ImageId | None,
        choose: Callable[[Sequence[Cell]], Placement],
        why: str = "",
    ) -> Spare:
        """Order a machine."""

    def set_spare_machine(self, name: MachineName, machine_id: MachineId) -> object:
        """Record its id."""

    def mark_spare_ready(self, name: MachineName, *, api_server_key: str) -> object:
        """Let it be taken."""

    def retire_spare(self, name: MachineName, *, why: str) -> bool:
        """Give it up."""

    def forget_spare(self, name: MachineName) -> None:
        """End its row."""


class Turn(Protocol):
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


class Told(Protocol):
    """What hermes-node says of its machine."""

    @property
    def instance_id(self) -> InstanceId | None:
        """Whose it is."""


class World(Protocol):
    """Machines, as far as a pool needs them."""

    async def listed(self) -> Mapping[MachineName, Listed]:
        """The vendor's list, by name; of several of a name the newest."""

    async def node(self, machine_id: MachineId) -> Told | None:
        """What hermes-node says; ``None`` while it does not answer."""

    async def await_machine(self, spare: Spare) -> None:
        """Return once it is ready and hermes-node answers."""

    async def faults(self, machine_id: MachineId) -> Sequence[str]:
        """What a machine without a user should promise, and does not."""

    async def warm(self, machine_id: MachineId, lease: Lease) -> str:
        """Start its gateway with a placeholder; the API key that was made there, empty where it stays cold."""


class Cells(Protocol):
    """Stacks of cells."""

    async def bring(self, cell: CellName, *, still_wanted: StillWanted) -> object:
        """Run the cell's stack."""

    async def held(self, cell: CellName) -> frozenset[MachineName]:
        """The machines in the cell's state."""


class PoolFill:
    """The work of filling one cell's pool, for the operations' loop.

    Args:
        cell: Which; it has a row.
        targets: What its pool should hold.
        size: Machines a cell holds at most.
        rows: The registry.
        world: Machines.
        cells: Stacks.
        alone: Holds the lease of a subject while its context lasts; refused at once when somebody else does.
    """

    def __init__(
        self,
        cell: CellName,
        targets: Sequence[Target],
        size: int,
        rows: Rows,
        world: World,
        cells: Cells,
        alone: Callable[[str], AbstractAsyncContextManager[Turn]],
    ) -> None:
        self._cell = cell
        self._targets = tuple(targets)
        self._size = size
        self._rows = rows
        self._world = world
        self._cells = cells
        self._alone = alone
        self._lost: tuple[str, ...] = ()

    async def observe(self) -> PoolSight:
        """Look at rows, state, vendor and machines.

        Rows last: a machine that was taken meanwhile has none any more.
        """
        listed, in_stack = await asyncio.gather(self._world.listed(), self._cells.held(self._cell))
        spares = [
            one
            for one in self._rows.list_spares(cell=self._cell)
            if one.purpose is Purpose.POOL or not one.wanted  # what others gave up goes with the same run
        ]
        told = await asyncio.gather(*(self._held(one, listed.get(one.name), in_stack) for one in spares))
        room = self._size - self._rows.get_cell(self._cell).machines
        return PoolSight(self._cell, self._targets, tuple(told), max(0, room), self._lost)

    async def _held(self, spare: Spare, machine: Listed | None, in_stack: frozenset[MachineName]) -> Held:
        is_held = spare.name in in_stack
        if machine is None:
            return Held(spare, in_stack=is_held)
        machine_id = MachineId(machine.id)
        if not spare.wanted or spare.status is not SpareStatus.READY or machine.status is not MachineStatus.READY:
            return Held(spare, machine_id, machine.status, in_stack=is_held)
        node = await self._world.node(machine_id)
        return Held(
            spare,
            machine_id,
            machine.status,
            in_stack=is_held,
            is_silent=node is None,
            belongs_to=node.instance_id if node else None,
        )

    def decide(self, seen: PoolSight) -> Step | Finished | Impossible:
        """The next step for what was seen."""
        return decide(seen)

    def describe(self, step: Step, seen: PoolSight) -> str:
        """The step in a few words."""
        return describe(step, seen)

    async def do(self, step: Step, seen: PoolSight) -> None:
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
                    self._rows.forget_spare(name)
            case Order(target=target, count=count):
                self._order(target, count)
            case BringCell():
                await self._cells.bring(self._cell, still_wanted=self._is_wanted)
            case Record(machines=recorded):
                for name, machine_id in recorded:
                    self._rows.set_spare_machine(name, machine_id)
            case MakeReady(names=names):
                spares = {held.spare.name: held.spare for held in seen.held}
                await asyncio.gather(*(self._make_ready(spares[name]) for name in names))
            case _ as never:
                assert_never(never)

    async def _retire(self, name: MachineName, why: str) -> None:
        """Give a machine up unless somebody takes it at this very moment: then it is a user's."""
        try:
            async with self._alone(spare_subject(name)):
                self._rows.retire_spare(name, why=why)
        except LeaseHeldError:
            return

    def _order(self, target: Target, count: int) -> None:
        for _ in range(count):
            try:
                self._rows.place_spare(
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
        return any((one.name in in_stack) != one.wanted for one in self._rows.list_spares(cell=self._cell))

    async def _make_ready(self, spare: Spare) -> None:
        if spare.machine_id is None:
            return
        try:
            async with self._alone(spare_subject(spare.name)) as turn:
                why = await self._unwell(spare, spare.machine_id)
                if why:
                    self._lost = (*self._lost, f"{spare.name}: {why}")
                    self._rows.retire_spare(spare.name, why=why)
                    return
                key = await self._world.warm(spare.machine_id, turn.lease)
                self._rows.mark_spare_ready(spare.name, api_server_key=key)
        except LeaseHeldError:
            return

    async def _unwell(self, spare: Spare, machine_id: MachineId) -> str:
        """Why a machine cannot be used, in a line; empty when it can."""
        try:
            await self._world.await_machine(spare)
            return "; ".join(await self._world.faults(machine_id))[:300]
        except HermesError as error:
            return error.message


class _FullError(RefusedError):
    """The cell was filled by others meanwhile."""
