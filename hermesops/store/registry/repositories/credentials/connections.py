"""Rows of ``hermes_connections``: OAuth tokens, encrypted, one row per instance and service."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import InstanceStatus, ServiceConnection
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.store.registry.encryption.sealing import place
from hermesops.store.registry.repositories.base import Repository, new_id
from hermesops.store.registry.schema.tables import hermes_connections, hermes_instances

_ACCESS, _REFRESH = "access_token", "refresh_token"


class ConnectionRepository(Repository):
    """The external services that instances may use, with their tokens."""

    def connect(
        self,
        instance_id: InstanceId,
        service: str,
        *,
        access_token: str,
        refresh_token: str = "",
        scopes: Sequence[str] = (),
        expires_at: datetime | None = None,
    ) -> None:
        """Store a service's tokens in place of the ones before.

        Raises:
            RefusedError: The instance is terminated.
        """
        columns = hermes_connections.c
        with self._database.writing() as connection:
            # The instance's row stands for all of its connections: two at once make one row, not two.
            status = connection.execute(
                sa.select(hermes_instances.c.status).where(hermes_instances.c.id == instance_id).with_for_update()
            ).scalar()
            if status == InstanceStatus.TERMINATED:
                raise RefusedError(f"instance {instance_id} is terminated for good")
            connection.execute(
                hermes_connections.delete().where(columns.instance_id == instance_id, columns.service == service)
            )
            row_id = new_id()
            connection.execute(
                hermes_connections.insert().values(
                    id=row_id,
                    instance_id=instance_id,
                    service=service,
                    access_token=self._sealed(connection, _ACCESS, row_id, access_token),
                    refresh_token=self._sealed(connection, _REFRESH, row_id, refresh_token) if refresh_token else None,
                    scopes=list(scopes),
                    expires_at=expires_at,
                    connected_at=self._database.now(connection),
                )
            )
            granted: dict[str, object] = {"service": service, "scopes": list(scopes)}
            self._note(connection, "service_connected", instance_subject(instance_id), after=granted)

    def disconnect(self, instance_id: InstanceId, service: str) -> None:
        """Delete a service's tokens, if any; the caller revokes them at the service."""
        columns = hermes_connections.c
        with self._database.writing() as connection:
            gone = connection.execute(
                hermes_connections.delete().where(columns.instance_id == instance_id, columns.service == service)
            ).rowcount
            if gone:
                before: dict[str, object] = {"service": service}
                self._note(connection, "service_disconnected", instance_subject(instance_id), before=before)

    def list(self, instance_id: InstanceId) -> tuple[ServiceConnection, ...]:
        """An instance's connections with their tokens, by service."""
        columns = hermes_connections.c
        query = sa.select(hermes_connections).where(columns.instance_id == instance_id).order_by(columns.service)
        return tuple(map(self._connection, self._rows(query)))

    def _connection(self, row: sa.Row[Any]) -> ServiceConnection:
        return ServiceConnection(
            instance_id=InstanceId(row.instance_id),
            service=row.service,
            access_token=self._unsealed(_ACCESS, row.id, row.access_token),
            refresh_token=self._unsealed(_REFRESH, row.id, row.refresh_token) if row.refresh_token else "",
            scopes=tuple(row.scopes),
            expires_at=row.expires_at,
            connected_at=row.connected_at,
        )

    def _sealed(self, connection: sa.Connection, column: str, row_id: str, plain: str) -> str:
        return self._seal_in(connection, plain, place("hermes_connections", column, row_id))

    def _unsealed(self, column: str, row_id: str, sealed: str) -> str:
        return self._context.sealer.unseal(sealed, place=place("hermes_connections", column, row_id))
