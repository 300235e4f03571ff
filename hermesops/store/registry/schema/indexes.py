"""The tables with all that only making them needs: partial indexes, and the triggers that refuse to rewrite the audit.

Conditions of indexes import the dialects of both databases, so only ``schema_version`` and tests import this module.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.calling_tables import metadata
from hermesops.store.registry.schema.messaging_tables import UNDER_WAY, incoming_messages
from hermesops.store.registry.schema.tables import (
    audit,
    hermes_instances,
    operations,
    rollout_targets,
    unassigned_machines,
)
from hermesops.store.registry.schema.user_tables import LIVE_CONNECTION, OPEN_TURN, turns, user_connections

__all__ = ["metadata"]

_APPENDED = "audit is only ever appended to"
_GUARDS = {
    "sqlite": tuple(
        f"CREATE TRIGGER audit_refuses_{verb} BEFORE {verb} ON audit BEGIN SELECT RAISE(ABORT, '{_APPENDED}'); END"
        for verb in ("update", "delete")
    ),
    "postgresql": (
        (
            "CREATE FUNCTION refuse_rewriting_audit() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_APPENDED}'; END $$; "
            "CREATE TRIGGER audit_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting_audit()"
        ),
    ),
}


@sa.event.listens_for(audit, "after_create")
def _guard(_table: sa.Table, connection: sa.Connection, **_: object) -> None:
    for statement in _GUARDS[connection.dialect.name]:
        connection.exec_driver_sql(statement)


def _unique_where(name: str, *columns: sa.Column[str], where: str) -> None:
    sa.Index(name, *columns, unique=True, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


_unique_where("one_living_instance_per_user", hermes_instances.c.user_id, where="status != 'terminated'")
_unique_where(
    "one_unfinished_operation_per_subject",
    operations.c.subject,
    operations.c.kind,
    where="status IN ('pending', 'running')",
)
_unique_where(
    "one_replacement_per_instance", unassigned_machines.c.instance_id, where="role = 'replacement' AND wanted"
)
_unique_where("one_rollout_per_instance", rollout_targets.c.instance_id, where="held")
_unique_where("one_open_turn_per_conversation", turns.c.user_id, turns.c.conversation, where=OPEN_TURN)
_unique_where(
    "one_live_connection_per_service",
    user_connections.c.instance_id,
    user_connections.c.service,
    where=LIVE_CONNECTION,
)
_unique_where(
    "one_message_under_way_per_chat",
    incoming_messages.c.messenger,
    incoming_messages.c.vendor_chat,
    where=UNDER_WAY,
)
