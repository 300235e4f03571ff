"""Generations of agents' secrets, by which the connector knows their gateways; those of the ended have none."""

from uuid import UUID

import sqlalchemy as sa

from hermesops.model.ids import InstanceId
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.tables import LIVING, hermes_instances, instance_details

_COLUMNS = instance_details.c


class Gateways:
    """Gateways of agents, as rows. An agent's relay secret has the generations of its token for models."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def generations(self, instance_id: InstanceId) -> range:
        """Generations whose secrets open a socket: the newest, and those that its machine may still have."""
        if not _is_id(instance_id):
            return range(0)
        query = sa.select(_COLUMNS.model_token_generation, _COLUMNS.model_token_floor)
        query = query.join(hermes_instances, hermes_instances.c.id == _COLUMNS.instance_id)
        with self._database.reading() as connection:
            row = connection.execute(query.where(_COLUMNS.instance_id == instance_id, LIVING)).one_or_none()
        if row is None:
            return range(0)
        newest = int(row.model_token_generation)
        oldest = newest if row.model_token_floor is None else int(row.model_token_floor)
        return range(min(oldest, newest), newest + 1)


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
