"""The encrypted columns of an instance: its settings, its API key, and which model token counts."""

import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, UsageError
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceSettings
from hermesops.registry.encryption.sealing import place
from hermesops.registry.repositories.base import Repository
from hermesops.registry.schema.tables import instance_details

NO_SETTINGS = "{}"
"""Settings of which nothing is chosen, before they are sealed."""

_FIELDS = frozenset(field.name for field in dataclasses.fields(InstanceSettings))


class InstanceSecretRepository(Repository):
    """What only the registry and the instance's own machine may hold."""

    def settings(self, instance_id: InstanceId) -> InstanceSettings:
        """What the instance's user chose."""
        with self._database.reading() as connection:
            return self.settings_in(connection, instance_id)

    def settings_before(self, instance_id: InstanceId) -> InstanceSettings | None:
        """The settings that counted before and were not found wanting; ``None`` when they were never changed."""
        with self._database.reading() as connection:
            sealed = details_in(connection, instance_id).settings_before
        return self._open_settings(sealed, "settings_before", instance_id) if sealed else None

    def settings_in(
        self, connection: sa.Connection, instance_id: InstanceId, *, lock: bool = False
    ) -> InstanceSettings:
        """``settings`` within a transaction; ``lock`` keeps the row from others to its end."""
        details = details_in(connection, instance_id, lock=lock)
        return self._open_settings(details.settings, "settings", instance_id)

    def _open_settings(self, sealed: str, column: str, instance_id: InstanceId) -> InstanceSettings:
        values = json.loads(self._context.sealer.unseal(sealed, place=_place(column, instance_id)))
        unknown = values.keys() - _FIELDS
        if unknown:
            raise BrokenInvariantError(
                f"instance {instance_id} has settings that this hermesops does not know: {', '.join(sorted(unknown))}"
            )
        for name in ("cron", "disabled_tools"):
            values[name] = tuple(values.get(name, ()))
        return InstanceSettings(**values)

    def seal_settings_in(
        self, connection: sa.Connection, settings: InstanceSettings, column: str, instance_id: InstanceId
    ) -> str:
        """Settings as they are written into that column of the instance."""
        plain = json.dumps(dataclasses.asdict(settings), default=dict)
        return self.seal_in(connection, plain, column, instance_id)

    def seal_in(self, connection: sa.Connection, plain: str, column: str, instance_id: InstanceId) -> str:
        """Encrypt what the transaction is about to write into that column of the instance."""
        return self._seal_in(connection, plain, _place(column, instance_id))

    def api_server_key(self, instance_id: InstanceId) -> str:
        """The bearer of the agent's own HTTP API."""
        return self._unseal(instance_id, "api_server_key")

    def model_token_generation(self, instance_id: InstanceId) -> int:
        """The generation below which the instance's tokens for the model router are revoked."""
        with self._database.reading() as connection:
            generation: int = details_in(connection, instance_id).model_token_generation
        return generation

    def _unseal(self, instance_id: InstanceId, column: str) -> str:
        with self._database.reading() as connection:
            sealed = getattr(details_in(connection, instance_id), column)
        return self._context.sealer.unseal(sealed, place=_place(column, instance_id))


def details_in(connection: sa.Connection, instance_id: InstanceId, *, lock: bool = False) -> sa.Row[Any]:
    """An instance's row of ``instance_details``, locked to the transaction's end where that is asked for.

    Raises:
        UsageError: There is no such instance.
    """
    query = sa.select(instance_details).where(instance_details.c.instance_id == instance_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise UsageError(f"no instance with id {instance_id}", hint="hermesops instance list")
    return row


def _place(column: str, instance_id: InstanceId) -> str:
    return place("instance_details", column, instance_id)
