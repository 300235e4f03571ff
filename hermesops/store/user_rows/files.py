"""Rows of ``chat_files``: what users upload, until the turn that it goes with has ended, or for an hour."""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import sqlalchemy as sa

from hermesops.model.ids import UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import lock_rows
from hermesops.store.registry.schema.user_tables import chat_files

KEPT = timedelta(hours=1)
"""How long a file waits for its message."""

_COLUMNS = chat_files.c


@dataclass(frozen=True)
class ChatFile:
    """A file of a user.

    Attributes:
        media_type: As ``image/png`` or ``text/plain``.
    """

    id: str
    name: str = field(repr=False)
    media_type: str
    content: bytes = field(repr=False)

    @property
    def is_image(self) -> bool:
        """Whether models look at it, rather than read it."""
        return self.media_type.startswith("image/")


class ChatFiles:
    """Users' files.

    Args:
        messages: The key ring that seals what users say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(
        self, user_id: UserId, name: str, media_type: str, content: bytes, *, most: int, most_bytes: int
    ) -> ChatFile | None:
        """Add a file; ``None`` where the user's waiting files would be more than ``most``, or ``most_bytes``."""
        file = ChatFile(str(uuid4()), name, media_type, content)
        text = json.dumps({"name": name, "type": media_type, "data": b64encode(content).decode()})
        sealed = self._messages.seal(text, place=_place(file.id))
        with self._database.writing() as connection:
            lock_rows(self._database, connection, chat_files, user_id)
            now = self._database.now(connection)
            connection.execute(chat_files.delete().where(_COLUMNS.created_at < now - KEPT, _COLUMNS.turn_id.is_(None)))
            sums = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_COLUMNS.bytes), 0))
            count, size = connection.execute(sums.where(_COLUMNS.user_id == user_id)).one()
            if count >= most or size + len(content) > most_bytes:
                return None
            values = {"id": file.id, "user_id": user_id, "bytes": len(content), "created_at": now, "content": sealed}
            connection.execute(chat_files.insert().values(values))
        return file

    def drop(self, ids: Collection[str]) -> None:
        """Delete those of these files that go with no turn."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id.in_(list(ids)), _COLUMNS.turn_id.is_(None))
            connection.execute(chat_files.delete().where(is_it))

    def waiting(self, user_id: UserId, ids: Collection[str]) -> tuple[ChatFile, ...]:
        """Files of this user that go with no turn yet, in the order of their upload."""
        if not ids:
            return ()
        is_it = sa.and_(_COLUMNS.id.in_(list(ids)), _COLUMNS.user_id == user_id, _COLUMNS.turn_id.is_(None))
        return self._list(is_it)

    def of_turn(self, turn_id: str) -> tuple[ChatFile, ...]:
        """Files that go with a turn, in the order of their upload."""
        return self._list(_COLUMNS.turn_id == turn_id)

    def _list(self, is_it: sa.ColumnElement[bool]) -> tuple[ChatFile, ...]:
        query = sa.select(_COLUMNS.id, _COLUMNS.content).where(is_it).order_by(_COLUMNS.created_at, _COLUMNS.id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return tuple(self._file(row.id, row.content) for row in rows)

    def _file(self, id_: str, sealed: str) -> ChatFile:
        content = json.loads(self._messages.unseal(sealed, place=_place(id_)))
        return ChatFile(id_, content["name"], content["type"], b64decode(content["data"]))


def _place(id_: str) -> str:
    return place(chat_files.name, "content", id_)
