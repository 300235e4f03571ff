"""Reads what operators see of messengers: counts of users and states of sockets, nothing that anybody said."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.figures import MessagingFigures, MessengerUsers
from hermesops.model.messaging.message import (
    NO_ANSWER,
    NOT_TAKEN,
    TOKEN_REFUSED,
    IncomingKind,
    IncomingState,
    OutgoingState,
)
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.repositories.messages import UNCERTAIN_TWICE
from hermesops.store.registry.schema.messaging_tables import (
    agent_sockets,
    bot_sessions,
    incoming_messages,
    messenger_accounts,
    outgoing_messages,
)
from hermesops.store.registry.schema.tables import hermes_instances

_LATE = timedelta(minutes=1)
"""Age of a message that waits: router and sockets look at least once a second."""

_LATE_ANSWER = timedelta(minutes=5)
"""Age of an answer that waits: parts of the longest one take a minute at a messenger's pace."""

_WINDOW = timedelta(minutes=5)
_RECENT = timedelta(days=1)
_FRESH = timedelta(minutes=1)
"""Age at which a socket counts as closed: its process sees it every ten seconds."""

_BY_SESSION = (Messenger.DISCORD.value,)
_FRESH_SESSION = timedelta(minutes=3)
"""Age at which a session counts as ended: Discord answers one every 41 s."""

_IN, _OUT, _ACCOUNTS = incoming_messages.c, outgoing_messages.c, messenger_accounts.c
_SOCKETS, _INSTANCES = agent_sockets.c, hermes_instances.c
_MESSENGERS = tuple(messenger.value for messenger in Messenger)


class MessageFiguresRepository(Repository):
    """The state of messengers for operators."""

    def read(self) -> MessagingFigures:
        """Messages, answers, accounts and sockets, all from one moment."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_ended = sa.and_(_IN.ended_at >= now - _WINDOW, _IN.kind == IncomingKind.MESSAGE.value)
            is_lost = sa.and_(_IN.state == IncomingState.DEAD.value, _IN.detail.in_((NO_ANSWER, NOT_TAKEN)))
            return MessagingFigures(
                unrouted=_unrouted(connection, now),
                held=_held(connection, now),
                unanswered=_users(connection, sa.and_(is_ended, is_lost)),
                answered=_users(connection, sa.and_(is_ended, _IN.state == IncomingState.ANSWERED.value)),
                messengers=_messengers(connection, now),
                sockets=_sockets(connection, now),
                sessions=_sessions(connection, now),
                has_connector=bool(connection.scalar(sa.select(sa.exists().where(_SOCKETS.seen_at >= now - _RECENT)))),
            )


def _users(connection: sa.Connection, is_it: sa.ColumnElement[bool]) -> int:
    return connection.scalar(sa.select(sa.func.count(_IN.user_id.distinct())).where(is_it)) or 0


def _unrouted(connection: sa.Connection, now: datetime) -> int:
    is_it = sa.and_(_IN.state == IncomingState.RECEIVED.value, _IN.received_at < now - _LATE)
    accounts = sa.select(_IN.messenger, _IN.account).where(is_it).distinct().subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(accounts)) or 0


def _is_open(now: datetime) -> sa.ColumnElement[bool]:
    """Whether a process holds an agent's socket and has seen it lately."""
    return sa.and_(_SOCKETS.holder != "", _SOCKETS.seen_at >= now - _FRESH)


def _held(connection: sa.Connection, now: datetime) -> int:
    is_routed = sa.and_(_IN.ended_at.is_(None), _IN.state != IncomingState.RECEIVED.value)
    first = (
        sa.select(sa.func.min(_IN.id))
        .where(is_routed, _IN.kind == IncomingKind.MESSAGE.value)
        .group_by(_IN.messenger, _IN.vendor_chat)
    )
    is_late = sa.and_(_IN.state == IncomingState.QUEUED.value, _IN.received_at < now - _LATE)
    has_socket = _IN.instance_id.in_(sa.select(_SOCKETS.instance_id).where(_is_open(now)))
    return _users(connection, sa.and_(_IN.id.in_(first), is_late, has_socket))


def _messengers(connection: sa.Connection, now: datetime) -> Sequence[MessengerUsers]:
    """Users of each messenger that is known here."""
    accounts, answers = _of_accounts(connection, now), _of_answers(connection, now)
    return tuple(
        MessengerUsers(messenger, **accounts.get(messenger, {}), **answers.get(messenger, {}))
        for messenger in _MESSENGERS
        if messenger in accounts or messenger in answers
    )


