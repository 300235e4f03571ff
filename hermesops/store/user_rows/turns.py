"""Rows of ``turns``. Each method is one short transaction, and may be called from several threads and processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.chat.caller import CalledTask
from hermesops.model.chat.turn import Turn, TurnState
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent, lock_rows
from hermesops.store.registry.schema.calling_tables import called_tasks, task_pushes
from hermesops.store.registry.schema.user_tables import chat_files, turn_approvals, turns

KEPT = timedelta(days=90)
"""How long an ended turn's row is kept; it holds no text. A client's key is known for as long."""

_COLUMNS = turns.c
_OPEN = _COLUMNS.ended_at.is_(None)
_DETAIL = 500


@dataclass(frozen=True)
class ConversationRow:
    """A conversation as the rows of its turns show it.

    Attributes:
        open_turn: Id of the turn that has not ended; ``None`` for none.
    """

    name: str
    last_at: datetime
    open_turn: str | None


class Turns:
    """Users' turns.

    Args:
        messages: The key ring that seals what users say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(
        self,
        user_id: UserId,
        instance_id: InstanceId,
        conversation: str,
        client_key: str,
        message: str,
        files: Sequence[str] = (),
        task: CalledTask | None = None,
        most_open: int | None = None,
    ) -> Turn | None:
        """Add a turn, or return the one that the client added with the same key.

        Args:
            files: Ids of this user's files, which from now on go with the turn.
            task: The calling agent's, of a turn that one begins.
            most_open: Turns that have not ended, of those that agents began or of all others; ``None`` for no limit.

        Returns:
            ``None`` where another turn of the conversation has not ended, too many have not, or a file is not there
            (any more).
        """
        id_ = str(uuid4())
        sealed = self._messages.seal(message, place=place(turns.name, "message", id_))
        with self._database.writing() as connection:
            lock_rows(self._database, connection, turns, user_id)
            values = {
                "id": id_,
                "user_id": user_id,
                "instance_id": instance_id,
                "conversation": conversation,
                "client_key": client_key,
                "message": sealed,
                "state": TurnState.QUEUED.value,
                "created_at": self._database.now(connection),
            }
            is_new = insert_if_absent(connection, turns, values)
            if is_new and not _take_files(connection, user_id, id_, files):
                connection.execute(turns.delete().where(_COLUMNS.id == id_))
                return None
            if is_new and task:
                connection.execute(called_tasks.insert().values({"turn_id": id_, **vars(task)}))
            is_over = most_open is not None and _open_count(connection, user_id, of_callers=bool(task)) > most_open
            if is_new and is_over:
                _delete(connection, _COLUMNS.id == id_)
                return None
            is_it = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.client_key == client_key)
            row = connection.execute(sa.select(turns).where(is_it)).one_or_none()
            return self._turn(row) if row else None

    def get(self, user_id: UserId, turn_id: str) -> Turn | None:
        """Find a turn of this user; ``None`` also for another user's."""
        return self._one(sa.and_(_COLUMNS.id == turn_id, _COLUMNS.user_id == user_id))

    def of_key(self, user_id: UserId, client_key: str) -> Turn | None:
        """Find the turn that a user's client began with this key."""
        return self._one(sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.client_key == client_key))

    def unfinished(self, user_id: UserId, conversation: str) -> Turn | None:
        """The turn of a conversation that has not ended."""
        return self._one(sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.conversation == conversation, _OPEN))

    def newest(self, user_id: UserId, conversation: str) -> Turn | None:
        """The turn of a conversation that has not ended, else the one that began last."""
        is_it = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.conversation == conversation)
        # Clocks of two processes may differ; the open turn is the newest, whatever they say.
        return self._one(is_it, sa.case((_OPEN, 0), else_=1), sa.desc(_COLUMNS.created_at))

    def conversations(self, user_id: UserId, *, limit: int = 200) -> tuple[ConversationRow, ...]:
        """A user's conversations, the last used one first."""
        last_at = sa.func.max(_COLUMNS.created_at).label("last_at")
        query = sa.select(_COLUMNS.conversation, last_at).where(_COLUMNS.user_id == user_id)
        query = query.group_by(_COLUMNS.conversation).order_by(last_at.desc()).limit(limit)
        unfinished = sa.select(_COLUMNS.conversation, _COLUMNS.id).where(_COLUMNS.user_id == user_id, _OPEN)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            open_turns = {row.conversation: row.id for row in connection.execute(unfinished)}
        return tuple(ConversationRow(row.conversation, row.last_at, open_turns.get(row.conversation)) for row in rows)

    def open_count(self, user_id: UserId, *, of_callers: bool) -> int:
        """Number of a user's turns that have not ended: those that agents began, or all others."""
        with self._database.reading() as connection:
            return _open_count(connection, user_id, of_callers=of_callers)

    def orphans(self, *, limit: int = 100) -> tuple[str, ...]:
        """Ids of turns that have not ended and that no process carries, oldest first."""
        with self._database.reading() as connection:
            is_it = sa.and_(_OPEN, _is_free(self._database.now(connection)))
            query = sa.select(_COLUMNS.id).where(is_it).order_by(_COLUMNS.created_at).limit(limit)
            return tuple(connection.scalars(query))

    def carry(self, turn_id: str, carrier: str, life: timedelta) -> Turn | None:
        """Take a turn, or keep it, for some time; ``None`` where it has ended or another process carries it."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_ours = sa.and_(_COLUMNS.carrier == carrier, _COLUMNS.carried_until.is_not(None))
            is_it = sa.and_(_COLUMNS.id == turn_id, _OPEN, sa.or_(_is_free(now), is_ours))
            values = {
                "carrier": carrier,
                "carried_until": now + life,
                "carries": _COLUMNS.carries + sa.case((is_ours, 0), else_=1),
            }
            row = connection.execute(turns.update().where(is_it).values(values).returning(*_COLUMNS)).one_or_none()
        return self._turn(row) if row else None

    def release(self, turn_id: str, carrier: str) -> None:
        """Let another process carry a turn at once."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == turn_id, _COLUMNS.carrier == carrier)
            connection.execute(turns.update().where(is_it).values(carried_until=None))

    def sending(self, turn_id: str, carrier: str, mark: int) -> Turn | None:
        """Record, before it is sent, that the agent may get the message; ``None`` where another process carries it."""
        return self._change(turn_id, carrier, {"state": TurnState.SENDING.value, "transcript_mark": mark}, at="sent_at")

    def queued_again(self, turn_id: str, carrier: str) -> Turn | None:
        """Record that the agent did not get the message."""
        return self._change(turn_id, carrier, {"state": TurnState.QUEUED.value})

    def running(self, turn_id: str, carrier: str, run_id: str) -> Turn | None:
        """Record that the agent has the message; ``run_id`` is empty where it is not known."""
        return self._change(turn_id, carrier, {"state": TurnState.RUNNING.value, "run_id": run_id})

    def end(self, turn_id: str, carrier: str, state: TurnState, detail: str = "") -> Turn | None:
        """Record the end, and drop the message and its files."""
        values = {"state": state.value, "detail": detail[:_DETAIL], "message": None}
        with self._database.writing() as connection:
            ended = self._changed(connection, turn_id, carrier, values, at="ended_at")
            if ended is not None:
                connection.execute(chat_files.delete().where(chat_files.c.turn_id == turn_id))
        return ended

    def stop(self, user_id: UserId, turn_id: str) -> None:
        """Record that the user wants a turn stopped; one that has ended stays as it is."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == turn_id, _COLUMNS.user_id == user_id, _OPEN, _COLUMNS.stop_at.is_(None))
            connection.execute(turns.update().where(is_it).values(stop_at=self._database.now(connection)))

    def forget_conversation(self, user_id: UserId, conversation: str) -> None:
        """Delete the ended turns of a conversation."""
        with self._database.writing() as connection:
            is_it = sa.and_(
                _COLUMNS.user_id == user_id, _COLUMNS.conversation == conversation, _COLUMNS.ended_at.is_not(None)
            )
            _delete(connection, is_it)

    def forget(self) -> int:
        """Delete turns that ended long ago; returns their number."""
        with self._database.writing() as connection:
            old = _COLUMNS.ended_at < self._database.now(connection) - KEPT
            return _delete(connection, old)

    def _one(self, is_it: sa.ColumnElement[bool], *order: sa.ColumnElement[Any]) -> Turn | None:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(turns).where(is_it).order_by(*order).limit(1)).one_or_none()
        return self._turn(row) if row else None

    def _change(self, turn_id: str, carrier: str, values: Mapping[str, object], at: str = "") -> Turn | None:
        with self._database.writing() as connection:
            return self._changed(connection, turn_id, carrier, values, at)

    def _changed(
        self, connection: sa.Connection, turn_id: str, carrier: str, values: Mapping[str, object], at: str
    ) -> Turn | None:
        """Change a turn of this carrier that has not ended.

        Args:
            at: Column that takes the present moment; empty for none.
        """
        stamp = {at: self._database.now(connection)} if at else {}
        is_it = sa.and_(_COLUMNS.id == turn_id, _OPEN, _COLUMNS.carrier == carrier)
        changing = turns.update().where(is_it).values({**values, **stamp}).returning(*_COLUMNS)
        row = connection.execute(changing).one_or_none()
        return self._turn(row) if row else None

    def _message(self, row: sa.Row[Any]) -> tuple[str, bool]:
        """A turn's message, and whether it is lost: one that does not open must not keep the turn from its end."""
        if not row.message:
            return "", False
        try:
            return self._messages.unseal(row.message, place=place(turns.name, "message", row.id)), False
        except RefusedError:
            return "", True

    def _turn(self, row: sa.Row[Any]) -> Turn:
        message, is_lost = self._message(row)
        return Turn(
            id=row.id,
            user_id=UserId(row.user_id),
            instance_id=InstanceId(row.instance_id),
            conversation=row.conversation,
            client_key=row.client_key,
            message=message,
            is_lost=is_lost,
            state=TurnState(row.state),
            created_at=row.created_at,
            transcript_mark=row.transcript_mark,
            run_id=row.run_id,
            sent_at=row.sent_at,
            stop_at=row.stop_at,
            carries=row.carries,
            ended_at=row.ended_at,
            detail=row.detail,
        )


