"""Rows of ``agent_files``: what agents send, in sealed pieces."""

import json
from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from uuid import uuid4

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.files import AgentFile
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import lock_rows
from hermesops.store.registry.schema.messaging_tables import agent_files, outgoing_messages

KEPT = timedelta(hours=1)
"""How long a file that is in no part is kept: an agent uploads it first, and sends it then."""

MOST, MOST_BYTES = 20, 100 << 20
"""Number and bytes of the files of an agent that are kept at once."""

_PIECE = 1 << 20
_COLUMNS = agent_files.c


class AgentFiles:
    """Files of agents.

    Args:
        messages: The key ring that seals what agents say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(self, instance_id: InstanceId, name: str, media_type: str, content: bytes) -> AgentFile | None:
        """Keep a file; ``None`` where the agent has as many, or as much, as it may have."""
        file = AgentFile(str(uuid4()), name, media_type, content)
        pieces = [json.dumps({"name": name, "type": media_type})]
        pieces += [b64encode(content[at : at + _PIECE]).decode() for at in range(0, len(content), _PIECE)]
        with self._database.writing() as connection:
            lock_rows(self._database, connection, agent_files, instance_id)
            now = self._database.now(connection)
            _forget(connection, now)
            sums = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_COLUMNS.bytes), 0))
            is_of_agent = sa.and_(_COLUMNS.instance_id == instance_id, _COLUMNS.piece == 0)
            count, size = connection.execute(sums.where(is_of_agent)).one()
            if count >= MOST or size + len(content) > MOST_BYTES:
                return None
            for number, piece in enumerate(pieces):
                values = {"id": file.id, "piece": number, "instance_id": instance_id, "created_at": now}
                sealed = self._messages.seal(piece, place=_place(file.id, number))
                connection.execute(agent_files.insert().values({**values, "bytes": len(content), "content": sealed}))
        return file

    def head(self, id_: str, instance_id: InstanceId) -> tuple[AgentFile, int] | None:
        """A file of an agent without its content, and its size in bytes; ``None`` where the agent has no such file."""
        is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.instance_id == instance_id, _COLUMNS.piece == 0)
        with self._database.reading() as connection:
            row = connection.execute(sa.select(_COLUMNS.content, _COLUMNS.bytes).where(is_it)).one_or_none()
        if row is None:
            return None
        named = json.loads(self._messages.unseal(row.content, place=_place(id_, 0)))
        return AgentFile(id_, named["name"], named["type"], b""), row.bytes

    def get(self, id_: str) -> AgentFile | None:
        """A file; ``None`` where it was dropped, or its key is gone."""
        with self._database.reading() as connection:
            query = sa.select(_COLUMNS.piece, _COLUMNS.content).where(_COLUMNS.id == id_).order_by(_COLUMNS.piece)
            rows = connection.execute(query).all()
        try:
            pieces = [self._messages.unseal(row.content, place=_place(id_, row.piece)) for row in rows]
        except RefusedError:
            return None
        if not pieces:
            return None
        named = json.loads(pieces[0])
        return AgentFile(id_, named["name"], named["type"], b"".join(map(b64decode, pieces[1:])))

    def forget(self) -> int:
        """Drop files whose parts have no text any more, and those that went into no part; returns their number."""
        with self._database.writing() as connection:
            return _forget(connection, self._database.now(connection))


def _forget(connection: sa.Connection, now: datetime) -> int:
    parts = outgoing_messages.c
    is_kept = sa.exists().where(parts.file_id == _COLUMNS.id, parts.body.is_not(None))
    is_old = sa.and_(_COLUMNS.created_at < now - KEPT, ~is_kept)
    dropped = connection.execute(agent_files.delete().where(is_old).returning(_COLUMNS.piece)).scalars()
    return sum(piece == 0 for piece in dropped)


def _place(id_: str, piece: int) -> str:
    return place(agent_files.name, "content", f"{id_}/{piece}")
