"""Revokes a machine's certificates and its agent's model tokens, in the transaction that takes the machine away."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.model.ids import InstanceId
from hermesops.registry.repositories.credentials.issued_certificates import OF_MACHINES
from hermesops.registry.schema.tables import instance_details

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
