"""Differences between users' connections and ``hermes_connections``."""

import sqlalchemy as sa

from hermesops.model.connections.connection import Connection, ConnectionState
from hermesops.model.connections.service import BY_SLUG
from hermesops.model.ids import InstanceId
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.tables import LIVING, hermes_connections, hermes_instances
from hermesops.store.registry.schema.user_tables import user_connections
from hermesops.store.user_rows.connections import connection_of

_MOST = 200
"""Differences that are looked at together."""

_MINE, _RECORD = user_connections.c, hermes_connections.c
_IS_SAME = sa.and_(_RECORD.instance_id == _MINE.instance_id, _RECORD.service == _MINE.service)


class ConnectionRecords:
    """What is not recorded, and what is recorded of nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def missing(self) -> tuple[Connection, ...]:
        """Linked connections without a record of their own account."""
        is_recorded = sa.exists().where(_IS_SAME, _RECORD.connected_at >= _MINE.linked_at)
        query = sa.select(user_connections).join(hermes_instances, hermes_instances.c.id == _MINE.instance_id)
        query = query.where(_MINE.state == ConnectionState.LINKED.value, LIVING, sa.not_(is_recorded))
        with self._database.reading() as connection:
            return tuple(map(connection_of, connection.execute(query.order_by(_MINE.linked_at).limit(_MOST)).all()))

    def left_over(self) -> tuple[tuple[InstanceId, str], ...]:
        """Records of services without a connection that is linked or expired."""
        live = [ConnectionState.LINKED.value, ConnectionState.EXPIRED.value]
        is_there = sa.exists().where(_IS_SAME, _MINE.state.in_(live))
        query = sa.select(_RECORD.instance_id, _RECORD.service).where(_RECORD.service.in_(list(BY_SLUG)))
        with self._database.reading() as connection:
            rows = connection.execute(query.where(sa.not_(is_there)).limit(_MOST)).all()
        return tuple((InstanceId(row.instance_id), str(row.service)) for row in rows)
