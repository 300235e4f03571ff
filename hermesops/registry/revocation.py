"""A machine's certificates and its agent's model tokens stop to count in the transaction that takes them away."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.model.ids import InstanceId
from hermesops.registry.schema import certificates, instance_details

if TYPE_CHECKING:
    import sqlalchemy as sa


def revoke_machine(connection: "sa.Connection", machine_id: str | None, now: datetime, why: str) -> int:
    """Let no certificate of a machine count from now on; how many still did. ``None`` is no machine."""
    columns = certificates.c
    good = certificates.update().where(
        columns.machine_id == machine_id, columns.revoked_at.is_(None), columns.not_after > now
    )
    return connection.execute(good.values(revoked_at=now, why=why)).rowcount if machine_id else 0


def raise_token_floor(connection: "sa.Connection", instance_id: InstanceId) -> None:
    """Let no token for the model router count that was made for an instance by now."""
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
