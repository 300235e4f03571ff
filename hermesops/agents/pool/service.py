"""Warm pools: filled, drained, and claimed from."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hermesops.agents.cells.scheduling import choose_cell
from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.pool.claims import claim
from hermesops.agents.pool.decide import PoolSizes, Target, ready_for
from hermesops.agents.pool.machines import PoolMachines
from hermesops.agents.pool.workflow import PoolFill
from hermesops.model.fleet.cell import Cell, parse_cell
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import (
    MachineRole,
    UnassignedMachine,
    UnassignedStatus,
    machine_subject,
    pool_subject,
)
from hermesops.model.fleet.user import User
from hermesops.model.ids import CellName, ImageId, MachineId
from hermesops.model.operation import Lease, LeaseHeldError, Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.settings.fields import Settings
from hermesops.store.operations.kinds.fleet import PoolFillIntent
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.outcomes import End, Outcome, outcome_of
from hermesops.store.operations.runner import QUEUED
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.errors import NotFoundError
from hermesops.vendor.justavps.wire import MachineStatus

_SHORTLY_S = 20.0
"""Seconds to wait for a claim of a machine that a pool is about to delete."""


@dataclass(frozen=True)
class Pools:
    """The warm pools of an environment.

    Attributes:
        checks: Failed checks of a machine without a user.
    """

    settings: Settings
    registry: Registry
    client: Client
    instance_client: PowerControl
    stacks: CellStacks
    checks: Callable[[MachineId], Awaitable[Sequence[str]]]
    report: Callable[[str], None]

    # Claims

    async def claim(
        self,
        user: Callable[[], User],
        plan: Plan,
        *,
        server_type: str,
        image_id: ImageId,
        region: str,
        subscription: str = "",
    ) -> Instance | None:
        """Give a new instance a machine of a pool; ``None`` if none is ready.

        A worker replaces the taken machine.
        """
        size = self.settings.pool_size.get(plan, 0)
        target = Target(plan, size, server_type, image_id)
        instance = await claim(self.registry, self.is_up, user, target, region=region, subscription=subscription)
        if instance is None:
            if size:
                self.report(f"no ready {plan} machine in the warm pools of {region}: creating one takes longer")
            return None
        self.report(f"took {instance.machine_name} out of the warm pool of {instance.cell}")
        if size:
            self.registry.operations.record_step(self.open(instance.cell).id, QUEUED)
        return instance

    async def next_claim(
        self, plan: Plan, server_type: str, image_id: ImageId, region: str
    ) -> UnassignedMachine | None:
        """The machine that ``claim`` would give a new instance now; ``None`` if none is ready."""
        unassigned = self.registry.unassigned.list(role=MachineRole.WARM)
        leased = {lease.subject for lease in self.registry.leases.list()}
        for row in ready_for(unassigned, Target(plan, 0, server_type, image_id), region=region):
            if machine_subject(row.name) not in leased and await self.is_up(row):
                return row
        return None

    def ready(self, plan: Plan | None = None) -> list[UnassignedMachine]:
        """The machines that could be taken, of a plan or of any; the one that has waited longest first."""
        unassigned = self.registry.unassigned.list(role=MachineRole.WARM)
        return [
            row
            for row in unassigned
            if row.wanted and row.status is UnassignedStatus.READY and plan in {None, row.plan}
        ]

    async def is_up(self, row: UnassignedMachine) -> bool:
        """Whether the vendor lists it as ready; the machine itself is not asked."""
        try:
            machine = await self.client.get_machine(row.machine_id or "")
        except NotFoundError:
            return False
        return machine.name == row.name and machine.status is MachineStatus.READY

    # Filling

    def cells(self, names: Sequence[str], *, opening: bool) -> list[Cell]:
        """The named cells, or all.

        Args:
            opening: Whether to open the cells, for their pools, that new instances would open.

        Raises:
            UsageError: There is none of a name.
        """
        registry, settings = self.registry, self.settings
        if names:
            return [registry.cells.get(parse_cell(name)) for name in names]
        for plan, size in settings.pool_size.items():
            if size and opening:
                region = settings.plan_regions.get(plan, settings.region)
                choose = partial(
                    choose_cell, plan=plan, region=region, size=settings.cell_size, plans_apart=settings.plans_apart
                )
                registry.cells.open(choose(registry.cells.list()))
        return list(registry.cells.list())

    def short(self) -> list[CellName]:
        """The cells whose pools need filling or shrinking, according to rows alone."""
        registry = self.registry
        fills = registry.operations.list(kind=OperationKind.POOL_FILL)
        return self._sizes.short_cells(registry.cells.list(), registry.unassigned.list(), fills, registry.now())

    def open(self, cell: CellName) -> Operation:
        """Open the operation that fills a cell's pool, or find the unfinished one."""
        return self._open(cell, grow=True)

    async def drain_each(self, names: Sequence[str], end: End, *, reason: str) -> list[Outcome]:
        """Drain the pools of the named cells, or of all; one that fails keeps no other from being drained.

        Args:
            end: Brings the operation of a cell to its end, or leaves it to the workers.

        Raises:
            UsageError: There is no cell of a name.
        """

        async def drained(cell: CellName) -> Outcome:
            operation = await self.drain(cell, reason=reason)
            return Outcome(cell, operation, await end(operation))

        cells = [cell.name for cell in self.cells(names, opening=False)]
        return [await outcome_of(cell, drained(cell)) for cell in cells]

    async def drain(self, cell: CellName, *, reason: str) -> Operation:
        """Mark every machine of a cell's pool for deletion, and open the operation that destroys them.

        A machine that is being claimed stays with its user.
        """
        registry = self.registry
        for row in registry.unassigned.list(cell=cell, role=MachineRole.WARM):
            try:
                async with self._shortly_alone(machine_subject(row.name)):
                    registry.unassigned.retire(row.name, why=reason)
            except LeaseHeldError:
                self.report(f"{row.name} is being worked on by another process and stays")
        return self._open(cell, grow=False, reason=reason or None)

    def _open(self, cell: CellName, *, grow: bool, reason: str | None = None) -> Operation:
        intent = PoolFillIntent(cell=cell, grow=grow, reason=reason).to_json()
        return self.registry.operations.open(OperationKind.POOL_FILL, pool_subject(cell), intent=intent)

    def work_of(self, operation: Operation, _lease: Lease) -> PoolFill:
        """The workflow of filling a pool, from its row."""
        intent = PoolFillIntent.of(operation)
        cell = intent.cell
        targets = self._sizes.targets(self.registry.cells.get(cell)) if intent.grow else []
        machines = PoolMachines(self.client, self.instance_client, self.checks)
        return PoolFill(
            cell, targets, self.settings.cell_size, self.registry, machines, self.stacks, self._shortly_alone
        )

    @property
    def _sizes(self) -> PoolSizes:
        settings, image = self.settings, self.registry.images.latest(self.settings.image)
        return PoolSizes(settings.pool_size, settings.server_types, image.id if image else None, settings.cell_size)

    def _shortly_alone(self, subject: str) -> LeaseKeeper:
        return LeaseKeeper(self.registry, subject, wait_s=_SHORTLY_S)
