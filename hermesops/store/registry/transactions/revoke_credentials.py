"""Revokes credentials in the transaction that takes a machine or an agent away."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.model.fleet.unassigned_machine import UnassignedStatus
from hermesops.model.ids import InstanceId
from hermesops.store.registry.repositories.credentials.certificates import OF_MACHINES, revoke_former_roles
from hermesops.store.registry.repositories.machines.data_keys import destroy_data_keys
from hermesops.store.registry.schema.tables import instance_details, ssh_hosts, unassigned_machines

if TYPE_CHECKING:
    import sqlalchemy as sa


def revoke_machine(connection: "sa.Connection", machine_id: str | None, now: datetime, why: str) -> None:
    """Revoke every valid certificate of a machine, if there is one, and forget its host key."""
    if machine_id:
        connection.execute(ssh_hosts.delete().where(ssh_hosts.c.machine_id == machine_id))
        OF_MACHINES.revoke(connection, machine_id, now, why)


def revoke_of_others(
    connection: "sa.Connection", machine_id: str | None, instance_id: InstanceId | None, now: datetime, why: str
) -> None:
    """Revoke a machine's certificates of other owners than ``instance_id``, and delete its host key."""
    if machine_id:
        connection.execute(ssh_hosts.delete().where(ssh_hosts.c.machine_id == machine_id))
        revoke_former_roles(connection, machine_id, instance_id, now, why)


def give_up_machine(connection: "sa.Connection", machine_id: str | None, now: datetime) -> None:
    """Revoke the certificates of a machine that is to be destroyed, and destroy the keys of its data."""
    revoke_machine(connection, machine_id, now, "its machine was given up")
    destroy_data_keys(connection, now, machine_id=machine_id)


def mark_unassigned_for_deletion(connection: "sa.Connection", instance_id: InstanceId, now: datetime) -> list[str]:
    """Let the next runs of their cells destroy an instance's unassigned machines; the names of those still wanted."""
    columns = unassigned_machines.c
    gone = {"wanted": False, "status": UnassignedStatus.DRAINING, "api_server_key": None}
    giving_up = unassigned_machines.update().where(columns.instance_id == instance_id, columns.wanted).values(gone)
    left = connection.execute(giving_up.returning(columns.name, columns.machine_id)).all()
    for row in left:
        give_up_machine(connection, row.machine_id, now)
    return sorted(row.name for row in left)


def raise_token_floor(connection: "sa.Connection", instance_id: InstanceId) -> None:
    """Revoke every token for the model router that was issued to an instance until now."""
    columns = instance_details.c
    raised = {
        "model_token_generation": columns.model_token_generation + 1,
        "model_token_floor": None,
        "model_token_expires_at": None,
        "model_token_handed_at": None,
    }
    connection.execute(instance_details.update().where(columns.instance_id == instance_id).values(raised))