def _open_count(connection: sa.Connection, user_id: UserId, *, of_callers: bool) -> int:
    is_called = _COLUMNS.id.in_(sa.select(called_tasks.c.turn_id))
    is_it = sa.and_(_COLUMNS.user_id == user_id, _OPEN, is_called if of_callers else sa.not_(is_called))
    return int(connection.scalar(sa.select(sa.func.count()).select_from(turns).where(is_it)) or 0)


def _take_files(connection: sa.Connection, user_id: UserId, turn_id: str, files: Sequence[str]) -> bool:
    """Give files to a turn; whether all are this user's, and no other turn's."""
    if not files:
        return True
    columns = chat_files.c
    is_it = sa.and_(columns.id.in_(list(files)), columns.user_id == user_id, columns.turn_id.is_(None))
    taken = connection.execute(chat_files.update().where(is_it).values(turn_id=turn_id).returning(columns.id)).all()
    if len(taken) == len(set(files)):
        return True
    connection.execute(chat_files.update().where(columns.turn_id == turn_id).values(turn_id=None))
    return False


def _delete(connection: sa.Connection, is_it: sa.ColumnElement[bool]) -> int:
    """Delete turns with all that belongs to them; returns their number."""
    of_them = sa.select(_COLUMNS.id).where(is_it)
    for table in (turn_approvals, chat_files, task_pushes, called_tasks):
        connection.execute(table.delete().where(table.c.turn_id.in_(of_them)))
    return connection.execute(turns.delete().where(is_it)).rowcount


def _is_free(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(_COLUMNS.carried_until.is_(None), _COLUMNS.carried_until < now)