def _of_accounts(connection: sa.Connection, now: datetime) -> Mapping[str, Mapping[str, int]]:
    names = {"linked": _ACCOUNTS.blocked_at.is_(None), "blocked": _ACCOUNTS.blocked_at >= now - _RECENT}
    query = sa.select(_ACCOUNTS.messenger, *_counts(names, _ACCOUNTS.user_id)).group_by(_ACCOUNTS.messenger)
    return _by_messenger(connection, query, names)


def _of_answers(connection: sa.Connection, now: datetime) -> Mapping[str, Mapping[str, int]]:
    """Users by what became of agents' answers; an agent has one user, however many accounts that user linked."""
    is_open, is_waiting = _OUT.ended_at.is_(None), _OUT.state == OutgoingState.WAITING.value
    waits = sa.and_(is_open, ~is_waiting, _OUT.created_at < now - _LATE_ANSWER)
    is_lately = _OUT.ended_at >= now - _WINDOW
    is_twice = sa.and_(_OUT.state == OutgoingState.SENT.value, is_lately, _OUT.detail.startswith(UNCERTAIN_TWICE))
    is_uncertain = sa.or_(_OUT.state == OutgoingState.UNCERTAIN.value, is_twice)
    is_refused = sa.and_(_OUT.ended_at.is_(None), _OUT.detail.startswith(TOKEN_REFUSED))
    is_sent = sa.and_(_OUT.state == OutgoingState.SENT.value, is_lately, _OUT.vendor_id != "")
    names = {
        "delivered": is_sent,
        "undelivered": waits,
        "uncertain": is_uncertain,
        "waiting": sa.and_(is_open, is_waiting),
        "refused": is_refused,
    }
    query = (
        sa.select(_OUT.messenger, *_counts(names, _INSTANCES.user_id))
        .join(hermes_instances, _INSTANCES.id == _OUT.instance_id)
        .where(sa.or_(_OUT.ended_at.is_(None), _OUT.ended_at >= now - _WINDOW))
        .group_by(_OUT.messenger)
    )
    return _by_messenger(connection, query, names)


def _counts(names: Mapping[str, sa.ColumnElement[bool]], user: sa.ColumnElement[Any]) -> list[sa.Label[int]]:
    return [sa.func.count(sa.case((is_it, user)).distinct()).label(name) for name, is_it in names.items()]


def _by_messenger(
    connection: sa.Connection, query: sa.Select[Any], names: Mapping[str, object]
) -> Mapping[str, Mapping[str, int]]:
    rows = connection.execute(query)
    return {row.messenger: {name: getattr(row, name) for name in names} for row in rows}


def _sessions(connection: sa.Connection, now: datetime) -> Mapping[str, bool]:
    """Whether the bot has a session, in messengers of linked users whose messages come by none else."""
    sessions, is_linked = bot_sessions.c, _ACCOUNTS.blocked_at.is_(None)
    query = (
        sa.select(_ACCOUNTS.messenger, sa.func.max(sessions.seen_at).label("seen_at"))
        .outerjoin(bot_sessions, sessions.messenger == _ACCOUNTS.messenger)
        .where(is_linked, _ACCOUNTS.messenger.in_(_BY_SESSION))
        .group_by(_ACCOUNTS.messenger)
    )
    rows = connection.execute(query)
    return {row.messenger: row.seen_at is not None and row.seen_at >= now - _FRESH_SESSION for row in rows}


def _sockets(connection: sa.Connection, now: datetime) -> Mapping[InstanceId, bool]:
    """Running agents that should have a socket, and whether each has."""
    is_linked = _INSTANCES.user_id.in_(sa.select(_ACCOUNTS.user_id).where(_ACCOUNTS.blocked_at.is_(None)))
    query = (
        sa.select(_INSTANCES.id, sa.func.coalesce(_is_open(now), sa.false()).label("is_open"))
        .outerjoin(agent_sockets, _SOCKETS.instance_id == _INSTANCES.id)
        .where(_INSTANCES.status == InstanceStatus.RUNNING)
        .where(sa.or_(is_linked, _SOCKETS.instance_id.is_not(None)))
    )
    return {InstanceId(row.id): bool(row.is_open) for row in connection.execute(query)}
