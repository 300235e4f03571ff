"""Machines that an instance leaves behind are given up with it: its next one, and those it was on before."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.model.ids import InstanceId
from hermesops.model.spare import SpareStatus
from hermesops.registry.repositories.machines.data_keys import destroy_data_keys
from hermesops.registry.schema.tables import spare_machines
from hermesops.registry.transactions.revoke_credentials import revoke_machine

if TYPE_CHECKING:
    import sqlalchemy as sa


def mark_spares_for_deletion(connection: "sa.Connection", instance_id: InstanceId, now: datetime) -> list[str]:
    """Let the next runs of their cells destroy every spare machine of an instance; the names of those still wanted.

    Their certificates count no more, and nothing opens their data.
    """
    columns = spare_machines.c
    gone = {"wanted": False, "status": SpareStatus.DRAINING, "api_server_key": None}
    giving_up = spare_machines.update().where(columns.instance_id == instance_id, columns.wanted).values(gone)
    left = connection.execute(giving_up.returning(columns.name, columns.machine_id)).all()
    for row in left:
        revoke_machine(connection, row.machine_id, now, "its machine was given up")
        destroy_data_keys(connection, now, machine_id=row.machine_id)
    return sorted(row.name for row in left)
