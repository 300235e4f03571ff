"""Takes credentials away in the transaction that takes a machine or an agent away."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.model.ids import InstanceId
from hermesops.model.spare import SpareStatus
from hermesops.registry.repositories.credentials.certificates import OF_MACHINES
from hermesops.registry.repositories.machines.data_keys import destroy_data_keys
from hermesops.registry.schema.tables import instance_details, spare_machines

if TYPE_CHECKING:
    import sqlalchemy as sa


def revoke_machine(connection: "sa.Connection", machine_id: str | None, now: datetime, why: str) -> int:
    """Revoke every certificate of a machine that still counts; how many did. ``None`` is no machine."""
    return OF_MACHINES.revoke(connection, machine_id, now, why) if machine_id else 0


def raise_token_floor(connection: "sa.Connection", instance_id: InstanceId) -> None:
    """Revoke every token for the model router that was made for an instance until now."""
    columns = instance_details.c
    connection.execute(
        instance_details.update()
        .where(columns.instance_id == instance_id)
        .values(
            model_token_generation=columns.model_token_generation + 1,
            model_token_expires_at=None,
            model_token_handed_at=None,
        )
    )


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
