"""Rows of ``proxy_tokens``: the tokens in use, so that not every command mints new ones.

A token is root on its machine: it stands in these rows, encrypted, and nowhere else.
"""

import sqlalchemy as sa

from hermesops.model.ids import MachineId
from hermesops.model.token import KeptToken, ProxyToken, former_of, next_of
from hermesops.registry.encryption.sealing import place
from hermesops.registry.repositories.base import Repository, insert_or_update
from hermesops.registry.schema.tables import proxy_tokens


class ProxyTokenRepository(Repository):
    """One proxy token per machine and purpose, encrypted."""

    def get(self, machine_id: MachineId, purpose: str) -> ProxyToken | None:
        """The token last kept, expired or not."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(proxy_tokens).where(*_is(machine_id, purpose))).one_or_none()
        if row is None:
            return None
        token = self._context.sealer.unseal(row.token, place=_place(machine_id, purpose))
        return ProxyToken(row.token_id, machine_id, purpose, row.expires_at, token, row.address)

    def keep(self, token: ProxyToken) -> None:
        """Remember a token instead of the one before it."""
        with self._database.writing() as connection:
            self._keep(connection, token, token.purpose)

    def keep_next(self, token: ProxyToken) -> None:
        """Remember a token that is not in use yet, so that it can be found and revoked whatever happens next."""
        with self._database.writing() as connection:
            self._keep(connection, token, next_of(token.purpose))

    def replace(self, fresh: ProxyToken, *, before: str) -> bool:
        """Put a token in the place of the one before, which is remembered until it is revoked, in one transaction.

        Args:
            fresh: The new one.
            before: Id of the one that it replaces; empty for none.

        Returns:
            Whether it was; ``False`` when another was put there in the meantime.
        """
        with self._database.writing() as connection:
            now = sa.select(proxy_tokens).where(*_is(fresh.machine_id, fresh.purpose)).with_for_update()
            row = connection.execute(now).one_or_none()
            if (row.token_id if row else "") != before:
                return False
            if row:
                text = self._context.sealer.unseal(row.token, place=_place(fresh.machine_id, fresh.purpose))
                was = ProxyToken(row.token_id, fresh.machine_id, fresh.purpose, row.expires_at, text, row.address)
                self._keep(connection, was, former_of(fresh.purpose))
            self._keep(connection, fresh, fresh.purpose)
            made = (*_is(fresh.machine_id, next_of(fresh.purpose)), proxy_tokens.c.token_id == fresh.id)
            connection.execute(proxy_tokens.delete().where(*made))
            return True

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
        """Drop a token; harmless when there is none, or when it is another than the one named."""
        which = [*_is(machine_id, purpose), *([proxy_tokens.c.token_id == token_id] if token_id else ())]
        with self._database.writing() as connection:
            connection.execute(proxy_tokens.delete().where(*which))

    def kept(self) -> tuple[KeptToken, ...]:
        """Every token that is remembered, as far as it may be shown."""
        columns = proxy_tokens.c
        query = sa.select(columns.token_id, columns.machine_id, columns.purpose, columns.expires_at)
        with self._database.reading() as connection:
            found = connection.execute(query.order_by(columns.machine_id, columns.purpose))
            return tuple(KeptToken(id_, MachineId(of), purpose, until) for id_, of, purpose, until in found)

    def list(self, machine_id: MachineId) -> tuple[ProxyToken, ...]:
        """Every token kept for a machine."""
        with self._database.reading() as connection:
            purposes = connection.scalars(
                sa.select(proxy_tokens.c.purpose).where(proxy_tokens.c.machine_id == machine_id)
            ).all()
        found = (self.get(machine_id, purpose) for purpose in purposes)
        return tuple(token for token in found if token)


def _is(machine_id: MachineId, purpose: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (proxy_tokens.c.machine_id == machine_id, proxy_tokens.c.purpose == purpose)


def _place(machine_id: MachineId, purpose: str) -> str:
    return place("proxy_tokens", "token", f"{machine_id}/{purpose}")
