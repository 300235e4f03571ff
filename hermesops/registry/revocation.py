"""A machine's certificates stop to count in the transaction that takes the machine from whoever had it."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.registry.schema import certificates

if TYPE_CHECKING:
    import sqlalchemy as sa


def revoke_machine(connection: "sa.Connection", machine_id: str | None, now: datetime, why: str) -> int:
    """Let no certificate of a machine count from now on; how many still did. ``None`` is no machine."""
    columns = certificates.c
    good = certificates.update().where(
        columns.machine_id == machine_id, columns.revoked_at.is_(None), columns.not_after > now
    )
    return connection.execute(good.values(revoked_at=now, why=why)).rowcount if machine_id else 0
