"""Rows of ``turns``. Each method is one short transaction, and may be called from several threads and processes."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.model.chat.turn import ENDED, Turn, TurnState
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.user_tables import turns

_COLUMNS = turns.c
_ENDED = tuple(state.value for state in ENDED)
_OPEN = _COLUMNS.state.not_in(_ENDED)
_DETAIL = 500


class Turns:
    """Users' turns.

    Args:
        messages: The key ring that seals what users say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(self, user_id: UserId, instance_id: InstanceId, conversation: str, client_key: str, message: str) -> Turn:
        """Add a turn, or return the one that the client added with the same key."""
        id_ = str(uuid4())
        sealed = self._messages.seal(message, place=place(turns.name, "message", id_))
        with self._database.writing(guarded=False) as connection:
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
            insert_if_absent(connection, turns, values)
            is_it = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.client_key == client_key)
            return self._turn(connection.execute(sa.select(turns).where(is_it)).one())

    def get(self, user_id: UserId, turn_id: str) -> Turn | None:
        """Find a turn of this user; ``None`` also for another user's."""
        query = sa.select(turns).where(_COLUMNS.id == turn_id, _COLUMNS.user_id == user_id)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return self._turn(row) if row else None

    def unfinished(self, user_id: UserId, conversation: str) -> Turn | None:
        """The oldest turn of a conversation that has not ended."""
        is_it = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.conversation == conversation, _OPEN)
        query = sa.select(turns).where(is_it).order_by(_COLUMNS.created_at, _COLUMNS.id).limit(1)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return self._turn(row) if row else None

    def orphans(self, *, limit: int = 100) -> tuple[Turn, ...]:
        """Turns that have not ended and that no process carries, oldest first."""
        with self._database.reading() as connection:
            is_it = sa.and_(_OPEN, _is_free(self._database.now(connection)))
            rows = connection.execute(sa.select(turns).where(is_it).order_by(_COLUMNS.created_at).limit(limit)).all()
        return tuple(map(self._turn, rows))

    def carry(self, turn_id: str, carrier: str, life: timedelta) -> Turn | None:
        """Take a turn, or keep it, for some time; ``None`` where it has ended or another process carries it."""
        with self._database.writing(guarded=False) as connection:
            now = self._database.now(connection)
            is_it = sa.and_(_COLUMNS.id == turn_id, _OPEN, sa.or_(_is_free(now), _COLUMNS.carrier == carrier))
            values = {"carrier": carrier, "carried_until": now + life}
            row = connection.execute(turns.update().where(is_it).values(values).returning(*_COLUMNS)).one_or_none()
        return self._turn(row) if row else None

    def release(self, turn_id: str, carrier: str) -> None:
        """Let another process carry a turn at once."""
        with self._database.writing(guarded=False) as connection:
            is_it = sa.and_(_COLUMNS.id == turn_id, _COLUMNS.carrier == carrier)
            connection.execute(turns.update().where(is_it).values(carrier=None, carried_until=None))

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
        """Record the end, and drop the message."""
        values = {"state": state.value, "detail": detail[:_DETAIL], "message": None}
        return self._change(turn_id, carrier, values, at="ended_at")

    def _change(self, turn_id: str, carrier: str, values: Mapping[str, object], at: str = "") -> Turn | None:
        """Change a turn of this carrier that has not ended.

        Args:
            at: Column that takes the present moment; empty for none.
        """
        with self._database.writing(guarded=False) as connection:
            stamp = {at: self._database.now(connection)} if at else {}
            is_it = sa.and_(_COLUMNS.id == turn_id, _OPEN, _COLUMNS.carrier == carrier)
            changing = turns.update().where(is_it).values({**values, **stamp}).returning(*_COLUMNS)
            row = connection.execute(changing).one_or_none()
        return self._turn(row) if row else None

    def _turn(self, row: sa.Row[Any]) -> Turn:
        where = place(turns.name, "message", row.id)
        return Turn(
            id=row.id,
            user_id=UserId(row.user_id),
            instance_id=InstanceId(row.instance_id),
            conversation=row.conversation,
            client_key=row.client_key,
            message=self._messages.unseal(row.message, place=where) if row.message else "",
            state=TurnState(row.state),
            created_at=row.created_at,
            transcript_mark=row.transcript_mark,
            run_id=row.run_id,
            sent_at=row.sent_at,
            ended_at=row.ended_at,
            detail=row.detail,
        )


def _is_free(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(_COLUMNS.carried_until.is_(None), _COLUMNS.carried_until < now)
