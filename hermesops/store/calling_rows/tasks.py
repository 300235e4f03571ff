"""Rows of ``called_tasks``: turns that agents began, each found by its caller alone."""

from datetime import datetime

import sqlalchemy as sa

from hermesops.model.chat.caller import CalledTask
from hermesops.model.chat.turn import TurnState
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.calling_tables import called_tasks
from hermesops.store.registry.schema.user_tables import turns

_COLUMNS = called_tasks.c


class CalledTasks:
    """Tasks of calling agents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, caller_id: str, turn_id: str) -> CalledTask | None:
        """Find a task of this caller; ``None`` also for another one's, and for a turn of the user's own."""
        query = sa.select(called_tasks).where(_COLUMNS.turn_id == turn_id, _COLUMNS.caller_id == caller_id)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return CalledTask(row.caller_id, row.context, row.message_id) if row else None

    def list(
        self,
        caller_id: str,
        *,
        context: str = "",
        states: frozenset[TurnState] | None = None,
        since: datetime | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[tuple[tuple[str, CalledTask], ...], int]:
        """A caller's tasks by the ids of their turns, the newest first, and the number of all.

        Args:
            context: Only tasks of this context; empty for all.
            states: Only tasks whose turn is in one of these states; ``None`` for all.
            since: Only tasks whose state is of this moment or later; ``None`` for all.
        """
        is_it = [_COLUMNS.caller_id == caller_id]
        if context:
            is_it.append(_COLUMNS.context == context)
        if states is not None:
            is_it.append(turns.c.state.in_(sorted(state.value for state in states)))
        if since is not None:
            is_it.append(sa.func.coalesce(turns.c.ended_at, turns.c.sent_at, turns.c.created_at) >= since)
        joined = called_tasks.join(turns, turns.c.id == _COLUMNS.turn_id)
        query = sa.select(called_tasks).select_from(joined).where(*is_it)
        counting = sa.select(sa.func.count()).select_from(joined).where(*is_it)
        with self._database.reading() as connection:
            rows = connection.execute(
                query.order_by(turns.c.created_at.desc(), _COLUMNS.turn_id).offset(offset).limit(limit)
            ).all()
            count = connection.scalar(counting) or 0
        return tuple((row.turn_id, CalledTask(row.caller_id, row.context, row.message_id)) for row in rows), int(count)
