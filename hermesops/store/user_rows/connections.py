"""Rows of ``user_connections``. Each method is one short transaction, and may be called from several processes."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.model.connections.connection import ENDED, Connection, ConnectionState
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import lock_rows
from hermesops.store.registry.schema.tables import LIVING, hermes_instances
from hermesops.store.registry.schema.user_tables import user_connections

_COLUMNS = user_connections.c
_REPLACED = {
    ConnectionState.REQUESTED: (ConnectionState.REQUESTED, ConnectionState.CONFIRMED, ConnectionState.FAILED),
    ConnectionState.LINKED: (ConnectionState.LINKED, ConnectionState.EXPIRED),
}
"""States of a service's older connections that end when one gets this state."""


@dataclass(frozen=True)
class Pace:
    """How often connections are looked at.

    Attributes:
        checked: Between two looks at the account of a connection.
        again: Between two attempts at what is to be done soon.
        kept: How long a failure stays.
    """

    checked: timedelta
    again: timedelta
    kept: timedelta


class UserConnections:
    """Connections of users' agents to services, as rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self, user_id: UserId, instance_id: InstanceId, service: str, *, state: str, session: str, life: timedelta
    ) -> Connection | None:
        """Add a connection that the user asks for. Earlier requests for the service end.

        Args:
            state: Of the link's callback; its digest alone is kept.
            session: Digest of the page session that asks; empty for none.
            life: Of the link, until the vendor says how long it lives.

        Returns:
            ``None`` where too many of the user's connections are still to be cleaned up.
        """
        with self._database.writing() as connection:
            lock_rows(self._database, connection, user_connections, user_id)
            now = self._database.now(connection)
            mine = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.cleaned_at.is_(None), _has_ended())
            if connection.execute(sa.select(sa.func.count()).where(mine)).scalar_one() >= MOST_UNCLEANED:
                return None
            _replace(connection, instance_id, service, _REPLACED[ConnectionState.REQUESTED], now)
            values = {
                "id": str(uuid4()),
                "user_id": user_id,
                "instance_id": instance_id,
                "service": service,
                "state": ConnectionState.REQUESTED.value,
                "callback_hash": digest(state),
                "session": session,
                "created_at": now,
                "changed_at": now,
                "link_expires_at": now + life,
            }
            row = connection.execute(user_connections.insert().values(values).returning(*_COLUMNS)).one()
        return connection_of(row)

    def got_link(self, id_: str, account: str, link_expires_at: datetime) -> bool:
        """Record the account that a link makes; ``False`` where the connection has ended meanwhile."""
        is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.state == ConnectionState.REQUESTED.value, _COLUMNS.account == "")
        return self._update(is_it, {"account": account, "link_expires_at": link_expires_at})

    def take(self, state: str) -> Connection | None:
        """Use up a callback's state: one call gets the connection, each other call and a late one gets ``None``."""
        with self._database.writing() as connection:
            is_valid = _COLUMNS.link_expires_at > self._database.now(connection)
            is_it = sa.and_(
                _COLUMNS.callback_hash == digest(state), _COLUMNS.state == ConnectionState.REQUESTED.value, is_valid
            )
            taking = user_connections.update().where(is_it).values(callback_hash=None).returning(*_COLUMNS)
            row = connection.execute(taking).one_or_none()
        return connection_of(row) if row else None

    def move(self, before: Connection, state: ConnectionState, detail: str = "") -> bool:
        """Change a connection's state; ``False`` where it is in another state than before.

        A connection that becomes linked ends the service's earlier ones.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_it = sa.and_(_COLUMNS.id == before.id, _COLUMNS.state == before.state.value)
            if connection.execute(sa.select(_COLUMNS.id).where(is_it).with_for_update()).first() is None:
                return False
            if state is ConnectionState.LINKED:
                others = sa.and_(_COLUMNS.id != before.id)
                _replace(connection, before.instance_id, before.service, _REPLACED[state], now, others)
            values: dict[str, object] = {
                "state": state.value,
                "detail": detail,
                "changed_at": now,
                "checked_at": now,
                "callback_hash": None,
            }
            if state is ConnectionState.LINKED and before.linked_at is None:
                values["linked_at"] = now
            connection.execute(user_connections.update().where(_COLUMNS.id == before.id).values(values))
        return True

    def seen(self, id_: str) -> None:
        """Record that the account was looked at."""
        self._stamp(id_, "checked_at")

    def cleaned(self, id_: str) -> None:
        """Record that nothing is left at the vendor."""
        self._stamp(id_, "cleaned_at")

    def drop(self, id_: str) -> None:
        """Delete a connection that has ended."""
        with self._database.writing() as connection:
            connection.execute(user_connections.delete().where(_COLUMNS.id == id_, _has_ended()))

    def disconnect(self, user_id: UserId, service: str) -> tuple[Connection, ...]:
        """End all connections of a user to a service: their agent has no access from now on. Returns them."""
        with self._database.writing() as connection:
            values = {
                "state": ConnectionState.REVOKING.value,
                "changed_at": self._database.now(connection),
                "callback_hash": None,
                "detail": "",
            }
            is_it = sa.and_(
                _COLUMNS.user_id == user_id,
                _COLUMNS.service == service,
                _COLUMNS.state != ConnectionState.REVOKING.value,
            )
            rows = connection.execute(user_connections.update().where(is_it).values(values).returning(*_COLUMNS)).all()
        return tuple(map(connection_of, rows))

    def of_user(self, user_id: UserId) -> tuple[Connection, ...]:
        """The connections of a user's agents, oldest first."""
        return self._list(_COLUMNS.user_id == user_id)

    def of_instance(self, instance_id: InstanceId) -> tuple[Connection, ...]:
        """The connections of an agent in all states, oldest first."""
        return self._list(_COLUMNS.instance_id == instance_id)

    def get(self, id_: str) -> Connection | None:
        """One connection; ``None`` where it is not there any more."""
        listed = self._list(_COLUMNS.id == id_)
        return listed[0] if listed else None

    def due(self, pace: Pace, *, limit: int) -> tuple[tuple[Connection, bool], ...]:
        """Connections that may need a step, those that wait longest first; each with whether its agent is there."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            columns = (*_COLUMNS, LIVING.label("has_agent"))
            joined = user_connections.join(hermes_instances, hermes_instances.c.id == _COLUMNS.instance_id)
            query = sa.select(*columns).select_from(joined).where(_is_due(now, pace))
            query = query.order_by(_COLUMNS.checked_at.nulls_first(), _COLUMNS.changed_at).limit(limit)
            rows = connection.execute(query).all()
        return tuple((connection_of(row), bool(row.has_agent)) for row in rows)

    def linked_services(self) -> Mapping[InstanceId, tuple[str, ...]]:
        """Linked services, in order, by agents that are not terminated."""
        joined = user_connections.join(hermes_instances, hermes_instances.c.id == _COLUMNS.instance_id)
        query = sa.select(_COLUMNS.instance_id, _COLUMNS.service).select_from(joined)
        query = query.where(_COLUMNS.state == ConnectionState.LINKED.value, LIVING).order_by(_COLUMNS.service)
        services: dict[InstanceId, tuple[str, ...]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(query):
                agent = InstanceId(row.instance_id)
                services[agent] = (*services.get(agent, ()), row.service)
        return services

    def counts(self) -> Mapping[ConnectionState, int]:
        """Count the connections of all agents by state."""
        query = sa.select(_COLUMNS.state, sa.func.count().label("number")).group_by(_COLUMNS.state)
        with self._database.reading() as connection:
            return {ConnectionState(row.state): int(row.number) for row in connection.execute(query)}

    def _stamp(self, id_: str, column: str) -> None:
        with self._database.writing() as connection:
            values = {column: self._database.now(connection), "checked_at": self._database.now(connection)}
            connection.execute(user_connections.update().where(_COLUMNS.id == id_).values(values))

    def _update(self, is_it: sa.ColumnElement[bool], values: Mapping[str, object]) -> bool:
        with self._database.writing() as connection:
            changing = user_connections.update().where(is_it).values(dict(values)).returning(_COLUMNS.id)
            return connection.execute(changing).first() is not None

    def _list(self, is_it: sa.ColumnElement[bool]) -> tuple[Connection, ...]:
        query = sa.select(user_connections).where(is_it).order_by(_COLUMNS.created_at, _COLUMNS.id)
        with self._database.reading() as connection:
            return tuple(map(connection_of, connection.execute(query).all()))


MOST_UNCLEANED = 30
"""Connections of a user that have ended and are not cleaned up; each costs a call of the vendor's API."""


