"""Rows of ``agent_callers``: which agents may call a user's agent, by the digests of their keys."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.model.chat.caller import Caller
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent, lock_rows
from hermesops.store.registry.schema.calling_tables import agent_callers
from hermesops.store.registry.schema.tables import LIVING, hermes_instances

MOST = 20
"""Callers of one user whose keys count, at once."""

_COLUMNS = agent_callers.c
_USED_EVERY = timedelta(minutes=10)
_LIVE = sa.and_(_COLUMNS.revoked_at.is_(None), LIVING)
"""Of a key that was not revoked, and whose agent is not terminated."""


class AgentCallers:
    """Agents that may call users' agents.

    Args:
        messages: The key ring that seals the names and hosts that users give.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(
        self,
        user_id: UserId,
        instance_id: InstanceId,
        client_key: str,
        key: str,
        *,
        name: str,
        push_hosts: Sequence[str],
        may_approve: bool,
    ) -> tuple[Caller | None, bool]:
        """Add a caller, or find the one that the client added with the same name of the request.

        Args:
            key: Of the caller; its digest alone is kept.

        Returns:
            The caller, and whether it is new. ``None`` where the user has ``MOST`` already, or the one that the
            client added was revoked.
        """
        id_ = str(uuid4())
        content = json.dumps({"name": name, "push_hosts": list(push_hosts)})
        with self._database.writing() as connection:
            lock_rows(self._database, connection, agent_callers, user_id)
            values = {
                "id": id_,
                "user_id": user_id,
                "instance_id": instance_id,
                "client_key": client_key,
                "key_hash": digest(key),
                "content": self._messages.seal(content, place=_place(id_)),
                "may_approve": may_approve,
                "created_at": self._database.now(connection),
            }
            is_it = sa.and_(_COLUMNS.user_id == user_id, _LIVE)
            count = connection.scalar(sa.select(sa.func.count()).select_from(_joined()).where(is_it)) or 0
            is_new = count < MOST and insert_if_absent(connection, agent_callers, values)
            row = connection.execute(_query().where(is_it, _COLUMNS.client_key == client_key)).one_or_none()
        return (self._caller(row) if row else None), is_new

    def list(self, user_id: UserId) -> tuple[Caller, ...]:
        """A user's callers whose keys count, the oldest first."""
        query = _query().where(_COLUMNS.user_id == user_id, _LIVE).order_by(_COLUMNS.created_at, _COLUMNS.id)
        with self._database.reading() as connection:
            return tuple(map(self._caller, connection.execute(query)))

    def revoke(self, user_id: UserId, caller_id: str) -> bool:
        """End a caller's key; whether the user had such a caller."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == caller_id, _COLUMNS.user_id == user_id, _COLUMNS.revoked_at.is_(None))
            now = self._database.now(connection)
            return connection.execute(agent_callers.update().where(is_it).values(revoked_at=now)).rowcount > 0

    def of_key(self, instance_id: InstanceId, key: str) -> Caller | None:
        """The caller of an agent whose key this is; ``None`` for a key that does not count, or is another agent's."""
        is_it = sa.and_(_COLUMNS.key_hash == digest(key), _COLUMNS.instance_id == instance_id, _LIVE)
        with self._database.reading() as connection:
            row = connection.execute(_query().where(is_it)).one_or_none()
            is_noted = row is not None and _is_fresh(row, self._database.now(connection))
        if row is None:
            return None
        if not is_noted:
            self._note_use(row.id)
        return self._caller(row)

    def of_id(self, caller_id: str) -> Caller | None:
        """A caller whose key counts."""
        with self._database.reading() as connection:
            row = connection.execute(_query().where(_COLUMNS.id == caller_id, _LIVE)).one_or_none()
        return self._caller(row) if row else None

    def has_callers(self, instance_id: InstanceId) -> bool:
        """Whether anybody may call an agent."""
        query = sa.select(_COLUMNS.id).select_from(_joined()).where(_COLUMNS.instance_id == instance_id, _LIVE)
        with self._database.reading() as connection:
            return connection.execute(query.limit(1)).first() is not None

    def _note_use(self, caller_id: str) -> None:
        with self._database.writing() as connection:
            values = {"used_at": self._database.now(connection)}
            connection.execute(agent_callers.update().where(_COLUMNS.id == caller_id).values(values))

    def _caller(self, row: sa.Row[Any]) -> Caller:
        content = json.loads(self._messages.unseal(row.content, place=_place(row.id)))
        return Caller(
            id=row.id,
            user_id=UserId(row.user_id),
            instance_id=InstanceId(row.instance_id),
            name=str(content["name"]),
            push_hosts=tuple(map(str, content["push_hosts"])),
            may_approve=bool(row.may_approve),
            created_at=row.created_at,
            used_at=row.used_at,
            key_hash=row.key_hash,
        )


def digest(key: str) -> str:
    """The digest by which a key is known. Pure."""
    return sha256(key.encode()).hexdigest()


def _is_fresh(row: sa.Row[Any], now: datetime) -> bool:
    return row.used_at is not None and now - row.used_at < _USED_EVERY


def _joined() -> sa.Join:
    return agent_callers.join(hermes_instances, hermes_instances.c.id == _COLUMNS.instance_id)


def _query() -> sa.Select[Any]:
    return sa.select(agent_callers).select_from(_joined())


def _place(caller_id: str) -> str:
    return place(agent_callers.name, "content", caller_id)
