"""Rows of ``users``: ids and aliases."""

from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import UserId
from hermesops.model.unknown_name import unknown_name
from hermesops.model.user import User, parse_user
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import users


class UserRepository(Repository):
    """Users by id and by alias."""

    def resolve(self, text: str, *, create: bool = False) -> User:
        """The user with that UUID or alias; ``create`` makes the row if missing, safely from two processes.

        Raises:
            UsageError: It is neither, or there is no such user.
        """
        wanted = parse_user(text)
        with self._database.reading() as connection:
            found = _find(connection, wanted)
        if found:
            return found
        if not create:
            raise unknown_name("user", text)
        with self._database.writing() as connection:
            values = {"id": wanted.id, "alias": wanted.alias or None, "created_at": self._database.now(connection)}
            if insert_if_absent(connection, users, values):
                self._note(connection, "user_created", f"user/{wanted.id}", after={"alias": wanted.alias})
            return _find(connection, wanted) or wanted

    def list(self) -> tuple[User, ...]:
        """Every user, by alias and id."""
        return tuple(map(_user, self._rows(sa.select(users).order_by(users.c.alias, users.c.id))))


def _find(connection: sa.Connection, wanted: User) -> User | None:
    is_it = users.c.alias == wanted.alias if wanted.alias else users.c.id == wanted.id
    row = connection.execute(sa.select(users).where(is_it)).one_or_none()
    return _user(row) if row else None


def _user(row: sa.Row[Any]) -> User:
    return User(UserId(row.id), row.alias or "")
