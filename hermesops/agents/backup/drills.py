"""Restore drills: choose a backup and a machine, and open the operation that restores it for proof."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from hermesops.agents.backup.daily.schedule import drill_is_due, drill_of
from hermesops.agents.backup.service import Backups
from hermesops.agents.cells.changes.environment_guard import Guards
from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests.placement import MachinePlacement, refuse_unsold
from hermesops.agents.instances.workflows.copies.restore_drill import Drill
from hermesops.agents.pool.service import Pools
from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, drill_subject, machine_subject
from hermesops.model.operation import Lease, LeaseHeldError, Operation, OperationKind
from hermesops.settings.fields import Settings
from hermesops.store.operations.kinds.copies import DrillIntent
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.runner import QUEUED
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Drills:
    """Restore drills of an environment's instances.

    Attributes:
        placement: Says where a machine can be that no pool has.
    """

    settings: Settings
    registry: Registry
    instance_client: PowerControl
    backups: Backups
    pools: Pools
    placement: MachinePlacement
    guards: Guards
    cells: CellStacks
    hold_lease: Callable[[str], LeaseKeeper]
    report: Callable[[str], None]

    def due(self) -> Instance | None:
        """Choose the instance whose drill is due; ``None`` where none is."""
        days = self.settings.drill_days
        drills = self.registry.operations.list(kind=OperationKind.DRILL)
        first = self.registry.backups.first_at()
        if not days or not drill_is_due(drills, first, timedelta(days=days), self.registry.now()):
            return None
        return self.candidate()

    def candidate(self) -> Instance | None:
        """Choose the instance whose last proof is oldest; ``None`` when none has a backup."""
        chosen = drill_of(self.registry.backups.newest_checks())
        return self.registry.instances.get(chosen) if chosen else None

    async def open(self, instance: Instance | None, *, why: str) -> Operation:
        """Open the drill of an instance's newest backup; ``None`` takes the instance whose last drill is oldest.

        Raises:
            RefusedError: No instance has a backup.
            UsageError: That one has none.
            UnavailableError: The object store does not answer.
        """
        chosen = instance or self.candidate()
        if chosen is None:
            raise RefusedError("no agent has a backup", hint=Hint(("backup", "create", "USER"), "makes one"))
        newest = self.registry.backups.get(chosen.id, "")
        await self.backups.keys.reach()
        intent = DrillIntent(user=chosen.title, instance=chosen.id, snapshot=newest.id, why=why).to_json()
        return self.registry.operations.open(OperationKind.DRILL, drill_subject(chosen.id), intent=intent)

    def work_of(self, operation: Operation, lease: Lease) -> Drill:
        """The workflow of a drill, from its row."""
        client = self.instance_client.with_lease(lease)
        return Drill(
            operation,
            registry=self.registry,
            client=client,
            backups=self.backups.copies(client),
            cells=self.cells,
            take=partial(self._take, why=f"drill {operation.id}"),
        )

    async def _take(self, instance: Instance, *, why: str) -> None:
        if await self._lend(instance, why=why):
            return
        server_type = self.settings.server_types[instance.plan]
        place = self.placement.here(instance)
        await self.guards.refuse_unaffordable((server_type, place.region))
        await refuse_unsold(self.instance_client, server_type, place.region)
        self.report("no ready machine in the warm pools: creating one for the drill takes longer")
        self.registry.unassigned.place(
            MachineRole.DRILL,
            plan=instance.plan,
            server_type=server_type,
            image_id=self.placement.image(),
            choose=lambda _: place,
            instance_id=instance.id,
            why=why,
        )

    async def _lend(self, instance: Instance, *, why: str) -> bool:
        """Take a ready machine of the instance's plan out of a warm pool, in any region; whether there was one."""
        pools = self.pools
        for row in pools.ready(instance.plan):
            try:
                async with self.hold_lease(machine_subject(row.name)) as turn:
                    if await pools.is_up(row) and self.registry.assignments.lend(
                        row.name, instance.id, lease=turn.lease, why=why
                    ):
                        self.report(f"took {row.name} out of the warm pool of {row.cell}")
                        self.registry.operations.record_step(pools.open(row.cell).id, QUEUED)
                        return True
            except LeaseHeldError:
                continue
        return False
