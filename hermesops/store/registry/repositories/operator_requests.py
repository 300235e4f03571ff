"""Rows of ``operator_requests``: the served console adds and reads them, workers decide them."""

import json
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.model.access.operator_request import (
    PREVIEW_STAYS,
    ROW_STAYS,
    NewOperatorRequest,
    OperatorOutcome,
    OperatorRequest,
    OperatorRequestState,
)
from hermesops.model.ids import OperationId
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import Repository, lock_rows
from hermesops.store.registry.schema.operator_tables import operator_requests

MOST_QUEUED = 100
"""Requests that no worker has decided; a further one is not taken."""

MOST_EACH = 10
"""Of those, of one operator."""

_COLUMNS = operator_requests.c
_QUEUED = _COLUMNS.state == OperatorRequestState.QUEUED.value
_AT_ONCE = 50
_INSTANCES = "instances"


class OperatorRequestRepository(Repository):
    """Requests of operators, as workers see them."""

    def due(self) -> tuple[OperatorRequest, ...]:
        """Requests that no worker has decided, the oldest first, up to 50."""
        query = sa.select(operator_requests).where(_QUEUED).order_by(_COLUMNS.created_at, _COLUMNS.id)
        return tuple(map(request_of, self._rows(query.limit(_AT_ONCE))))

    def get(self, request_id: str) -> OperatorRequest | None:
        """A request; ``None`` where its row is gone."""
        row = self._row(sa.select(operator_requests).where(_COLUMNS.id == request_id))
        return request_of(row) if row else None

    def decide(self, request: OperatorRequest, outcome: OperatorOutcome) -> bool:
        """Record the decision about a request and drop its proof; whether it was queued.

        An audit entry records each decision but previews.
        """
        with self._database.writing() as connection:
            values: dict[str, Any] = {
                "state": outcome.state.value,
                "detail": outcome.detail,
                "answer": outcome.answer,
                "code": outcome.code,
                "operation_id": outcome.operation_id,
                "proof": None,
                "decided_at": self._database.now(connection),
            }
            is_it = sa.and_(_COLUMNS.id == request.id, _QUEUED)
            changed = connection.execute(operator_requests.update().where(is_it).values(values).returning(_COLUMNS.id))
            if changed.first() is None:
                return False
            if not request.is_preview:
                self._note_decision(connection, request, outcome)
        return True

    def _note_decision(self, connection: sa.Connection, request: OperatorRequest, outcome: OperatorOutcome) -> None:
        after: dict[str, object] = {"request": request.id, "action": request.action, "state": outcome.state.value}
        if outcome.operation_id:
            after["operation"] = outcome.operation_id
        why = outcome.detail or request.reason
        self._note(connection, "operator_request_decided", request.audit_subject, after=after, why=why)

    def count_old(self) -> int:
        """The number of rows that ``forget`` would drop."""
        with self._database.reading() as connection:
            query = sa.select(sa.func.count()).select_from(operator_requests).where(self._is_old(connection))
            return int(connection.execute(query).scalar_one())

    def forget(self) -> None:
        """Drop rows of old previews, and of requests that were decided long ago."""
        with self._database.writing() as connection:
            connection.execute(operator_requests.delete().where(self._is_old(connection)))

    def _is_old(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        now = self._database.now(connection)
        is_old_preview = sa.and_(_COLUMNS.is_preview, _COLUMNS.decided_at < now - PREVIEW_STAYS)
        return sa.or_(is_old_preview, _COLUMNS.decided_at < now - ROW_STAYS)


class OperatorRequestRows:
    """Requests of operators, as the served console adds and reads them; its role of the database may do no more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewOperatorRequest) -> str | None:
        """Add a request; returns its id, ``None`` where there are too many that nobody has decided."""
        id_ = str(uuid4())
        with self._database.writing() as connection:
            lock_rows(self._database, connection, operator_requests, "all operators")
            queued = sa.select(sa.func.count()).select_from(operator_requests).where(_QUEUED)
            of_operator = queued.where(_COLUMNS.operator == new.operator)
            if (
                connection.execute(queued).scalar_one() >= MOST_QUEUED
                or connection.execute(of_operator).scalar_one() >= MOST_EACH
            ):
                return None
            values = {
                **vars(new),
                "id": id_,
                "form": json.dumps(dict(new.form), ensure_ascii=False),  # escapes would not fit the column
                "instance_id": new.subject if new.about == _INSTANCES else None,
                "state": OperatorRequestState.QUEUED.value,
                "created_at": self._database.now(connection),
            }
            connection.execute(operator_requests.insert().values(values))
        return id_

    def get(self, request_id: str) -> OperatorRequest | None:
        """A request without its proof; ``None`` where its row is gone."""
        columns = [column for column in _COLUMNS if column.name != _COLUMNS.proof.name]
        with self._database.reading() as connection:
            row = connection.execute(sa.select(*columns).where(_COLUMNS.id == request_id)).one_or_none()
        return request_of(row) if row else None


def request_of(row: sa.Row[Any]) -> OperatorRequest:
    """A row of ``operator_requests`` as a value."""
    return OperatorRequest(
        id=row.id,
        operator=row.operator,
        action=row.action,
        about=row.about,
        subject=row.subject,
        form=row.form,
        is_preview=row.is_preview,
        reason=row.reason,
        state=OperatorRequestState(row.state),
        created_at=row.created_at,
        proof=getattr(row, "proof", None) or "",
        detail=row.detail,
        answer=row.answer,
        code=row.code,
        operation_id=OperationId(row.operation_id) if row.operation_id else None,
    )
