"""Observes registry, stacks and vendor. It changes nothing there; what does not answer is recorded as unseen."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermesops.agents.drift.fleet_snapshot import FleetSnapshot, Rebooted, StackMachine, StackSnapshot, StoppedOperation
from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import HermesError
from hermesops.model.fleet.overview import MachineObservation, Ordered
from hermesops.model.ids import CellName, MachineId, MachineName, OperationId, is_machine_name
from hermesops.store.operations.holder import is_gone
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.client import Client
from hermesops.vendor.justavps.wire import Machine

_STATES_AT_ONCE, _SLOW_S, _LONGEST_S = 8, 30.0, 300.0


MachinesIn = Callable[[Mapping[str, Any]], Mapping[MachineName, Mapping[str, Any]]]
"""Finds the machines in a cell's state, as Pulumi exports it; the state is empty before the first run."""


@dataclass(frozen=True)
class Survey:
    """Observes registry, stacks and vendor once.

    Attributes:
        is_passing: Whether a machine is temporary, of an image build.
    """

    environment: str
    registry: Registry
    vendor: Client
    state_of: Callable[[CellName], Awaitable[Mapping[str, Any]]]
    machines_in: MachinesIn
    is_passing: Callable[[Machine], bool]

    async def observe(self) -> FleetSnapshot:
        """Registry, stacks and vendor; no machine is asked.

        Rows are read before the vendor's list: what an operation makes in between has a row whose subject is leased.

        Raises:
            UnavailableError: The vendor or the registry does not answer.
        """
        leases, begun = self.registry.leases.list(), self.begun()
        unassigned = self.registry.unassigned.list()
        rows, ended = self.registry.fleet.list_ordered(), self.registry.fleet.ended_machines()
        # Again: a machine that changed its role in between is in one of the two lists, and so no orphan.
        unassigned = tuple({one.name: one for one in (*unassigned, *self.registry.unassigned.list())}.values())
        cells = tuple(cell.name for cell in self.registry.cells.list())
        machines, images, stacks = await asyncio.gather(
            self.vendor.list_machines(), self.vendor.list_images(), self._stacks(cells)
        )
        names = {image.name for image in self.registry.images.list()}
        held = (*leases, *self.registry.leases.list())
        in_hand = frozenset(lease.subject for lease in held if not is_gone(lease.holder))
        return FleetSnapshot(
            environment=self.environment,
            rows=rows,
            unassigned=unassigned,
            backed_up=frozenset(who for who, at in self.registry.backups.newest().items() if at),
            ended=ended,
            in_hand=in_hand,
            wanted_images={image.id: name for name in sorted(names) if (image := self.registry.images.latest(name))},
            stacks=stacks,
            machines=machines,
            images=images,
            passing=frozenset(machine.name for machine in machines if self.is_passing(machine)),
            stopped=self.stopped(begun, in_hand),
        )

    def begun(self) -> frozenset[OperationId]:
        """Operations that have not ended."""
        return frozenset(one.id for one in self.registry.operations.unfinished())

    def stopped(self, begun: Collection[OperationId], in_hand: Collection[str]) -> tuple[StoppedOperation, ...]:
        """Operations of before that still have not ended, and that nobody worked on meanwhile."""
        operations = self.registry.operations
        left = [one for one in operations.unfinished() if one.id in begun and one.subject not in in_hand]
        return tuple(
            StoppedOperation(one, steps[-1].problem if (steps := operations.steps(one.id)) else "") for one in left
        )

    def remember(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """Record in the registry how machines look; the snapshot, with those that rebooted since the last record."""
        boots = {machine_id: told.boot_id for machine_id, told in snapshot.told.items()}
        seen, missing = listing(snapshot.machines, snapshot.rows, self.environment, boots)
        before = self.registry.observations.record(seen, missing=missing)
        rebooted = {
            machine_id: Rebooted(old.boot_seen_at)
            for machine_id, told in snapshot.told.items()
            if (old := before.get(machine_id)) and old.boot_seen_at and told.boot_id not in {"", old.boot_id}
        }
        return replace(snapshot, rebooted=rebooted)

    async def _stacks(self, cells: Sequence[CellName]) -> dict[CellName, StackSnapshot]:
        async def one(cell: CellName) -> StackSnapshot:
            return _read(await self.state_of(cell), self.machines_in)

        states = await fan_out(cells, one, Limits(_STATES_AT_ONCE, slow_after_s=_SLOW_S, within_s=_LONGEST_S))
        return {
            cell: StackSnapshot(unseen=seen.message, hint=seen.hint) if isinstance(seen, HermesError) else seen
            for cell, seen in zip(cells, states, strict=True)
        }


def _read(state: Mapping[str, Any], machines_in: MachinesIn) -> StackSnapshot:
    pending = (state.get("deployment") or {}).get("pending_operations") or []
    return StackSnapshot(
        machines={name: StackMachine.of(resource) for name, resource in machines_in(state).items()},
        interrupted=tuple(str(one["resource"]["urn"]).rpartition("::")[2] for one in pending),
    )


def listing(
    machines: Iterable[Machine], rows: Iterable[Ordered], environment: str, boots: Mapping[MachineId, str]
) -> tuple[list[MachineObservation], dict[MachineId, str]]:
    """The machines of an environment in the vendor's list.

    Args:
        rows: The living instances, read before the list was asked for.

    Returns:
        How each machine looks; and names, by id, of machines that instances are on and the vendor does not list.
    """
    seen = [
        MachineObservation(
            MachineId(machine.id),
            machine.name,
            machine.server_type,
            machine.status.value,
            boots.get(MachineId(machine.id), ""),
        )
        for machine in machines
        if is_machine_name(machine.name, environment)
    ]
    there = {observation.machine_id for observation in seen}
    on = {row.instance.machine_id: row.instance.machine_name for row in rows if row.instance.machine_id}
    return seen, {machine_id: name for machine_id, name in on.items() if machine_id not in there}
