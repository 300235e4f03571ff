"""Observes registry, stacks and vendor without changing them; a silent stack is recorded as unseen."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermesops.agents.drift.fleet_snapshot import FleetSnapshot, Rebooted, StackMachine, StackSnapshot, StoppedOperation
from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import HermesError
from hermesops.model.fleet.overview import MachineObservation, Ordered
from hermesops.model.ids import CellName, MachineId, MachineName, OperationId, is_machine_name
from hermesops.store.operations.leases.holder import is_gone
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
        """Read registry, stacks and vendor; asks no machine.

        Rows are read before the vendor's list: a machine created in between has a row with a leased subject.

        Raises:
            UnavailableError: The vendor or the registry does not answer.
        """
        leases, begun = self.registry.leases.list(), self.begun()
        unassigned = self.registry.unassigned.list()
        rows, ended = self.registry.fleet.list_ordered(), self.registry.fleet.ended_machines()
        # Again: a machine that changed its role in between is in one of the two lists, and so no orphan.
        unassigned = tuple({row.name: row for row in (*unassigned, *self.registry.unassigned.list())}.values())
        cells = tuple(cell.name for cell in self.registry.cells.list())
        machines, images, stacks = await asyncio.gather(
            self.vendor.list_machines(), self.vendor.list_images(), self._stacks(cells)
        )
        names = {image.name for image in self.registry.images.list()}
        all_leases = (*leases, *self.registry.leases.list())
        in_hand = frozenset(lease.subject for lease in all_leases if not is_gone(lease.holder))
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
        """Read the ids of all unfinished operations from the registry."""
        return frozenset(operation.id for operation in self.registry.operations.unfinished())

    def stopped(self, begun: Collection[OperationId], in_hand: Collection[str]) -> tuple[StoppedOperation, ...]:
        """Choose the operations that no process has worked on since ``begun`` was read.

        Args:
            begun: Ids of the operations that were unfinished at the start of the survey.
            in_hand: Leased subjects.
        """
        operations = self.registry.operations
        left = [
            operation
            for operation in operations.unfinished()
            if operation.id in begun and operation.subject not in in_hand
        ]
        return tuple(
            StoppedOperation(operation, steps[-1].problem if (steps := operations.steps(operation.id)) else "")
            for operation in left
        )

    def remember(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """Record the state of machines in the registry; returns the snapshot with reboots since the last record."""
        boots = {machine_id: answer.boot_id for machine_id, answer in snapshot.answers.items()}
        observations, missing = listing(snapshot.machines, snapshot.rows, self.environment, boots)
        before = self.registry.observations.record(observations, missing=missing)
        rebooted = {
            machine_id: Rebooted(old.boot_seen_at)
            for machine_id, answer in snapshot.answers.items()
            if (old := before.get(machine_id)) and old.boot_seen_at and answer.boot_id not in {"", old.boot_id}
        }
        return replace(snapshot, rebooted=rebooted)

    async def _stacks(self, cells: Sequence[CellName]) -> dict[CellName, StackSnapshot]:
        async def snapshot_of(cell: CellName) -> StackSnapshot:
            return _read(await self.state_of(cell), self.machines_in)

        states = await fan_out(cells, snapshot_of, Limits(_STATES_AT_ONCE, slow_after_s=_SLOW_S, within_s=_LONGEST_S))
        return {
            cell: StackSnapshot(unseen=answer.message, hint=answer.hint) if isinstance(answer, HermesError) else answer
            for cell, answer in zip(cells, states, strict=True)
        }


def _read(state: Mapping[str, Any], machines_in: MachinesIn) -> StackSnapshot:
    pending = (state.get("deployment") or {}).get("pending_operations") or []
    return StackSnapshot(
        machines={name: StackMachine.of(resource) for name, resource in machines_in(state).items()},
        interrupted=tuple(str(operation["resource"]["urn"]).rpartition("::")[2] for operation in pending),
    )


def listing(
    machines: Iterable[Machine], rows: Iterable[Ordered], environment: str, boots: Mapping[MachineId, str]
) -> tuple[list[MachineObservation], dict[MachineId, str]]:
    """Select the machines of an environment from the vendor's list.

    Args:
        rows: The living instances, read before the list was asked for.

    Returns:
        The state of each machine; and names, by id, of machines of instances that the vendor does not list.
    """
    observations = [
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
    there = {observation.machine_id for observation in observations}
    on = {row.instance.machine_id: row.instance.machine_name for row in rows if row.instance.machine_id}
    return observations, {machine_id: name for machine_id, name in on.items() if machine_id not in there}
