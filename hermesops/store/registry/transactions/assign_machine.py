"""Assigns unassigned machines: to a user's new instance, to a drill, or to an instance that changes its machine."""

from typing import TYPE_CHECKING, Any

from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedStatus, machine_subject
from hermesops.model.fleet.user import User
from hermesops.model.ids import InstanceId, MachineName, instance_subject
from hermesops.model.operation import Lease
from hermesops.model.plan import Plan
from hermesops.store.registry.repositories.base import Repository, WriteContext
from hermesops.store.registry.repositories.instances.instance import ALL, details_in, instance_of, update_details
from hermesops.store.registry.repositories.leases import require_lease
from hermesops.store.registry.repositories.machines.unassigned_machines import UnassignedMachineRepository, locked_in
from hermesops.store.registry.schema.tables import hermes_instances, unassigned_machines
from hermesops.store.registry.transactions.place_instance import NewMachine, PlacementTransactions
from hermesops.store.registry.transactions.revoke_credentials import (
    raise_token_floor,
    revoke_machine,
    revoke_of_others,
)

if TYPE_CHECKING:
    import sqlalchemy as sa


class AssignmentTransactions(Repository):
    """Assignments of unassigned machines, each in one transaction."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._placements = PlacementTransactions(context)
        self._unassigned = UnassignedMachineRepository(context)

    def claim(
        self,
        user: User,
        name: MachineName,
        *,
        plan: Plan,
        subscription: str = "",
        lease: Lease | None = None,
        why: str = "",
    ) -> Instance | None:
        """Turn a machine of the warm pool into a user's instance: the instance's row replaces the machine's.

        The instance has the machine's name, cell and API key, so that nothing of the cell changes. The machine's
        credentials from before are revoked. Concurrent claims and retirements wait for one another.
        ``lease`` is of ``machine_subject(name)``.

        Returns:
            The user's instance (the living one where there was one: the machine then stays in the pool); ``None`` when
            the machine is not available any more.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            row = self._held_in_pool(connection, name, lease)
            if row is None:
                return None
            key = self._unassigned.api_server_key_of(row)
            machine = NewMachine(
                row.cell, row.region, row.server_type, row.image_id, name, row.machine_id, key, subscription
            )
            instance = self._placements.write_in(connection, user, plan, machine)
            if instance.machine_name == name:
                connection.execute(unassigned_machines.delete().where(unassigned_machines.c.name == name))
                now = self._database.now(connection)
                revoke_of_others(connection, row.machine_id, instance.id, now, "its machine was claimed")
                self._note(
                    connection, "machine_claimed", machine_subject(name), after={"instance": instance.id}, why=why
                )
            return instance

    def lend(self, name: MachineName, instance_id: InstanceId | None, *, lease: Lease | None = None, why: str) -> bool:
        """Lend a machine of the warm pool to a drill, so that no instance gets it; returns whether it was available.

        ``instance_id`` is the instance of the backup to restore, ``None`` for a drill of a release. ``lease`` is of
        ``machine_subject(name)``.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            row = self._held_in_pool(connection, name, lease)
            if row is None:
                return False
            lent = {
                "role": MachineRole.DRILL,
                "status": UnassignedStatus.CLAIMED,
                "instance_id": instance_id,
                "api_server_key": None,
            }
            connection.execute(unassigned_machines.update().where(unassigned_machines.c.name == name).values(lent))
            revoke_machine(
                connection, row.machine_id, self._database.now(connection), "its machine was lent to a drill"
            )
            self._note(connection, "machine_lent", machine_subject(name), after={"instance": instance_id}, why=why)
            return True

    def _held_in_pool(
        self, connection: "sa.Connection", name: MachineName, lease: Lease | None
    ) -> "sa.Row[Any] | None":
        """The locked row of a ready machine of the pool; ``None`` when it is not one any more."""
        require_lease(connection, lease)
        row = locked_in(connection, name)
        is_ready = (
            row is not None and row.wanted and (row.role, row.status) == (MachineRole.WARM, UnassignedStatus.READY)
        )
        return row if is_ready else None

    def cut_over(
        self,
        instance_id: InstanceId,
        name: MachineName,
        *,
        keep_previous: bool = True,
        lease: Lease | None = None,
        why: str = "",
    ) -> Instance:
        """Move an instance to another machine; the machine before becomes an unassigned one with the role ``previous``.

        The instance takes the machine's cell, region, plan, server type, image and id. Its epoch rises by one, so that
        the machine before refuses commands for the instance. It keeps its API key; its tokens for the model router are
        revoked. Safe to call again.

        ``name`` is its ``next`` machine, or a ready one of the warm pool. Without ``keep_previous`` the machine before,
        which no longer exists, is not kept until it is retired: its cell would make it again. ``lease`` is of
        the instance.

        Raises:
            RefusedError: The machine is another instance's, not known yet, or was given up.
            LeaseLostError: Another process has taken the lease.
        """
        columns = hermes_instances.c
        with self._database.writing() as connection:
            require_lease(connection, lease)
            details = details_in(connection, instance_id, lock=True)
            instance_row = connection.execute(ALL.where(columns.id == instance_id)).one()
            if details.machine_name == name:
                return instance_of(instance_row)
            row = locked_in(connection, name)
            if row is None or not row.wanted or row.machine_id is None or not _may_take(row, instance_id):
                raise RefusedError(f"machine {name} cannot take instance {instance_id}")
            connection.execute(unassigned_machines.delete().where(unassigned_machines.c.name == name))
            is_kept = keep_previous and details.machine_wanted
            previous = {
                "name": details.machine_name,
                "role": MachineRole.PREVIOUS,
                "instance_id": instance_id,
                "cell": details.cell,
                "plan": instance_row.plan,
                "server_type": details.server_type,
                "region": details.region,
                "image_id": details.image_id,
                "machine_id": instance_row.vm_id,
                "wanted": is_kept,
                "status": UnassignedStatus.CLAIMED if is_kept else UnassignedStatus.DRAINING,
                "epoch": details.epoch,
                "created_at": self._database.now(connection),
            }
            connection.execute(unassigned_machines.insert().values(previous))
            revoke_machine(connection, instance_row.vm_id, previous["created_at"], f"its instance is on {name} now")
            revoke_of_others(
                connection, row.machine_id, instance_id, previous["created_at"], f"{instance_id} is on it now"
            )
            moved = {name: getattr(row, name) for name in ("cell", "server_type", "region", "image_id")}
            moved |= {"machine_name": name, "machine_wanted": True, "epoch": details.epoch + 1}
            update_details(connection, instance_id, **moved)
            raise_token_floor(connection, instance_id)
            on = {"vm_id": row.machine_id, "vm_ip": None, "plan": Plan(row.plan)}
            connection.execute(hermes_instances.update().where(columns.id == instance_id).values(on))
            self._note(
                connection,
                "cut_over",
                instance_subject(instance_id),
                before={"machine": details.machine_name, "cell": details.cell, "plan": instance_row.plan},
                after={"machine": name, "cell": row.cell, "plan": row.plan},
                why=why,
            )
            return instance_of(connection.execute(ALL.where(columns.id == instance_id)).one())


def _may_take(row: "sa.Row[tuple[object, ...]]", instance_id: InstanceId) -> bool:
    match row.role:
        case MachineRole.REPLACEMENT:
            return bool(row.instance_id == instance_id)
        case MachineRole.WARM:
            return bool(row.status == UnassignedStatus.READY)
    return False
