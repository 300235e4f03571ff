"""Rows of ``proxy_tokens``: the tokens in use, so that not every command mints new ones."""

import sqlalchemy as sa

from hermesops.model.ids import MachineId
from hermesops.model.token import ProxyToken
from hermesops.registry.rows import Rows, insert_or_update
from hermesops.registry.schema import LIVING, hermes_instances, proxy_tokens
from hermesops.registry.sealing import place

PLATFORM = "platform"
"""Purpose of the token that the platform's message router reads in ``hermes_instances.proxy_token``."""


class TokenRows(Rows):
    """One proxy token per machine and purpose, encrypted."""

    def proxy_token(self, machine_id: MachineId, purpose: str) -> ProxyToken | None:
        """The token last kept, expired or not."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(proxy_tokens).where(*_is(machine_id, purpose))).one_or_none()
        if row is None:
            return None
        token = self._desk.sealer.unseal(row.token, place=_place(machine_id, purpose))
        return ProxyToken(row.token_id, machine_id, purpose, row.expires_at, token)

    def keep_proxy_token(self, token: ProxyToken) -> None:
        """Remember a token instead of the one before it."""
        sealed = self._desk.sealer.seal(token.token, place=_place(token.machine_id, token.purpose))
        with self._database.writing() as connection:
            values = {
                "machine_id": token.machine_id,
                "purpose": token.purpose,
                "token_id": token.id,
                "token": sealed,
                "expires_at": token.expires_at,
            }
            insert_or_update(connection, proxy_tokens, values)
            if token.purpose == PLATFORM:
                self._publish(connection, token)

    def forget_proxy_token(self, machine_id: MachineId, purpose: str) -> None:
        """Drop a token; harmless when there is none."""
        with self._database.writing() as connection:
            connection.execute(proxy_tokens.delete().where(*_is(machine_id, purpose)))

    def list_proxy_tokens(self, machine_id: MachineId) -> tuple[ProxyToken, ...]:
        """Every token kept for a machine."""
        with self._database.reading() as connection:
            purposes = connection.scalars(
                sa.select(proxy_tokens.c.purpose).where(proxy_tokens.c.machine_id == machine_id)
            ).all()
        found = (self.proxy_token(machine_id, purpose) for purpose in purposes)
        return tuple(token for token in found if token)

    def _publish(self, connection: sa.Connection, token: ProxyToken) -> None:
        """Put the token where the platform's other services look for it."""
        is_it = (hermes_instances.c.vm_id == token.machine_id) & LIVING
        for instance_id in connection.scalars(sa.select(hermes_instances.c.id).where(is_it)).all():
            sealed = self._desk.sealer.seal(token.token, place=place("hermes_instances", "proxy_token", instance_id))
            connection.execute(
                hermes_instances.update().where(hermes_instances.c.id == instance_id).values(proxy_token=sealed)
            )


def _is(machine_id: MachineId, purpose: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (proxy_tokens.c.machine_id == machine_id, proxy_tokens.c.purpose == purpose)


def _place(machine_id: MachineId, purpose: str) -> str:
    return place("proxy_tokens", "token", f"{machine_id}/{purpose}")
