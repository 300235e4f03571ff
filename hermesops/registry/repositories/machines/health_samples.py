"""Rows of ``readings``: what nodes said of their agents in figures, for some days."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa

from hermesops.model.ids import InstanceId
from hermesops.registry.repositories.base import Repository, insert_if_absent
from hermesops.registry.schema.rollout_tables import readings

_REMEMBERED = timedelta(days=7)


class HealthSampleRepository(Repository):
    """What was read, as text that only its reader understands."""

    def add(self, read: Mapping[InstanceId, tuple[datetime, str]]) -> None:
        """Remember one reading of each, and forget old ones; safe to call twice.

        Args:
            read: When each was taken, and what it said.
        """
        with self._database.writing() as connection:
            forgotten = self._database.now(connection) - _REMEMBERED
            connection.execute(readings.delete().where(readings.c.at < forgotten))
            for instance_id, (at, text) in read.items():
                values = {"instance_id": instance_id, "at": at, "reading": text}
                insert_if_absent(connection, readings, values)

    def list(self, instances: Collection[InstanceId], *, since: datetime) -> dict[InstanceId, tuple[str, ...]]:
        """What was read of these instances since a moment, oldest first."""
        columns = readings.c
        query = (
            sa.select(columns.instance_id, columns.reading)
            .where(columns.instance_id.in_(list(instances)), columns.at >= since)
            .order_by(columns.at)
        )
        found: dict[InstanceId, tuple[str, ...]] = dict.fromkeys(instances, ())
        with self._database.reading() as connection:
            for row in connection.execute(query):
                whose = InstanceId(row.instance_id)
                found[whose] = (*found[whose], row.reading)
        return found
