"""Rows of ``user_requests``: what users ask for and only workers may do. The users' API adds and reads them."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.billing.user_request import RequestKind, RequestState, UserRequest
from hermesops.model.ids import UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent, lock_rows
from hermesops.store.registry.repositories.user_requests import request_of
from hermesops.store.registry.schema.user_tables import user_requests

MOST_OPEN = 20
"""Requests of a user that have not ended; a further one is not taken."""

_COLUMNS = user_requests.c
_OPEN = _COLUMNS.ended_at.is_(None)


class UserRequests:
    """Users' requests.

    Args:
        messages: The key ring that seals what users say.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(
        self, user_id: UserId, kind: RequestKind, client_key: str, body: Mapping[str, object]
    ) -> UserRequest | None:
        """Add a request, or return the one that the client added with the same key; ``None`` for too many open ones.

        Raises:
            RefusedError: That one is of another kind.
        """
        id_ = str(uuid4())
        sealed = self._messages.seal(json.dumps(body), place=_place("body", id_))
        with self._database.writing() as connection:
            lock_rows(self._database, connection, user_requests, user_id)
            count = sa.select(sa.func.count()).where(_COLUMNS.user_id == user_id, _OPEN)
            is_known = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.client_key == client_key)
            known = connection.execute(sa.select(user_requests).where(is_known)).one_or_none()
            if known is None and connection.execute(count).scalar_one() >= MOST_OPEN:
                return None
            values = {
                "id": id_,
                "user_id": user_id,
                "kind": kind.value,
                "client_key": client_key,
                "body": sealed,
                "state": RequestState.QUEUED.value,
                "created_at": self._database.now(connection),
            }
            insert_if_absent(connection, user_requests, values)
            row = connection.execute(sa.select(user_requests).where(is_known)).one()
        if row.kind != kind.value:
            raise RefusedError("this key names another request of yours")
        return request_of(row)

    def get(self, user_id: UserId, request_id: str) -> UserRequest | None:
        """Find a request of this user; ``None`` also for another user's."""
        query = sa.select(user_requests).where(_COLUMNS.id == request_id, _COLUMNS.user_id == user_id)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return request_of(row) if row else None

    def newest(self, user_id: UserId, kind: RequestKind) -> UserRequest | None:
        """The last request of a kind; ``None`` where there was none."""
        query = sa.select(user_requests).where(_COLUMNS.user_id == user_id, _COLUMNS.kind == kind.value)
        with self._database.reading() as connection:
            row = connection.execute(query.order_by(_COLUMNS.created_at.desc(), _COLUMNS.id).limit(1)).one_or_none()
        return request_of(row) if row else None

    def body(self, request: UserRequest) -> Mapping[str, Any]:
        """The parameters of a request; empty where they are dropped, or the key that sealed them is gone."""
        return self._opened("body", request.id, request.body)

    def answer(self, request: UserRequest) -> Mapping[str, Any]:
        """The content of a request's outcome; empty as above."""
        return self._opened("answer", request.id, request.answer)

    def seal_answer(self, request: UserRequest, answer: Mapping[str, object]) -> str:
        """Seal the content of an outcome for its row."""
        return self._messages.seal(json.dumps(answer), place=_place("answer", request.id))

    def _opened(self, column: str, id_: str, sealed: str) -> Mapping[str, Any]:
        if not sealed:
            return {}
        try:
            opened: Mapping[str, Any] = json.loads(self._messages.unseal(sealed, place=_place(column, id_)))
        except RefusedError:
            return {}
        return opened


def _place(column: str, id_: str) -> str:
    return place(user_requests.name, column, id_)
