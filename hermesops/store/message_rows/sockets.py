"""Rows of ``agent_sockets``: which process holds an agent's socket, with a fence that grows with each socket."""

import sqlalchemy as sa

from hermesops.model.ids import InstanceId
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.messaging_tables import agent_sockets

_COLUMNS = agent_sockets.c


class AgentSockets:
    """Sockets of agents, as rows: the newest one of an agent counts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, instance_id: InstanceId, holder: str) -> int:
        """Record a new socket of an agent; returns its fence, which is larger than that of each one before."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            insert_if_absent(connection, agent_sockets, {"instance_id": instance_id, "since": now, "seen_at": now})
            values = {"holder": holder, "fence": _COLUMNS.fence + 1, "since": now, "seen_at": now}
            taking = agent_sockets.update().where(_COLUMNS.instance_id == instance_id).values(values)
            return int(connection.execute(taking.returning(_COLUMNS.fence)).scalar_one())

    def held(self, holder: str) -> dict[InstanceId, int]:
        """Record that the sockets of a process are alive; returns the fence of each agent whose newest one it holds."""
        with self._database.writing() as connection:
            seeing = agent_sockets.update().where(_COLUMNS.holder == holder)
            seeing = seeing.values(seen_at=self._database.now(connection))
            rows = connection.execute(seeing.returning(_COLUMNS.instance_id, _COLUMNS.fence))
            return {InstanceId(row.instance_id): row.fence for row in rows}

    def release(self, instance_id: InstanceId, fence: int) -> None:
        """Record that a socket has closed; nothing where a newer one is there."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.instance_id == instance_id, _COLUMNS.fence == fence)
            connection.execute(agent_sockets.update().where(is_it).values(holder=""))
