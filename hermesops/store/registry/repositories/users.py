"""Rows of ``users``: ids and aliases."""

from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet.user import User, parse_user
from hermesops.model.ids import UserId
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import users


class UserRepository(Repository):
    """Users by id and by alias."""

    def resolve(self, text: str, *, create: bool = False) -> User:
        """The user with that UUID or alias; ``create`` makes the row if missing, safely from two processes.

        Raises:
            UsageError: It is neither, or there is no such user.
        """
        requested = parse_user(text)
        with self._database.reading() as connection:
            user = _find(connection, requested)
        if user:
            return user
        if not create:
            raise unknown_name("user", text)
        with self._database.writing() as connection:
            values = {
                "id": requested.id,
                "alias": requested.alias or None,
                "created_at": self._database.now(connection),
            }
            if insert_if_absent(connection, users, values):
                self._note(connection, "user_created", f"user/{requested.id}", after={"alias": requested.alias})
            return _find(connection, requested) or requested

    def list(self) -> tuple[User, ...]:
        """Every user, by alias and id."""
        return tuple(map(_user, self._rows(sa.select(users).order_by(users.c.alias, users.c.id))))


def _find(connection: sa.Connection, requested: User) -> User | None:
    is_it = users.c.alias == requested.alias if requested.alias else users.c.id == requested.id
    row = connection.execute(sa.select(users).where(is_it)).one_or_none()
    return _user(row) if row else None


def _user(row: sa.Row[Any]) -> User:
    return User(UserId(row.id), row.alias or "")