def digest(secret: str) -> str:
    """What a row has in the place of a secret. Pure."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _has_ended() -> sa.ColumnElement[bool]:
    return _COLUMNS.state.in_([state.value for state in ENDED])


def _is_due(now: datetime, pace: Pace) -> sa.ColumnElement[bool]:
    def rested(life: timedelta) -> sa.ColumnElement[bool]:
        return sa.or_(_COLUMNS.checked_at.is_(None), _COLUMNS.checked_at < now - life)

    def of(*states: ConnectionState) -> sa.ColumnElement[bool]:
        return _COLUMNS.state.in_([state.value for state in states])

    has_ended_agent = sa.not_(LIVING)
    return sa.or_(
        sa.and_(of(ConnectionState.LINKED, ConnectionState.EXPIRED), sa.or_(rested(pace.checked), has_ended_agent)),
        sa.and_(of(ConnectionState.REQUESTED), sa.or_(_COLUMNS.link_expires_at < now, has_ended_agent)),
        sa.and_(of(ConnectionState.CONFIRMED, ConnectionState.REVOKING), rested(pace.again)),
        sa.and_(of(ConnectionState.FAILED), _COLUMNS.cleaned_at.is_(None), rested(pace.again)),
        sa.and_(of(ConnectionState.FAILED), sa.or_(_COLUMNS.changed_at < now - pace.kept, has_ended_agent)),
    )


def _replace(
    connection: sa.Connection,
    instance_id: InstanceId,
    service: str,
    states: Collection[ConnectionState],
    now: datetime,
    condition: sa.ColumnElement[bool] | None = None,
) -> None:
    is_older = sa.and_(
        _COLUMNS.instance_id == instance_id,
        _COLUMNS.service == service,
        _COLUMNS.state.in_([state.value for state in states]),
        *(() if condition is None else (condition,)),
    )
    values = {"state": ConnectionState.REVOKING.value, "changed_at": now, "callback_hash": None, "detail": ""}
    connection.execute(user_connections.update().where(is_older).values(values))


def connection_of(row: sa.Row[Any]) -> Connection:
    """A connection of its row. Pure."""
    return Connection(
        id=row.id,
        user_id=UserId(row.user_id),
        instance_id=InstanceId(row.instance_id),
        service=row.service,
        state=ConnectionState(row.state),
        account=row.account,
        session=row.session,
        created_at=row.created_at,
        changed_at=row.changed_at,
        link_expires_at=row.link_expires_at,
        linked_at=row.linked_at,
        checked_at=row.checked_at,
        cleaned_at=row.cleaned_at,
        detail=row.detail,
    )
