"""Rows of ``outgoing_messages``. Each method is one short transaction, and may be called from several processes.

A row is written before the agent is told that its message is taken, and marked before a messenger may get it: a process
that dies in between leaves an uncertain message, which is sent again once, and never a lost one.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import Incoming, IncomingState, Outgoing, OutgoingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows import chats
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.messaging_tables import incoming_messages, messenger_chats, outgoing_messages

TEXT_KEPT = timedelta(days=1)
KEPT = timedelta(days=30)

_COLUMNS = outgoing_messages.c
_OPEN = _COLUMNS.ended_at.is_(None)
_WITH_CHATS = sa.select(outgoing_messages, messenger_chats.c.address, messenger_chats.c.heard_at).outerjoin(
    messenger_chats, chats.OF_OUTGOING
)
_NOT_WRITTEN = "its user wrote nothing for thirty days"
_DETAIL = 200
_REPORTED = "reported: "
_TAKEN = (OutgoingState.SENDING.value, OutgoingState.SENT.value)
"""States of parts that the messenger may have."""

_NO_REPORT = sa.or_(_COLUMNS.state == OutgoingState.SENDING.value, ~_COLUMNS.detail.startswith(_REPORTED))
"""Condition of a part of which the messenger has not reported, since it was sent last, that it failed."""


@dataclass(frozen=True)
class Draft:
    """A text for a chat, split into the parts that its messenger takes.

    Attributes:
        origin: Id of the request, the same when it is repeated.
        instance_id: The agent that wrote it; ``None`` where the platform did.
        incoming_id: The message that it answers; ``None`` where it answers none.
        file_id: Of the agent's file that the first part is; the part has its name. Empty where all are texts.
    """

    origin: str
    messenger: Messenger
    vendor_chat: str
    parts: tuple[str, ...] = field(repr=False)
    instance_id: InstanceId | None = None
    incoming_id: int | None = None
    file_id: str = ""


class OutgoingMessages:
    """Messages to users.

    Args:
        messages: The key ring that seals what agents say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages
        self._chats = chats.Chats(messages)

    def add(self, draft: Draft) -> int:
        """Queue the parts of a draft; returns the number of new ones, 0 for a request that was repeated."""
        with self._database.writing() as connection:
            return self._add(connection, draft)

    def end_with(self, draft: Draft, state: IncomingState, detail: str) -> bool:
        """End the message that a draft answers, and queue the draft, both or neither; ``False`` where it had ended."""
        columns = incoming_messages.c
        with self._database.writing() as connection:
            is_it = sa.and_(columns.id == draft.incoming_id, columns.ended_at.is_(None))
            values = {"state": state.value, "detail": detail[:_DETAIL], "ended_at": self._database.now(connection)}
            ending = incoming_messages.update().where(is_it).values(values).returning(columns.id)
            if connection.execute(ending).first() is None:
                return False
            self._add(connection, draft)
        return True

    def _add(self, connection: sa.Connection, draft: Draft) -> int:
        now = self._database.now(connection)
        added = 0
        for part, text in enumerate(draft.parts):
            values = {
                "origin": draft.origin,
                "part": part,
                "messenger": draft.messenger.value,
                "vendor_chat": draft.vendor_chat,
                "instance_id": draft.instance_id,
                "incoming_id": draft.incoming_id,
                "body": self._messages.seal(text, place=_place(draft.origin, part)),
                "state": OutgoingState.QUEUED.value,
                "created_at": now,
                "file_id": draft.file_id if draft.file_id and part == 0 else None,
            }
            added += insert_if_absent(connection, outgoing_messages, values)
        return added

    def unnamed(self, incoming: Incoming, *, limit: int = 200) -> frozenset[tuple[str, ...]]:
        """The parts of each text by which an agent answered no message, in a message's chat since it was sent there."""
        is_its = sa.and_(
            _COLUMNS.messenger == incoming.messenger.value,
            _COLUMNS.vendor_chat == incoming.vendor_chat,
            _COLUMNS.instance_id == incoming.instance_id,
            _COLUMNS.created_at >= (incoming.sent_at or incoming.received_at),
        )
        query = sa.select(outgoing_messages).where(is_its, _COLUMNS.incoming_id.is_(None), _COLUMNS.body.is_not(None))
        texts: dict[str, list[str]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(query.order_by(_COLUMNS.origin, _COLUMNS.part).limit(limit)):
                texts.setdefault(row.origin, []).append(self._text(row))
        return frozenset(map(tuple, texts.values()))

    def due(self, messenger: Messenger, *, limit: int = 100) -> tuple[Outgoing, ...]:
        """The oldest open part of each chat of a messenger, where its time has come.

        A part that waits for its user's next message is due once that is there.
        """
        first = (
            sa.select(sa.func.min(_COLUMNS.id))
            .where(_COLUMNS.messenger == messenger.value, _OPEN)
            .group_by(_COLUMNS.vendor_chat)
        )
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_due = sa.or_(_COLUMNS.not_before.is_(None), _COLUMNS.not_before <= now)
            is_free = _COLUMNS.state.in_([OutgoingState.QUEUED.value, OutgoingState.UNCERTAIN.value])
            is_answered = sa.and_(_COLUMNS.state == OutgoingState.WAITING.value, chats.opened(now))
            query = _WITH_CHATS.where(_COLUMNS.id.in_(first), is_due, sa.or_(is_free, is_answered))
            rows = connection.execute(query.order_by(_COLUMNS.id).limit(limit))
            return tuple(self._outgoing(row, now) for row in rows)

    def left_over(self) -> int:
        """Take parts that a process which died was sending for uncertain ones; returns their number.

        Called at the start of the only process that sends.
        """
        return self._all(OutgoingState.SENDING, OutgoingState.UNCERTAIN)

    def sending(self, id_: int) -> bool:
        """Record that the messenger may get a part from now on; ``False`` where it has ended."""
        with self._database.writing() as connection:
            values = {"state": OutgoingState.SENDING.value, "tries": _COLUMNS.tries + 1}
            changing = outgoing_messages.update().where(_COLUMNS.id == id_, _OPEN).values(values)
            return connection.execute(changing.returning(_COLUMNS.id)).first() is not None

    def again(self, id_: int, state: OutgoingState, after: timedelta, detail: str = "") -> None:
        """Record that a part is to be sent, again, and that nothing of its chat is before then.

        Nothing changes where the messenger has reported meanwhile that the part failed.
        """
        with self._database.writing() as connection:
            not_before = self._database.now(connection) + after
            values = {"state": state.value, "not_before": not_before, "detail": detail[:_DETAIL]}
            connection.execute(outgoing_messages.update().where(_COLUMNS.id == id_, _OPEN, _NO_REPORT).values(values))

    def wait(self, part: Outgoing, detail: str) -> None:
        """Record that a part waits for its user's next message, after the look at the part; else as ``again``.

        Args:
            part: As ``due`` returned it.
        """
        with self._database.writing() as connection:
            values = {**_waiting(part), "detail": detail[:_DETAIL]}
            connection.execute(
                outgoing_messages.update().where(_COLUMNS.id == part.id, _OPEN, _NO_REPORT).values(values)
            )

    def end(self, id_: int, state: OutgoingState, *, vendor_id: str = "", detail: str = "") -> None:
        """Record that a part was sent, or never will be; else as ``again``."""
        with self._database.writing() as connection:
            values = {
                "state": state.value,
                "vendor_id": vendor_id[:128],
                "detail": detail[:_DETAIL],
                "ended_at": self._database.now(connection),
            }
            connection.execute(outgoing_messages.update().where(_COLUMNS.id == id_, _OPEN, _NO_REPORT).values(values))

    def taken(self, id_: int, messenger: Messenger, vendor_id: str) -> Outgoing | None:
        """The part that a messenger took under an id of its own; ``None`` where there is none, or its text is gone."""
        is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.messenger == messenger.value, _COLUMNS.body.is_not(None))
        is_its = sa.and_(_COLUMNS.state == OutgoingState.SENT.value, _COLUMNS.vendor_id == vendor_id)
        query = _WITH_CHATS.where(is_it, sa.or_(is_its, _COLUMNS.state == OutgoingState.SENDING.value))
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
            return self._outgoing(row, self._database.now(connection)) if row else None

    def fail(self, part: Outgoing, state: OutgoingState, after: timedelta, detail: str) -> bool:
        """Record a messenger's report that a part failed which it had taken; ``False`` where that was recorded.

        Args:
            part: As ``taken`` returned it.
            state: ``REFUSED``, or one in which it is sent again ``after`` that time.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_it = sa.and_(_COLUMNS.id == part.id, _COLUMNS.state.in_(_TAKEN))  # SENDING may be SENT by now
            values: dict[str, Any] = {"state": state.value, "detail": f"{_REPORTED}{detail}"[:_DETAIL]}
            if state is OutgoingState.REFUSED:
                values |= {"ended_at": now}
            elif state is OutgoingState.WAITING:
                values |= {"ended_at": None, **_waiting(part)}
            else:
                values |= {"ended_at": None, "not_before": now + after}
            failing = outgoing_messages.update().where(is_it).values(values).returning(_COLUMNS.id)
            return connection.execute(failing).first() is not None

    def of(self, incoming_id: int) -> tuple[Outgoing, ...]:
        """The parts that answer a message, in their order."""
        query = _WITH_CHATS.where(_COLUMNS.incoming_id == incoming_id).order_by(_COLUMNS.id)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            return tuple(self._outgoing(row, now) for row in connection.execute(query))

    def forget(self) -> int:
        """Drop texts of parts that ended a day ago, and rows of old ones; returns the number of texts.

        Parts that have waited thirty days for their users' next message end.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_late = sa.and_(_COLUMNS.state == OutgoingState.WAITING.value, _COLUMNS.created_at < now - KEPT)
            ended = {"state": OutgoingState.REFUSED.value, "ended_at": now, "detail": _NOT_WRITTEN}
            connection.execute(outgoing_messages.update().where(is_late).values(ended))
            chats.forget(connection, now)
            old = sa.and_(_COLUMNS.ended_at < now - TEXT_KEPT, _COLUMNS.body.is_not(None))
            dropped = connection.execute(outgoing_messages.update().where(old).values(body=None)).rowcount
            connection.execute(outgoing_messages.delete().where(_COLUMNS.ended_at < now - KEPT))
        return dropped

    def _all(self, before: OutgoingState, after: OutgoingState) -> int:
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.state == before.value, _OPEN)
            changing = outgoing_messages.update().where(is_it).values(state=after.value)
            return len(connection.execute(changing.returning(_COLUMNS.id)).all())

    def _text(self, row: sa.Row[Any]) -> str:
        if not row.body:
            return ""
        try:
            return self._messages.unseal(row.body, place=_place(row.origin, row.part))
        except RefusedError:
            return ""

    def _outgoing(self, row: sa.Row[Any], now: datetime) -> Outgoing:
        """A part of a row of ``_WITH_CHATS``."""
        not_before: datetime | None = row.not_before
        messenger = Messenger(row.messenger)
        return Outgoing(
            id=row.id,
            messenger=messenger,
            vendor_chat=row.vendor_chat,
            text=self._text(row),
            part=row.part,
            state=OutgoingState(row.state),
            vendor_id=row.vendor_id,
            tries=row.tries,
            not_before=not_before,
            address=self._chats.address(row.address, messenger, row.vendor_chat),
            is_open=chats.is_open(messenger, row.heard_at, now),
            looked_at=row.ended_at or now,
            file_id=row.file_id or "",
        )


def _waiting(part: Outgoing) -> dict[str, Any]:
    return {"state": OutgoingState.WAITING.value, "not_before": part.looked_at}


def _place(origin: str, part: int) -> str:
    return place(outgoing_messages.name, "body", f"{origin}/{part}")
