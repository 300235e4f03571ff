"""Rows of calling agents as workers and operators see them: changes of their keys, and counts; never a key."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.user_request import actor_of
from hermesops.model.chat.caller import MOST_TRIES, CallerRecord, CallerState, NotifiedCallers
from hermesops.model.chat.turn import TurnState
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.audit.log import acting_as
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.calling_tables import agent_callers, called_tasks, task_pushes
from hermesops.store.registry.schema.tables import LIVING, hermes_instances
from hermesops.store.registry.schema.user_tables import turns

_COLUMNS = agent_callers.c
_MADE, _REVOKED = "made", "revoked"
_IS_NEW = _COLUMNS.recorded == ""
_IS_ENDED = sa.and_(_COLUMNS.revoked_at.is_not(None), _COLUMNS.recorded != _REVOKED)
_BATCH = 100

_TRIED = 3
"""Tries after which a notification counts as undelivered: over half a minute."""

_LATELY = timedelta(minutes=15)


class CallerRepository(Repository):
    """Agents that users let call theirs. The users' API writes them, and has no right on the audit log."""

    def unrecorded(self) -> int:
        """Number of callers of which the audit log lacks a change."""
        query = sa.select(sa.func.count()).select_from(agent_callers).where(sa.or_(_IS_NEW, _IS_ENDED))
        with self._database.reading() as connection:
            return int(connection.scalar(query) or 0)

    def record(self) -> int:
        """Append an audit entry for each key that was made or revoked, as its user; returns their number."""
        with self._database.writing() as connection:
            query = sa.select(agent_callers).where(sa.or_(_IS_NEW, _IS_ENDED)).order_by(_COLUMNS.created_at)
            rows = connection.execute(query.limit(_BATCH).with_for_update()).all()
            for row in rows:
                states = [_MADE] if not row.recorded else []
                states += [_REVOKED] if row.revoked_at is not None else []
                with acting_as(actor_of(UserId(row.user_id))):
                    for state in states:
                        self._note_change(connection, row, state)
                change = agent_callers.update().where(_COLUMNS.id == row.id).values(recorded=states[-1])
                connection.execute(change)
        return len(rows)

    def list(self, *, user_id: UserId | None = None, limit: int = 50) -> tuple[CallerRecord, ...]:
        """Callers, the newest first.

        Args:
            user_id: Only of this user; ``None`` for all.
        """
        with self._database.reading() as connection:
            query = _query(self._database.now(connection))
            if user_id is not None:
                query = query.where(_COLUMNS.user_id == user_id)
            rows = connection.execute(query.order_by(_COLUMNS.created_at.desc(), _COLUMNS.id).limit(limit)).all()
        return tuple(map(_record, rows))

    def get(self, caller_id: str) -> CallerRecord | None:
        """Find a caller by its id."""
        with self._database.reading() as connection:
            query = _query(self._database.now(connection)).where(_COLUMNS.id == caller_id)
            row = connection.execute(query).one_or_none()
        return _record(row) if row else None

    def revoke(self, caller_id: str, *, why: str) -> bool:
        """End a caller's key, with an audit entry of the operator; whether it was not revoked before."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id == caller_id, _COLUMNS.revoked_at.is_(None))
            row = connection.execute(sa.select(agent_callers).where(is_it).with_for_update()).one_or_none()
            if row is None:
                return False
            if not row.recorded:
                with acting_as(actor_of(UserId(row.user_id))):
                    self._note_change(connection, row, _MADE)
            self._note_change(connection, row, _REVOKED, why=why)
            values = {"revoked_at": self._database.now(connection), "recorded": _REVOKED}
            connection.execute(agent_callers.update().where(is_it).values(values))
        return True

    def notified(self) -> NotifiedCallers:
        """Callers by what became of notifications of their tasks, in the last quarter of an hour."""
        pushes, callers = task_pushes.c, called_tasks.c.caller_id
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_sent = sa.and_(pushes.ended_at >= now - _LATELY, pushes.sent != "", pushes.tries == 0)
            names = {"delivered": is_sent, "undelivered": _is_undelivered(now)}
            counts = [sa.func.count(sa.case((is_it, callers)).distinct()).label(name) for name, is_it in names.items()]
            joined = task_pushes.join(called_tasks, called_tasks.c.turn_id == pushes.turn_id)
            row = connection.execute(sa.select(*counts).select_from(joined)).one()
        return NotifiedCallers(row.delivered, row.undelivered)

    def _note_change(self, connection: sa.Connection, row: sa.Row[Any], state: str, *, why: str = "") -> None:
        after = {"caller": row.id, "may_approve": row.may_approve}
        self._note(connection, f"caller_{state}", f"instance/{row.instance_id}", after=after, why=why)


def _is_undelivered(now: datetime) -> sa.ColumnElement[bool]:
    columns = task_pushes.c
    is_waiting = sa.and_(columns.ended_at.is_(None), columns.tries >= _TRIED)
    return sa.or_(is_waiting, sa.and_(columns.ended_at >= now - _LATELY, columns.tries >= MOST_TRIES))


def _query(now: datetime) -> sa.Select[Any]:
    """Callers with the state of their agents, and counts of their tasks and notifications."""
    of_caller = called_tasks.c.caller_id == _COLUMNS.id
    tasks = called_tasks.join(turns, turns.c.id == called_tasks.c.turn_id)
    pushes = called_tasks.join(task_pushes, task_pushes.c.turn_id == called_tasks.c.turn_id)

    def count(joined: sa.Join, *is_it: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
        counting = sa.select(sa.func.count()).select_from(joined).where(of_caller, *is_it)
        return counting.correlate(agent_callers).scalar_subquery()

    return sa.select(
        agent_callers,
        LIVING.label("is_living"),
        count(tasks).label("tasks"),
        count(tasks, turns.c.ended_at.is_(None)).label("open_tasks"),
        count(tasks, turns.c.state == TurnState.FAILED.value).label("failed_tasks"),
        count(pushes, _is_undelivered(now)).label("undelivered"),
    ).select_from(agent_callers.join(hermes_instances, hermes_instances.c.id == _COLUMNS.instance_id))


def _record(row: sa.Row[Any]) -> CallerRecord:
    living = CallerState.LIVE if row.is_living else CallerState.ENDED
    return CallerRecord(
        id=row.id,
        user_id=UserId(row.user_id),
        instance_id=InstanceId(row.instance_id),
        state=living if row.revoked_at is None else CallerState.REVOKED,
        may_approve=bool(row.may_approve),
        created_at=row.created_at,
        used_at=row.used_at,
        revoked_at=row.revoked_at,
        tasks=row.tasks,
        open_tasks=row.open_tasks,
        failed_tasks=row.failed_tasks,
        undelivered=row.undelivered,
    )
