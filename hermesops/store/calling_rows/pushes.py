"""Rows of ``task_pushes``: addresses that calling agents have notified of their tasks, and what was sent to them."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.chat.turn import TurnState
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema.calling_tables import called_tasks, task_pushes
from hermesops.store.registry.schema.user_tables import turns

MOST = 5
"""Addresses of one task."""

_COLUMNS = task_pushes.c


@dataclass(frozen=True)
class Push:
    """An address that is notified of a task.

    Attributes:
        url: Where notifications go.
        token: The caller's own, which comes back with each notification; empty for none.
        scheme: Of the header ``Authorization`` that the caller wants, with its credentials; empty for none.
        sent: The last state that it was notified of; empty for none.
    """

    turn_id: str
    id: str
    url: str = field(repr=False)
    token: str = field(default="", repr=False)
    scheme: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    sent: str = ""
    tries: int = 0


@dataclass(frozen=True)
class DuePush:
    """An address to look at now, with its caller and the owner and state of its task's turn."""

    push: Push
    caller_id: str
    user_id: UserId
    instance_id: InstanceId
    state: TurnState


class TaskPushes:
    """Addresses that are notified.

    Args:
        messages: The key ring that seals addresses and what proves to them who notifies.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def put(self, push: Push) -> bool:
        """Add an address, or change the one of this id; ``False`` where the task has ``MOST`` others."""
        with self._database.writing() as connection:
            others = sa.select(sa.func.count()).where(_COLUMNS.turn_id == push.turn_id, _COLUMNS.id != push.id)
            if (connection.scalar(others) or 0) >= MOST:
                return False
            now = self._database.now(connection)
            values = {
                "turn_id": push.turn_id,
                "id": push.id,
                "content": self._sealed(push),
                "created_at": now,
                "due_at": now,
            }
            insert_or_update(connection, task_pushes, values)
        return True

    def list(self, turn_id: str) -> tuple[Push, ...]:
        """The addresses of a task, the oldest first."""
        query = sa.select(task_pushes).where(_COLUMNS.turn_id == turn_id).order_by(_COLUMNS.created_at, _COLUMNS.id)
        with self._database.reading() as connection:
            return tuple(map(self._push, connection.execute(query)))

    def delete(self, turn_id: str, id_: str) -> bool:
        """Delete an address; whether there was one."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.turn_id == turn_id, _COLUMNS.id == id_)
            return connection.execute(task_pushes.delete().where(is_it)).rowcount > 0

    def take_due(self, *, for_: timedelta, limit: int = 20) -> tuple[DuePush, ...]:
        """Addresses to look at now; no other process gets them for some time. Those that do not open are ended."""
        joined = task_pushes.join(turns, turns.c.id == _COLUMNS.turn_id).join(
            called_tasks, called_tasks.c.turn_id == _COLUMNS.turn_id
        )
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_due = sa.and_(_COLUMNS.ended_at.is_(None), _COLUMNS.due_at <= now)
            columns = (called_tasks.c.caller_id, turns.c.user_id, turns.c.instance_id, turns.c.state)
            query = sa.select(task_pushes, *columns).select_from(joined).where(is_due).order_by(_COLUMNS.due_at)
            rows = connection.execute(query.limit(limit).with_for_update(of=task_pushes, skip_locked=True)).all()
            due = [(row, self._opened(row)) for row in rows]
            for row, push in due:
                is_it = sa.and_(_COLUMNS.turn_id == row.turn_id, _COLUMNS.id == row.id)
                values = {"due_at": now + for_, "ended_at": None if push else now}
                connection.execute(task_pushes.update().where(is_it).values(values))
        return tuple(
            DuePush(push, row.caller_id, UserId(row.user_id), InstanceId(row.instance_id), TurnState(row.state))
            for row, push in due
            if push is not None
        )

    def note(self, push: Push, *, sent: str, tries: int, pause: timedelta, has_ended: bool) -> None:
        """Record what was sent, and when to look again."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_it = sa.and_(_COLUMNS.turn_id == push.turn_id, _COLUMNS.id == push.id)
            values = {
                "sent": sent,
                "tries": tries,
                "due_at": now + pause,
                "ended_at": now if has_ended else None,
            }
            connection.execute(task_pushes.update().where(is_it).values(values))

    def _sealed(self, push: Push) -> str:
        content = {"url": push.url, "token": push.token, "scheme": push.scheme, "credentials": push.credentials}
        return self._messages.seal(json.dumps(content), place=_place(push.turn_id, push.id))

    def _opened(self, row: sa.Row[Any]) -> Push | None:
        """An address; ``None`` for one that does not open, as where its key is gone: it must not hold others up."""
        try:
            return self._push(row)
        except RefusedError:
            return None

    def _push(self, row: sa.Row[Any]) -> Push:
        content = json.loads(self._messages.unseal(row.content, place=_place(row.turn_id, row.id)))
        return Push(row.turn_id, row.id, **content, sent=row.sent, tries=row.tries)


def _place(turn_id: str, id_: str) -> str:
    return place(task_pushes.name, "content", f"{turn_id}/{id_}")
