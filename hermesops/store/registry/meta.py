"""Rows of ``meta``: single values by name, the registry's epoch among them."""

import sqlalchemy as sa

from hermesops.store.registry.schema.tables import meta

EPOCH = "epoch"
"""Name of the row that holds the epoch."""


def read_meta(connection: sa.Connection, name: str) -> str | None:
    """The value of that name; ``None`` where there is none."""
    return connection.execute(sa.select(meta.c.value).where(meta.c.name == name)).scalar()


def read_epoch(connection: sa.Connection, *, lock: bool = False) -> int:
    """The present epoch, as the transaction sees it; ``lock`` keeps others from raising it until that ends."""
    query = sa.select(meta.c.value).where(meta.c.name == EPOCH)
    return int(connection.execute(query.with_for_update() if lock else query).scalar_one())
