"""Rows of ``proxy_tokens``: the tokens in use, so that not every command creates new ones.

A token is root on its machine: it is stored in these rows only, encrypted.
"""

from typing import Any

import sqlalchemy as sa

from hermesops.model.access.token import KeptToken, ProxyToken, former_of, next_of
from hermesops.model.ids import MachineId
from hermesops.store.registry.encryption.sealing import place
from hermesops.store.registry.repositories.base import Repository, insert_or_update
from hermesops.store.registry.schema.tables import proxy_tokens


class ProxyTokenRepository(Repository):
    """Rows of ``proxy_tokens``: one encrypted token per machine and purpose."""

    def get(self, machine_id: MachineId, purpose: str) -> ProxyToken | None:
        """The stored token, expired or not."""
        row = self._row(sa.select(proxy_tokens).where(*_is(machine_id, purpose)))
        return self._opened(row) if row else None

    def keep(self, token: ProxyToken) -> None:
        """Store a token in place of the one before."""
        with self._database.writing() as connection:
            self._keep(connection, token, token.purpose)

    def keep_next(self, token: ProxyToken) -> None:
        """Store a token that is not in use yet, so that it can be revoked after a crash."""
        with self._database.writing() as connection:
            self._keep(connection, token, next_of(token.purpose))

    def replace(self, fresh: ProxyToken, *, before: str) -> bool:
        """Put ``fresh`` in place of the token with the id ``before`` (empty for none), which is kept until revoked.

        Returns:
            ``False`` when another token took its place in the meantime; nothing is changed then.
        """
        with self._database.writing() as connection:
            now = sa.select(proxy_tokens).where(*_is(fresh.machine_id, fresh.purpose)).with_for_update()
            row = connection.execute(now).one_or_none()
            if (row.token_id if row else "") != before:
                return False
            if row:
                self._keep(connection, self._opened(row), former_of(fresh.purpose))
            self._keep(connection, fresh, fresh.purpose)
            was_next = (*_is(fresh.machine_id, next_of(fresh.purpose)), proxy_tokens.c.token_id == fresh.id)
            connection.execute(proxy_tokens.delete().where(*was_next))
            return True

    def _opened(self, row: sa.Row[Any]) -> ProxyToken:
        token = self._context.sealer.unseal(row.token, place=_place(row.machine_id, row.purpose))
        return ProxyToken(row.token_id, MachineId(row.machine_id), row.purpose, row.expires_at, token, row.address)

    def _keep(self, connection: sa.Connection, token: ProxyToken, purpose: str) -> None:
        values = {
            "machine_id": token.machine_id,
            "purpose": purpose,
            "token_id": token.id,
            "token": self._seal_in(connection, token.token, _place(token.machine_id, purpose)),
            "expires_at": token.expires_at,
            "address": token.address,
        }
        insert_or_update(connection, proxy_tokens, values)

    def forget(self, machine_id: MachineId, purpose: str, *, token_id: str = "") -> None:
        """Delete a token, if any; with ``token_id``, only that one."""
        which = [*_is(machine_id, purpose), *([proxy_tokens.c.token_id == token_id] if token_id else ())]
        with self._database.writing() as connection:
            connection.execute(proxy_tokens.delete().where(*which))

    def kept(self) -> tuple[KeptToken, ...]:
        """Every stored token, without its secret."""
        columns = proxy_tokens.c
        query = sa.select(columns.token_id, columns.machine_id, columns.purpose, columns.expires_at)
        return tuple(KeptToken(*row) for row in self._rows(query.order_by(columns.machine_id, columns.purpose)))


def _is(machine_id: MachineId, purpose: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (proxy_tokens.c.machine_id == machine_id, proxy_tokens.c.purpose == purpose)


def _place(machine_id: MachineId, purpose: str) -> str:
    return place("proxy_tokens", "token", f"{machine_id}/{purpose}")
