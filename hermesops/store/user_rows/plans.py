"""Rows of ``user_plans``: statements of users' subscriptions, as workers last read them at Stripe."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from hermesops.errors import RefusedError
from hermesops.model.billing.statement import Statement
from hermesops.model.ids import UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema.user_tables import user_plans

_COLUMNS = user_plans.c
_STATEMENT = TypeAdapter(Statement)


@dataclass(frozen=True)
class UserPlan:
    """A statement with the time at which it was read."""

    statement: Statement
    read_at: datetime


class UserPlans:
    """Statements of users' subscriptions.

    Args:
        messages: The key ring that seals them: descriptions of lines may name a person.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def get(self, user_id: UserId) -> UserPlan | None:
        """A user's statement; ``None`` where none was read, or the key that sealed it is gone."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(user_plans).where(_COLUMNS.user_id == user_id)).one_or_none()
        if row is None:
            return None
        try:
            text = self._messages.unseal(row.statement, place=_place(user_id))
            return UserPlan(_STATEMENT.validate_json(text), row.read_at)
        except (RefusedError, ValidationError):
            return None

    def put(self, user_id: UserId, statement: Statement, read_at: datetime) -> None:
        """Replace a user's statement.

        Args:
            read_at: By the database's clock, before Stripe was asked: a later event makes it due again.
        """
        sealed = self._messages.seal(_STATEMENT.dump_json(statement).decode(), place=_place(user_id))
        values = {"user_id": user_id, "statement": sealed, "read_at": read_at}
        with self._database.writing() as connection:
            insert_or_update(connection, user_plans, values)


def _place(user_id: UserId) -> str:
    return place(user_plans.name, "statement", user_id)
