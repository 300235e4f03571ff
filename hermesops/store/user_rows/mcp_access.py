"""Rows of ``mcp_access``: by which token an agent reaches its services, and its session at the vendor."""

import secrets
from dataclasses import dataclass, field

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema.tables import hermes_instances
from hermesops.store.registry.schema.user_tables import mcp_access
from hermesops.store.user_rows.connections import digest

_COLUMNS = mcp_access.c


@dataclass(frozen=True)
class McpAccess:
    """The way of an agent to its services.

    Attributes:
        session: Id of its session at the vendor; empty for none.
        url: Of the session's MCP server.
        accounts_digest: Of the accounts that the session is limited to.
    """

    instance_id: InstanceId
    session: str = field(repr=False)
    url: str = field(repr=False)
    accounts_digest: str


class McpAccesses:
    """Ways of agents to their services."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def grant(self, instance_id: InstanceId) -> str:
        """Give an agent a token in the place of the one before; returns it, and keeps its digest alone."""
        token = secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            values = {
                "instance_id": instance_id,
                "token_hash": digest(token),
                "created_at": self._database.now(connection),
            }
            insert_or_update(connection, mcp_access, values)
        return token

    def bar(self, instance_id: InstanceId) -> None:
        """Have no token reach an agent's services; its row stays."""
        self.grant(instance_id)

    def is_token(self, instance_id: InstanceId, token: str) -> bool:
        """Whether an agent has this token."""
        is_it = sa.and_(_COLUMNS.instance_id == instance_id, _COLUMNS.token_hash == digest(token))
        with self._database.reading() as connection:
            return connection.execute(sa.select(_COLUMNS.instance_id).where(is_it)).first() is not None

    def of_token(self, token: str) -> McpAccess | None:
        """The way of the agent with this token; ``None`` for no token, and while the agent does not run."""
        joined = mcp_access.join(hermes_instances, hermes_instances.c.id == _COLUMNS.instance_id)
        is_it = sa.and_(_COLUMNS.token_hash == digest(token), hermes_instances.c.status == InstanceStatus.RUNNING)
        with self._database.reading() as connection:
            row = connection.execute(sa.select(mcp_access).select_from(joined).where(is_it)).one_or_none()
        if row is None:
            return None
        return McpAccess(InstanceId(row.instance_id), row.vendor_session, row.vendor_url, row.accounts_digest)

    def of_instance(self, instance_id: InstanceId) -> McpAccess | None:
        """The way of an agent; ``None`` where it has none."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(mcp_access).where(_COLUMNS.instance_id == instance_id)).one_or_none()
        if row is None:
            return None
        return McpAccess(InstanceId(row.instance_id), row.vendor_session, row.vendor_url, row.accounts_digest)

    def keep_session(self, before: McpAccess, session: str, url: str, accounts_digest: str) -> bool:
        """Record an agent's session at the vendor; ``False`` where another process recorded one meanwhile."""
        is_it = sa.and_(_COLUMNS.instance_id == before.instance_id, _COLUMNS.vendor_session == before.session)
        values = {"vendor_session": session, "vendor_url": url, "accounts_digest": accounts_digest}
        with self._database.writing() as connection:
            changing = mcp_access.update().where(is_it).values(values).returning(_COLUMNS.instance_id)
            return connection.execute(changing).first() is not None

    def end(self, instance_id: InstanceId) -> None:
        """Delete the row of an agent's token."""
        with self._database.writing() as connection:
            connection.execute(mcp_access.delete().where(_COLUMNS.instance_id == instance_id))

    def all(self) -> tuple[InstanceId, ...]:
        """Ids of agents that have a token."""
        with self._database.reading() as connection:
            return tuple(InstanceId(id_) for id_ in connection.scalars(sa.select(_COLUMNS.instance_id)))
