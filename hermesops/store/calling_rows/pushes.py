"""Rows of ``task_pushes``: addresses that calling agents have notified of their tasks, and what was sent to them."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_or_update, lock_rows
from hermesops.store.registry.schema.calling_tables import called_tasks, task_pushes
from hermesops.store.registry.schema.user_tables import turns

MOST = 5
"""Addresses of one task."""

OF_CALLER, OF_USER = 3, 12
"""Addresses of one caller, and of all callers of one user, that are looked at at once: others are held up by none."""

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
    """An address to look at now.

    Attributes:
        caller_id: Of the caller that named it.
        user_id: Whose agent the caller calls.
        content: The address as the row has it, sealed; another one says that the caller has changed it since.
        ended_for: Since when its task has ended; ``None`` while it goes on.
    """

    push: Push
    caller_id: str
    user_id: UserId
    content: str = field(repr=False)
    ended_for: timedelta | None = None


class TaskPushes:
    """Addresses that are notified.

    Args:
        messages: The key ring that seals addresses and what proves to them who notifies.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def put(self, push: Push) -> bool:
        """Add an address, or change the one of this id; ``False`` where the task has ``MOST`` others.

        A changed one is notified of the task's present state, and tried as often as a new one; but after a failed try
        not before the pause has ended, so that changing it again and again tries no host more often.
        """
        with self._database.writing() as connection:
            lock_rows(self._database, connection, task_pushes, push.turn_id)
            others = sa.select(sa.func.count()).where(_COLUMNS.turn_id == push.turn_id, _COLUMNS.id != push.id)
            if (connection.scalar(others) or 0) >= MOST:
                return False
            now = self._database.now(connection)
            values = {
                "turn_id": push.turn_id,
                "id": push.id,
                "content": self._sealed(push),
                "created_at": now,
                "due_at": self._due_at(connection, push, now),
            }
            insert_or_update(connection, task_pushes, values)
            is_it = sa.and_(_COLUMNS.turn_id == push.turn_id, _COLUMNS.id == push.id)
            connection.execute(task_pushes.update().where(is_it).values(sent="", tries=0, ended_at=None))
        return True

    def _due_at(self, connection: sa.Connection, push: Push, now: datetime) -> datetime:
        """When a new or changed address is first looked at."""
        is_it = sa.and_(_COLUMNS.turn_id == push.turn_id, _COLUMNS.id == push.id, _COLUMNS.tries > 0)
        pause_ends_at = connection.scalar(sa.select(_COLUMNS.due_at).where(is_it))
        return max(now, pause_ends_at or now)

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

    def take_due(
        self, *, for_: timedelta, limit: int = 20, callers: Collection[str] = (), users: Collection[UserId] = ()
    ) -> tuple[DuePush, ...]:
        """Addresses to look at now; no other process gets them for some time. Those that do not open are ended.

        At most ``OF_CALLER`` are of one caller, and ``OF_USER`` of one user.

        Args:
            callers: Whose addresses are left for later.
            users: Likewise.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            rows = connection.execute(_due(now, callers, users, limit)).all()
            due = [(row, self._opened(row)) for row in rows]
            for row, push in due:
                is_it = sa.and_(_COLUMNS.turn_id == row.turn_id, _COLUMNS.id == row.id)
                values = {"due_at": now + for_, "ended_at": None if push else now}
                connection.execute(task_pushes.update().where(is_it).values(values))
        return tuple(
            DuePush(
                push,
                row.caller_id,
                UserId(row.user_id),
                row.content,
                now - row.turn_ended_at if row.turn_ended_at is not None else None,
            )
            for row, push in due
            if push is not None
        )

    def note(self, due: DuePush, *, sent: str, tries: int, pause: timedelta, has_ended: bool) -> None:
        """Record what was sent, and when to look again; nothing where the caller has changed the address since."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_it = sa.and_(_COLUMNS.turn_id == due.push.turn_id, _COLUMNS.id == due.push.id)
            values = {
                "sent": sent,
                "tries": tries,
                "due_at": now + pause,
                "ended_at": now if has_ended else None,
            }
            is_same = _COLUMNS.content == due.content
            connection.execute(task_pushes.update().where(is_it, is_same).values(values))

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


def _due(now: datetime, callers: Collection[str], users: Collection[UserId], limit: int) -> sa.Select[Any]:
    """Addresses that are due, those that wait longest first, of no caller and user more than may be, and locked."""
    of_task = called_tasks.c.turn_id == _COLUMNS.turn_id
    joined = task_pushes.join(turns, turns.c.id == _COLUMNS.turn_id).join(called_tasks, of_task)

    def place_among(column: sa.Column[Any]) -> sa.ColumnElement[int]:
        order = (_COLUMNS.due_at, _COLUMNS.turn_id, _COLUMNS.id)
        return sa.func.row_number().over(partition_by=column, order_by=order)

    ranked = (
        sa.select(
            *(_COLUMNS.turn_id, _COLUMNS.id),
            place_among(called_tasks.c.caller_id).label("of_caller"),
            place_among(turns.c.user_id).label("of_user"),
        )
        .select_from(joined)
        .where(_COLUMNS.ended_at.is_(None), _COLUMNS.due_at <= now)
        .where(called_tasks.c.caller_id.not_in(callers), turns.c.user_id.not_in(users))
        .subquery()
    )
    is_it = sa.and_(ranked.c.turn_id == _COLUMNS.turn_id, ranked.c.id == _COLUMNS.id)
    columns = (called_tasks.c.caller_id, turns.c.user_id, turns.c.ended_at.label("turn_ended_at"))
    query = sa.select(task_pushes, *columns).select_from(joined.join(ranked, is_it))
    query = query.where(ranked.c.of_caller <= OF_CALLER, ranked.c.of_user <= OF_USER)
    query = query.where(
        _COLUMNS.ended_at.is_(None), _COLUMNS.due_at <= now
    )  # once more, of rows that waited for a lock
    return query.order_by(_COLUMNS.due_at).limit(limit).with_for_update(of=task_pushes, skip_locked=True)


def _place(turn_id: str, id_: str) -> str:
    return place(task_pushes.name, "content", f"{turn_id}/{id_}")
