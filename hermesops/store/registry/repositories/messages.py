"""Messages of messengers as operators see them; their texts stay sealed."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.exchange import Exchange
from hermesops.model.messaging.message import NO_ANSWER, NOT_TAKEN, IncomingKind, IncomingState, OutgoingState
from hermesops.model.messaging.record import Direction, MessageRecord, MessengerCount, Receipt
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.messaging_tables import incoming_messages, messenger_accounts, outgoing_messages
from hermesops.store.registry.schema.tables import hermes_instances

_IN, _OUT = incoming_messages.c, outgoing_messages.c
_owner = sa.func.coalesce(_IN.user_id, hermes_instances.c.user_id).label("owner")

_INCOMING = sa.select(
    *(_IN[name] for name in ("id", "messenger", "kind", "state", "user_id", "instance_id", "tries")),
    *(_IN[name] for name in ("received_at", "sent_at", "ended_at", "detail")),
    _IN.body.is_not(None).label("has_text"),
)
_OUTGOING = (
    sa.select(
        *(_OUT[name] for name in ("id", "messenger", "state", "instance_id", "incoming_id", "part", "tries")),
        *(_OUT[name] for name in ("created_at", "not_before", "ended_at", "detail")),
        _OUT.body.is_not(None).label("has_text"),
        _owner,
    )
    .outerjoin(incoming_messages, _IN.id == _OUT.incoming_id)
    .outerjoin(hermes_instances, hermes_instances.c.id == _OUT.instance_id)
)

UNCERTAIN_TWICE = "uncertain twice"
"""Beginning of the detail of a part that was sent twice without an answer."""

RETRIED = (OutgoingState.REFUSED.value, OutgoingState.UNCERTAIN.value)
"""States of parts that a person may have sent again."""


class MessageRepository(Repository):
    """Messages from users and to users."""

    def list(
        self, *, user_id: UserId | None = None, messenger: str = "", state: str = "", limit: int = 50
    ) -> tuple[MessageRecord, ...]:
        """Messages both ways, the newest first, up to ``limit``."""
        incoming = _INCOMING.order_by(_IN.id.desc()).limit(limit)
        outgoing = _OUTGOING.order_by(_OUT.id.desc()).limit(limit)
        if user_id:
            incoming, outgoing = incoming.where(_IN.user_id == user_id), outgoing.where(_owner == user_id)
        if messenger:
            incoming, outgoing = incoming.where(_IN.messenger == messenger), outgoing.where(_OUT.messenger == messenger)
        if state:
            incoming, outgoing = incoming.where(_IN.state == state), outgoing.where(_OUT.state == state)
        both = [*map(_incoming, self._rows(incoming)), *map(_outgoing, self._rows(outgoing))]
        return tuple(sorted(both, key=lambda record: record.began_at, reverse=True)[:limit])

    def find(self, direction: Direction, number: int) -> MessageRecord | None:
        """A message; ``None`` where there is none of this number any more."""
        if direction is Direction.IN:
            row = self._row(_INCOMING.where(_IN.id == number))
            return _incoming(row) if row else None
        row = self._row(_OUTGOING.where(_OUT.id == number))
        return _outgoing(row) if row else None

    def answers_of(self, number: int) -> tuple[MessageRecord, ...]:
        """Parts that answer a message of a user, in their order."""
        return tuple(map(_outgoing, self._rows(_OUTGOING.where(_OUT.incoming_id == number).order_by(_OUT.id))))

    def received_by(self, instance_id: InstanceId, since: datetime | None, *, limit: int) -> tuple[Receipt, ...]:
        """Messages for an agent since a moment, the newest ones up to ``limit``, oldest first."""
        query = sa.select(_IN.received_at, _IN.messenger, _IN.state).where(_IN.instance_id == instance_id)
        if since:
            query = query.where(_IN.received_at >= since)
        rows = self._rows(query.order_by(_IN.id.desc()).limit(limit))
        return tuple(Receipt(row.received_at, row.messenger, row.state) for row in reversed(rows))

    def exchanges(self, since: Mapping[InstanceId, datetime], *, timeout: timedelta) -> Mapping[InstanceId, Exchange]:
        """What became of users' messages that were written to agents' sockets; agents without one are left out.

        Args:
            since: By agent, the moment from which on its messages count; some hundred agents at most.
            timeout: Age at which a message that an agent is at counts.
        """
        if not since:
            return {}
        is_theirs = sa.or_(
            *(sa.and_(_IN.instance_id == instance_id, _IN.sent_at >= at) for instance_id, at in since.items())
        )
        is_answered = _IN.state == IncomingState.ANSWERED.value
        is_lost = sa.and_(_IN.state == IncomingState.DEAD.value, _IN.detail.in_((NO_ANSWER, NOT_TAKEN)))
        with self._database.reading() as connection:
            is_old = sa.and_(_IN.ended_at.is_(None), _IN.sent_at <= self._database.now(connection) - timeout)
            due = sa.func.count(sa.case((sa.or_(is_answered, is_lost, is_old), 1))).label("due")
            answered = sa.func.count(sa.case((is_answered, 1))).label("answered")
            query = sa.select(_IN.instance_id, due, answered).where(is_theirs, _IN.kind == IncomingKind.MESSAGE.value)
            rows = connection.execute(query.group_by(_IN.instance_id)).all()
        return {InstanceId(row.instance_id): Exchange(row.due, row.answered) for row in rows}

    def retry(self, number: int, *, why: str) -> bool:
        """Queue a part that the messenger refused, or may not have, to be sent again at once; ``False`` for another.

        An audit entry records it.
        """
        is_twice = sa.and_(_OUT.state == OutgoingState.SENT.value, _OUT.detail.startswith(UNCERTAIN_TWICE))
        is_it = sa.and_(_OUT.id == number, _OUT.body.is_not(None), sa.or_(_OUT.state.in_(RETRIED), is_twice))
        queued: dict[str, Any] = {
            "state": OutgoingState.QUEUED.value,
            "tries": 0,
            "not_before": None,
            "ended_at": None,
            "detail": "",
        }
        with self._database.writing() as connection:
            row = connection.execute(sa.select(_OUT.state, _OUT.detail).where(is_it).with_for_update()).one_or_none()
            if row is None:
                return False
            connection.execute(outgoing_messages.update().where(is_it).values(queued))
            before, after = {"state": row.state, "detail": row.detail}, {"state": queued["state"]}
            self._note(connection, "message_retried", f"message/out-{number}", before=before, after=after, why=why)
        return True

    def counts(self) -> Mapping[str, MessengerCount]:
        """Accounts and open messages, by messenger."""
        accounts = {row.messenger: row for row in self._rows(_accounts())}
        waiting = {row.messenger: row for row in self._rows(_open(incoming_messages, "received_at"))}
        undelivered = {row.messenger: row for row in self._rows(_open(outgoing_messages, "created_at"))}
        return {
            messenger: _count(*(rows.get(messenger) for rows in (accounts, waiting, undelivered)))
            for messenger in {*accounts, *waiting, *undelivered}
        }

    def blocked(self, record: MessageRecord) -> bool:
        """Whether the user of a message has blocked the bot of its messenger."""
        accounts = messenger_accounts.c
        is_it = sa.and_(accounts.user_id == record.user_id, accounts.messenger == record.messenger)
        return bool(self._rows(sa.select(accounts.account).where(is_it, accounts.blocked_at.is_not(None)).limit(1)))


def _accounts() -> sa.Select[Any]:
    columns = messenger_accounts.c
    blocked = sa.func.count(columns.blocked_at).label("blocked")
    return sa.select(columns.messenger, sa.func.count().label("number"), blocked).group_by(columns.messenger)


def _open(table: sa.Table, began: str) -> sa.Select[Any]:
    columns = table.c
    oldest = sa.func.min(columns[began], type_=columns[began].type).label("oldest_at")
    query = sa.select(columns.messenger, sa.func.count().label("number"), oldest)
    return query.where(columns.ended_at.is_(None)).group_by(columns.messenger)


def _count(account: Any, incoming: Any, outgoing: Any) -> MessengerCount:  # noqa: ANN401 - rows
    oldest = [row.oldest_at for row in (incoming, outgoing) if row]
    return MessengerCount(
        account.number if account else 0,
        account.blocked if account else 0,
        incoming.number if incoming else 0,
        outgoing.number if outgoing else 0,
        min(oldest, default=None),
    )


def _incoming(row: sa.Row[Any]) -> MessageRecord:
    return MessageRecord(
        id=f"{Direction.IN}-{row.id}",
        direction=Direction.IN,
        messenger=row.messenger,
        kind=row.kind,
        state=row.state,
        user_id=UserId(row.user_id) if row.user_id else None,
        instance_id=InstanceId(row.instance_id) if row.instance_id else None,
        tries=row.tries,
        began_at=row.received_at,
        sent_at=row.sent_at,
        ended_at=row.ended_at,
        detail=row.detail,
        has_text=bool(row.has_text),
    )


def _outgoing(row: sa.Row[Any]) -> MessageRecord:
    return MessageRecord(
        id=f"{Direction.OUT}-{row.id}",
        direction=Direction.OUT,
        messenger=row.messenger,
        kind="answer" if row.instance_id else "notice",
        state=row.state,
        user_id=UserId(row.owner) if row.owner else None,
        instance_id=InstanceId(row.instance_id) if row.instance_id else None,
        tries=row.tries,
        began_at=row.created_at,
        due_at=row.not_before,
        ended_at=row.ended_at,
        detail=row.detail,
        answers=f"{Direction.IN}-{row.incoming_id}" if row.incoming_id else "",
        part=row.part,
        has_text=bool(row.has_text),
    )
