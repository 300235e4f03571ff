"""The tables with their partial indexes, whose conditions import the dialects of both databases.

Only migrations and their tests import this module; all others import ``tables``.
"""

import sqlalchemy as sa

from hermesops.registry.schema.tables import hermes_instances, metadata, operations, rollout_targets, spare_machines

__all__ = ["metadata"]


def _unique_where(name: str, *columns: sa.Column[str], where: str) -> None:
    sa.Index(name, *columns, unique=True, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


_unique_where("one_living_instance_per_user", hermes_instances.c.user_id, where="status != 'terminated'")
_unique_where(
    "one_unfinished_operation_per_subject",
    operations.c.subject,
    operations.c.kind,
    where="status IN ('pending', 'running')",
)
_unique_where("one_next_machine_per_instance", spare_machines.c.instance_id, where="purpose = 'next' AND wanted")
_unique_where("one_rollout_per_instance", rollout_targets.c.instance_id, where="held")
