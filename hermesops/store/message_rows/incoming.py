"""Rows of ``incoming_messages``. Each method is one short transaction, and may be called from several processes.

A chat has one message under way at a time, which an index of the database keeps so: an agent that gets a second one
while it is busy may join the two.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.files import UserFile
from hermesops.model.messaging.message import UNDER_WAY, Incoming, IncomingKind, IncomingState, Update, body_of
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.chats import Chats
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.messaging_tables import incoming_messages

TEXT_KEPT = timedelta(days=1)
"""How long the text of a message is kept once it has ended."""

KEPT = timedelta(days=30)
"""How long a row is kept; no messenger repeats a report for longer."""

AT_WORK = timedelta(minutes=10)
"""How long an agent that got a message is taken to be at work without another sign."""

_COLUMNS = incoming_messages.c
_UNDER_WAY = _COLUMNS.state.in_([state.value for state in UNDER_WAY])
_DETAIL = 200


class IncomingMessages:
    """Messages of users.

    Args:
        messages: The key ring that seals what users say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages
        self._chats = Chats(messages)

    def add(self, update: Update) -> bool:
        """Keep a report of a messenger, and its chat's address; ``False`` for one that is here already."""
        body = json.dumps(dict(body_of(update)))
        with self._database.writing() as connection:
            now = self._database.now(connection)
            values = {
                "messenger": update.messenger.value,
                "vendor_id": update.vendor_id,
                "kind": update.kind.value,
                "state": IncomingState.RECEIVED.value,
                "account": update.account,
                "vendor_chat": update.vendor_chat,
                "body": self._messages.seal(body, place=_place(update.messenger, update.vendor_id)),
                "received_at": now,
            }
            is_new = insert_if_absent(connection, incoming_messages, values)
            if is_new and update.address:
                self._chats.keep(connection, update, now)
            return is_new

    def received(self, *, limit: int = 100) -> tuple[Incoming, ...]:
        """Reports that nobody has looked at, oldest first."""
        return self._list(_COLUMNS.state == IncomingState.RECEIVED.value, limit)

    def queue(self, id_: int, user_id: UserId, instance_id: InstanceId, *, is_command: bool = False) -> bool:
        """Put a report into its agent's queue; ``False`` where somebody else has decided on it."""
        kind = IncomingKind.COMMAND if is_command else IncomingKind.MESSAGE
        values = {
            "state": IncomingState.QUEUED.value,
            "kind": kind.value,
            "user_id": user_id,
            "instance_id": instance_id,
        }
        return self._change(id_, IncomingState.RECEIVED, values)

    def send_received(self, id_: int, user_id: UserId, instance_id: InstanceId, fence: int) -> Incoming | None:
        """Record a report that nobody has decided on as under way by its agent's socket: ``queue`` and ``send`` in one.

        Returns:
            ``None`` where somebody has decided on it, or an earlier message of its chat has not ended.
        """
        earlier = incoming_messages.alias()
        is_first = ~sa.exists().where(
            *(earlier.c[name] == _COLUMNS[name] for name in ("messenger", "vendor_chat")),
            earlier.c.ended_at.is_(None),
            earlier.c.id < _COLUMNS.id,
        )
        is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.state == IncomingState.RECEIVED.value, is_first)
        return self._send(is_it, fence, {"user_id": user_id, "instance_id": instance_id})

    def end(self, id_: int, state: IncomingState, detail: str = "", *, user_id: UserId | None = None) -> bool:
        """Record that a message has ended; ``False`` where it had already."""
        values: dict[str, Any] = {"state": state.value, "detail": detail[:_DETAIL]}
        if user_id is not None:
            values["user_id"] = user_id
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.ended_at.is_(None))
            ending = incoming_messages.update().where(is_it).values(ended_at=self._database.now(connection), **values)
            return connection.execute(ending.returning(_COLUMNS.id)).first() is not None

    def waiting(self, instance_id: InstanceId, *, limit: int = 50) -> tuple[Incoming, ...]:
        """The oldest queued message of each chat of an agent that has none under way."""
        first = (
            sa.select(sa.func.min(_COLUMNS.id))
            .where(_COLUMNS.instance_id == instance_id, _COLUMNS.ended_at.is_(None))
            .where(_COLUMNS.state != IncomingState.RECEIVED.value, _COLUMNS.kind != IncomingKind.COMMAND.value)
            .group_by(_COLUMNS.messenger, _COLUMNS.vendor_chat)
        )
        is_it = sa.and_(_COLUMNS.id.in_(first), _COLUMNS.state == IncomingState.QUEUED.value)
        return self._list(is_it, limit)

    def commands(self, instance_id: InstanceId) -> tuple[Incoming, ...]:
        """Queued words to an agent that is at work, oldest first."""
        is_command = sa.and_(_COLUMNS.instance_id == instance_id, _COLUMNS.kind == IncomingKind.COMMAND.value)
        return self._list(sa.and_(is_command, _COLUMNS.state == IncomingState.QUEUED.value), 50)

    def under_way(self, instance_id: InstanceId, *, limit: int = 200) -> tuple[Incoming, ...]:
        """Messages that an agent may be at, oldest first."""
        return self._list(sa.and_(_COLUMNS.instance_id == instance_id, _UNDER_WAY), limit)

    def chats_at_work(self, messenger: Messenger, *, limit: int = 200) -> tuple[tuple[str, str], ...]:
        """Chats of a messenger in which an agent is at a message, each with the messenger's id of that.

        The newest are first; those where it was lost are left out.
        """
        with self._database.reading() as connection:
            is_recent = _COLUMNS.sent_at > self._database.now(connection) - AT_WORK
            is_it = sa.and_(_COLUMNS.messenger == messenger.value, _UNDER_WAY, is_recent)
            query = sa.select(_COLUMNS.vendor_chat, _COLUMNS.vendor_id).where(is_it)
            rows = connection.execute(query.order_by(_COLUMNS.id.desc()).limit(limit))
            return tuple((row.vendor_chat, row.vendor_id) for row in rows)

    def now(self) -> datetime:
        """The database's time, by which all ages of rows count."""
        with self._database.reading() as connection:
            return self._database.now(connection)

    def queued_for(self) -> frozenset[InstanceId]:
        """Agents for which a message is queued."""
        with self._database.reading() as connection:
            query = sa.select(_COLUMNS.instance_id).where(_COLUMNS.state == IncomingState.QUEUED.value).distinct()
            return frozenset(map(InstanceId, connection.scalars(query)))

    def agents_at_work(self) -> frozenset[InstanceId]:
        """Agents that may be at a message, or for which one waits."""
        is_it = sa.and_(_COLUMNS.ended_at.is_(None), _COLUMNS.instance_id.is_not(None))
        with self._database.reading() as connection:
            query = sa.select(_COLUMNS.instance_id).where(is_it).distinct()
            return frozenset(map(InstanceId, connection.scalars(query)))

    def send(self, id_: int, fence: int) -> Incoming | None:
        """Record, before it is written, that a socket may bring a message to the agent.

        Returns:
            ``None`` where the message is not queued any more, or another one of its chat is under way.
        """
        is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.state == IncomingState.QUEUED.value)
        return self._send(is_it, fence, {})

    def _send(self, is_it: sa.ColumnElement[bool], fence: int, more: Mapping[str, object]) -> Incoming | None:
        with self._database.writing() as connection:
            values = {
                "state": IncomingState.SENT.value,
                "fence": fence,
                "tries": _COLUMNS.tries + 1,
                "sent_at": self._database.now(connection),
                **more,
            }
            try:
                with connection.begin_nested():
                    sending = incoming_messages.update().where(is_it).values(values).returning(*_COLUMNS)
                    row = connection.execute(sending).one_or_none()
            except IntegrityError:  # the index of messages under way
                return None
        return self._incoming(row) if row else None

    def get(self, id_: int) -> Incoming | None:
        """A message; ``None`` where there is none."""
        return next(iter(self._list(_COLUMNS.id == id_, 1)), None)

    def taken(self, id_: int, instance_id: InstanceId, fence: int) -> None:
        """Record that an agent has a message that its socket of this fence brought."""
        with self._database.writing() as connection:
            by_socket = sa.and_(_COLUMNS.instance_id == instance_id, _COLUMNS.fence == fence)
            is_it = sa.and_(_COLUMNS.id == id_, by_socket, _COLUMNS.state == IncomingState.SENT.value)
            connection.execute(incoming_messages.update().where(is_it).values(state=IncomingState.TAKEN.value))

    def queue_again(self, id_: int) -> bool:
        """Record that the agent does not have a message; ``False`` where it has ended."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == id_, _UNDER_WAY)
            again = incoming_messages.update().where(is_it).values(state=IncomingState.QUEUED.value)
            return connection.execute(again.returning(_COLUMNS.id)).first() is not None

    def at_work(self, messenger: Messenger, vendor_chat: str) -> Incoming | None:
        """The message of a chat that an agent may be at."""
        is_it = sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.vendor_chat == vendor_chat, _UNDER_WAY)
        return next(iter(self._list(is_it, 1)), None)

    def newest_of_chats(self, messenger: Messenger, *, limit: int = 1_000) -> tuple[tuple[str, str], ...]:
        """Chats of a messenger with its id of the newest message of each, the chats that wrote last first."""
        is_message = sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.vendor_id.not_like("%/%"))
        newest = sa.select(sa.func.max(_COLUMNS.id)).where(is_message).group_by(_COLUMNS.vendor_chat)
        query = sa.select(_COLUMNS.vendor_chat, _COLUMNS.vendor_id).where(_COLUMNS.id.in_(newest))
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(_COLUMNS.id.desc()).limit(limit))
            return tuple((row.vendor_chat, row.vendor_id) for row in rows)

    def detail_of(self, id_: int) -> str:
        """The detail of how a message ended; empty for none."""
        with self._database.reading() as connection:
            query = sa.select(_COLUMNS.detail).where(_COLUMNS.id == id_)
            return str(connection.execute(query).scalar_one_or_none() or "")

    def forget(self) -> int:
        """Drop texts of messages that ended a day ago, and rows of old ones; returns the number of texts."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            old = sa.and_(_COLUMNS.ended_at < now - TEXT_KEPT, _COLUMNS.body.is_not(None))
            dropped = connection.execute(incoming_messages.update().where(old).values(body=None)).rowcount
            connection.execute(incoming_messages.delete().where(_COLUMNS.ended_at < now - KEPT))
        return dropped

    def _change(self, id_: int, state: IncomingState, values: Mapping[str, object]) -> bool:
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.state == state.value)
            changing = incoming_messages.update().where(is_it).values(dict(values))
            return connection.execute(changing.returning(_COLUMNS.id)).first() is not None

    def _list(self, is_it: sa.ColumnElement[bool], limit: int) -> tuple[Incoming, ...]:
        query = sa.select(incoming_messages).where(is_it).order_by(_COLUMNS.id).limit(limit)
        with self._database.reading() as connection:
            return tuple(map(self._incoming, connection.execute(query)))

    def _body(self, row: sa.Row[Any]) -> Mapping[str, Any]:
        """What was sealed; empty where it was dropped or its key is gone, so that the message can still end."""
        if not row.body:
            return {}
        try:
            sealed = self._messages.unseal(row.body, place=_place(Messenger(row.messenger), row.vendor_id))
        except RefusedError:
            return {}
        body: Mapping[str, Any] = json.loads(sealed)
        return body

    def _incoming(self, row: sa.Row[Any]) -> Incoming:
        body = self._body(row)
        sent_at: datetime | None = row.sent_at
        return Incoming(
            id=row.id,
            messenger=Messenger(row.messenger),
            vendor_id=row.vendor_id,
            kind=IncomingKind(row.kind),
            account=row.account,
            vendor_chat=row.vendor_chat,
            text=body.get("text", ""),
            display=body.get("display", ""),
            state=IncomingState(row.state),
            user_id=UserId(row.user_id) if row.user_id else None,
            instance_id=InstanceId(row.instance_id) if row.instance_id else None,
            fence=row.fence,
            tries=row.tries,
            received_at=row.received_at,
            sent_at=sent_at,
            files=tuple(map(UserFile.of, body.get("files", ()))),
        )


def _place(messenger: Messenger, vendor_id: str) -> str:
    return place(incoming_messages.name, "body", f"{messenger.value}/{vendor_id}")
