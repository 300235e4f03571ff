"""Composes restore drills: whose backup, on which machine, and what does it."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError
from hermesops.model.operation import Lease, LeaseHeldError, Operation, OperationKind
from hermesops.model.spare import Purpose, drill_subject, spare_subject
from hermesops.operations.kinds import DrillIntent

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.instances.workflows.restore_drill import Drill
    from hermesops.model.instance import Instance


class Drills:
    """Restore drills of one session's instances.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app
        self._registry = session.app.registry

    def due(self) -> "Instance | None":
        """Whose backup should be restored by now; ``None`` when none is known."""
        from hermesops.backup.schedule import drill_is_due

        days = self._app.env.settings.drill_days
        drills = self._registry.operations.list(kind=OperationKind.DRILL)
        first = self._registry.backups.first_at()
        if not days or not drill_is_due(drills, first, timedelta(days=days), self._registry.now()):
            return None
        return self.candidate()

    def candidate(self) -> "Instance | None":
        """The instance whose last proof is oldest."""
        from hermesops.backup.schedule import drill_of

        chosen = drill_of(self._registry.backups.newest_checks())
        return self._registry.instances.get(chosen) if chosen else None

    async def open(self, instance: "Instance | None", *, why: str) -> Operation:
        """Write down that an instance's newest backup shall be restored; ``None``: of the one that needs it most.

        Raises:
            RefusedError: Nobody has a backup.
            UsageError: That one has none.
            UnavailableError: The object store does not answer.
        """
        chosen = instance or self.candidate()
        if chosen is None:
            raise RefusedError("no agent has a backup", hint="hermesops backup create USER makes one")
        newest = self._registry.backups.get(chosen.id, "")
        await self._session.backups.keys.reach()
        intent = DrillIntent(user=chosen.title, instance=chosen.id, snapshot=newest.id, why=why).to_json()
        return self._registry.operations.open(OperationKind.DRILL, drill_subject(chosen.id), intent=intent)

    def work_of(self, operation: Operation, lease: Lease) -> "Drill":
        """What does one, from its row."""
        from hermesops.instances.workflows.restore_drill import Drill

        reach = self._session.instance_client.with_lease(lease)
        return Drill(
            operation,
            registry=self._registry,
            client=reach,
            backups=self._session.copies(reach),
            cells=self._app.cell_stacks,
            take=partial(self._take, why=f"drill {operation.id}"),
        )

    async def _take(self, instance: "Instance", *, why: str) -> None:
        if await self._lend(instance, why=why):
            return
        from hermesops.app.handlers.instances import LifecycleHandlers

        machine_placement = LifecycleHandlers(self._session).machine_placement()
        server_type = self._app.env.settings.server_types[instance.plan]
        place = machine_placement.here(instance)
        await self._app.guards.refuse_unaffordable((server_type, place.region))
        await machine_placement.refuse_unsold(server_type, place.region)
        self._app.tell("no machine is ready in the warm pools: one is made for the drill, which takes longer")
        self._registry.spares.place(
            Purpose.DRILL,
            plan=instance.plan,
            server_type=server_type,
            image_id=machine_placement.image(),
            choose=lambda _: place,
            instance_id=instance.id,
            why=why,
        )

    async def _lend(self, instance: "Instance", *, why: str) -> bool:
        """Take a ready machine of the instance's plan out of a warm pool, in any region; whether there was one."""
        pools = self._session.pools
        for spare in pools.ready(instance.plan):
            try:
                async with self._app.hold_lease(spare_subject(spare.name)) as turn:
                    if await pools.is_up(spare) and self._registry.assignments.lend(
                        spare.name, instance.id, lease=turn.lease, why=why
                    ):
                        self._app.tell(f"took {spare.name} out of the warm pool of {spare.cell}")
                        self._session.operations.leave(pools.open(spare.cell))
                        return True
            except LeaseHeldError:
                continue
        return False
