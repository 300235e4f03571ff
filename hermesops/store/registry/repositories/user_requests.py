"""Rows of ``user_requests`` as workers and operators see them; their content stays sealed."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.user_request import BODY_STAYS, ENDED, ROW_STAYS, RequestKind, RequestState, UserRequest
from hermesops.model.ids import OperationId, UserId
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.user_tables import user_requests

_COLUMNS = user_requests.c
_DETAIL = 500
_OPEN = _COLUMNS.ended_at.is_(None)
_KNOWN = _COLUMNS.kind.in_([kind.value for kind in RequestKind])


@dataclass(frozen=True)
class RequestOutcome:
    """New state of a request.

    Attributes:
        answer: Its content, sealed; ``None`` leaves the one before.
        pause: Time to the next look; ``None`` for an ended request.
        is_failed_try: Whether nothing could be decided, so that the next look comes later each time.
    """

    state: RequestState
    detail: str = ""
    code: str = ""
    answer: str | None = None
    operation_id: OperationId | None = None
    pause: timedelta | None = None
    is_failed_try: bool = False


class UserRequestRepository(Repository):
    """Requests of users, from their receipt to their end."""

    def due_users(self, *, limit: int = 500) -> tuple[UserId, ...]:
        """Users with a request that is to be looked at now, of a kind that is known here."""
        with self._database.reading() as connection:
            query = sa.select(_COLUMNS.user_id).where(self._is_due(connection)).distinct()
            return tuple(UserId(id_) for id_ in connection.scalars(query.order_by(_COLUMNS.user_id).limit(limit)))

    def due(self, user_id: UserId) -> tuple[UserRequest, ...]:
        """A user's requests that are to be looked at now, the oldest first."""
        with self._database.reading() as connection:
            query = sa.select(user_requests).where(self._is_due(connection), _COLUMNS.user_id == user_id)
            rows = connection.execute(query.order_by(_COLUMNS.created_at, _COLUMNS.id)).all()
        return tuple(map(request_of, rows))

    def _is_due(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        now = self._database.now(connection)
        return sa.and_(_OPEN, _KNOWN, sa.or_(_COLUMNS.due_at.is_(None), _COLUMNS.due_at <= now))

    def list(
        self, *, user_id: UserId | None = None, state: RequestState | None = None, limit: int = 1000
    ) -> tuple[UserRequest, ...]:
        """Requests of a user or in a state, newest first, up to ``limit``."""
        query = sa.select(user_requests).order_by(_COLUMNS.created_at.desc(), _COLUMNS.id).limit(limit)
        if user_id:
            query = query.where(_COLUMNS.user_id == user_id)
        if state:
            query = query.where(_COLUMNS.state == state.value)
        return tuple(map(request_of, self._rows(query)))

    def open_of(self, user_id: UserId, kind: RequestKind) -> tuple[UserRequest, ...]:
        """A user's requests of a kind that have not ended, the oldest first."""
        is_it = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.kind == kind.value, _OPEN)
        query = sa.select(user_requests).where(is_it).order_by(_COLUMNS.created_at, _COLUMNS.id)
        return tuple(map(request_of, self._rows(query)))

    def decide(self, request: UserRequest, outcome: RequestOutcome) -> bool:
        """Record the outcome of a look at a request; whether it was open. An ended request is not changed.

        An audit entry records each new state.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            values: dict[str, Any] = {
                "state": outcome.state.value,
                "detail": outcome.detail[:_DETAIL],
                "code": outcome.code,
                "decided_at": now,
                "due_at": now + outcome.pause if outcome.pause else None,
                "ended_at": now if outcome.state in ENDED else None,
                "tries": _COLUMNS.tries + 1 if outcome.is_failed_try else 0,
            }
            if outcome.state in ENDED and request.kind == RequestKind.SETTINGS:
                values |= {"body": None, "answer": None}  # the user's key for a model provider, and a digest of it
            elif outcome.answer is not None:
                values["answer"] = outcome.answer
            if outcome.operation_id is not None:
                values["operation_id"] = outcome.operation_id
            is_it = sa.and_(_COLUMNS.id == request.id, _OPEN)
            changed = connection.execute(user_requests.update().where(is_it).values(values).returning(_COLUMNS.id))
            if changed.first() is None:
                return False
            if outcome.state is not request.state:
                self._note_state(connection, request, outcome)
        return True

    def _note_state(self, connection: sa.Connection, request: UserRequest, outcome: RequestOutcome) -> None:
        after: dict[str, object] = {"request": request.id, "kind": request.kind, "state": outcome.state.value}
        if operation := outcome.operation_id or request.operation_id:
            after["operation"] = operation
        before = {"state": request.state.value}
        subject = f"user/{request.user_id}"
        self._note(connection, "user_request_decided", subject, before=before, after=after, why=outcome.code)

    def count_old(self) -> int:
        """The number of requests of which ``forget`` would drop something."""
        with self._database.reading() as connection:
            is_old = sa.or_(*self._old(connection))
            return int(connection.execute(sa.select(sa.func.count()).where(is_old)).scalar_one())

    def forget(self) -> None:
        """Drop the content of requests that ended a day ago, and rows of those that ended long ago."""
        with self._database.writing() as connection:
            has_old_content, is_old = self._old(connection)
            connection.execute(user_requests.delete().where(is_old))
            emptied = user_requests.update().where(has_old_content)
            connection.execute(emptied.values(body=None, answer=None))

    def _old(self, connection: sa.Connection) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
        now = self._database.now(connection)
        has_content = sa.or_(_COLUMNS.body.is_not(None), _COLUMNS.answer.is_not(None))
        return sa.and_(_COLUMNS.ended_at < now - BODY_STAYS, has_content), _COLUMNS.ended_at < now - ROW_STAYS


def request_of(row: sa.Row[Any]) -> UserRequest:
    """A row of ``user_requests`` as a value."""
    return UserRequest(
        id=row.id,
        user_id=UserId(row.user_id),
        kind=row.kind,
        client_key=row.client_key,
        state=RequestState(row.state),
        created_at=row.created_at,
        body=row.body or "",
        answer=row.answer or "",
        code=row.code,
        detail=row.detail,
        operation_id=OperationId(row.operation_id) if row.operation_id else None,
        due_at=row.due_at,
        decided_at=row.decided_at,
        ended_at=row.ended_at,
        tries=row.tries,
    )
