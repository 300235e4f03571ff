"""Reads the registry's epoch inside a transaction."""

import sqlalchemy as sa

from hermesops.registry.schema.tables import meta

EPOCH = "epoch"
"""Name of the row of ``meta`` that holds it."""


def read_epoch(connection: sa.Connection, *, lock: bool = False) -> int:
    """The present epoch, as the transaction sees it."""
    query = sa.select(meta.c.value).where(meta.c.name == EPOCH)
    return int(connection.execute(query.with_for_update() if lock else query).scalar_one())
