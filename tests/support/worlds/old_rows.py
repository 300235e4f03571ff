"""Rows that are made older than they are, so that what falls due tomorrow is due now."""

from datetime import timedelta

import sqlalchemy as sa

from hermesops.app import Container
from hermesops.registry.schema import tables
from hermesops.settings import Environment
from tests.support.real.command import Command

DAY_OLD = timedelta(hours=25)


def grow_old(world: Command) -> None:
    """Let everything that was done have been done yesterday."""
    registry = Container(Environment.load("local", world.environ), lambda _: None).registry
    columns = (tables.backups.c.at, tables.hermes_instances.c.created_at)
    with registry._database.writing() as connection:
        for column in columns:
            for key, at in connection.execute(sa.select(column.table.c.id, column)).all():
                connection.execute(
                    column.table.update().where(column.table.c.id == key).values({column.name: at - DAY_OLD})
                )
    registry.close()
