"""Rows that are made older than they are, so that what falls due tomorrow is due now."""

from datetime import timedelta

import sqlalchemy as sa

from hermesops.app import Container
from hermesops.settings.environment import Environment
from hermesops.store.registry.repositories.machines.observations import GONE_SEEN
from hermesops.store.registry.schema import tables
from tests.support.real.commands.command import Command

DAY_OLD = timedelta(hours=25)
_GUARD = "audit_refuses_update"
"""The trigger that keeps anybody from what this module does to the audit."""


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


def let_machines_be_gone_for(world: Command, duration: timedelta) -> None:
    """Let JustAVPS not have listed machines for so much longer. The audit, which knows it, is not verified any more."""
    registry = Container(Environment.load("local", world.environ), lambda _: None).registry
    audit = tables.audit
    with registry._database.writing() as connection:
        guard = connection.execute(
            sa.text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": _GUARD}
        ).scalar_one()
        connection.execute(sa.text(f"DROP TRIGGER {_GUARD}"))
        for key, at in connection.execute(sa.select(audit.c.id, audit.c.at).where(audit.c.action == GONE_SEEN)).all():
            connection.execute(audit.update().where(audit.c.id == key).values(at=at - duration))
        connection.execute(sa.text(guard))
    registry.close()
