"""Reads what operators see of the users' half: counts of requests, turns and connections, and nothing of a user's."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from hermesops.model.api_figures import OrphanedTurn, RequestFigures, ServiceConnections, UsersHalf
from hermesops.model.connections.connection import ConnectionState
from hermesops.model.connections.service import SERVICES
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.user_tables import api_figures, turns, user_connections

_FRESH = timedelta(minutes=1)
_MOST_PROCESSES = 64
_LARGEST = 1_000_000
"""Of a process's figure: a process that somebody else runs writes whatever they like."""

_ORPHANED_AFTER = timedelta(minutes=1)
"""From the end of a lease: another process takes a turn over within seconds."""

_RECENT = timedelta(days=1)
_MOST_TURNS = 100
_SERVICES = tuple(service.slug for service in SERVICES)


class UsersHalfRepository(Repository):
    """The state of the users' half for operators: counts and ids, no content."""

    def read(self) -> UsersHalf:
        """Processes, requests, orphaned turns and connections, all from one moment."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            processes, requests = _requests(connection, now)
            is_orphan = _orphaned(now)
            users = connection.scalar(sa.select(sa.func.count(turns.c.user_id.distinct())).where(is_orphan)) or 0
            return UsersHalf(processes, requests, _orphans(connection, is_orphan), users, _connections(connection, now))


def _requests(connection: sa.Connection, now: datetime) -> tuple[int, RequestFigures]:
    query = sa.select(api_figures).where(api_figures.c.written_at >= now - _FRESH)
    rows = connection.execute(query.order_by(api_figures.c.written_at.desc()).limit(_MOST_PROCESSES)).all()
    names = ("users", "slow_users", "webhooks_taken", "webhooks_refused")
    sums = {name: sum(min(max(getattr(row, name), 0), _LARGEST) for row in rows) for name in names}
    return len(rows), RequestFigures(**sums)


def _orphaned(now: datetime) -> sa.ColumnElement[bool]:
    columns, due = turns.c, now - _ORPHANED_AFTER
    return sa.and_(columns.ended_at.is_(None), sa.func.coalesce(columns.carried_until, columns.created_at) < due)


def _orphans(connection: sa.Connection, is_orphan: sa.ColumnElement[bool]) -> Sequence[OrphanedTurn]:
    columns = turns.c
    since = sa.func.coalesce(columns.carried_until, columns.created_at, type_=columns.created_at.type).label("since")
    query = sa.select(columns.id, columns.instance_id, columns.user_id, columns.state, since)
    rows = connection.execute(query.where(is_orphan).order_by(since).limit(_MOST_TURNS))
    return tuple(OrphanedTurn(row.id, row.instance_id, row.user_id, row.state, row.since) for row in rows)


def _connections(connection: sa.Connection, now: datetime) -> Sequence[ServiceConnections]:
    columns = user_connections.c
    is_linked = columns.state == ConnectionState.LINKED.value
    is_expired = sa.and_(columns.state == ConnectionState.EXPIRED.value, columns.changed_at >= now - _RECENT)
    query = (
        sa.select(
            columns.service,
            sa.func.count(sa.case((is_linked, columns.user_id)).distinct()).label("linked"),
            sa.func.count(sa.case((is_expired, columns.user_id)).distinct()).label("expired"),
        )
        .where(columns.service.in_(_SERVICES), sa.or_(is_linked, is_expired))
        .group_by(columns.service)
        .order_by(columns.service)
    )
    rows = connection.execute(query)
    return tuple(ServiceConnections(row.service, row.linked, row.expired) for row in rows)
