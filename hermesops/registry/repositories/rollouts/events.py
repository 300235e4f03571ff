"""Rows of ``list``: what was decided of rollouts, and from what. They are appended, never changed."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from hermesops.model.operation import Lease
from hermesops.model.rollout import RolloutEvent, RolloutId
from hermesops.registry.repositories.base import Repository
from hermesops.registry.repositories.leases import require_lease
from hermesops.registry.repositories.rollouts.encoding import plain
from hermesops.registry.schema.rollout_tables import rollout_events


class RolloutEventRepository(Repository):
    """Decisions about rollouts."""

    def add(self, rollout_id: RolloutId, event: RolloutEvent, *, lease: Lease | None = None) -> None:
        """Append what was decided.

        Raises:
            LeaseLostError: The lease is somebody else's by now.
        """
        with self._database.writing() as connection:
            if lease:
                require_lease(connection, lease)
            append_event(connection, rollout_id, event)

    def list(self, rollout_id: RolloutId) -> tuple[RolloutEvent, ...]:
        """What was decided, the oldest first."""
        query = sa.select(rollout_events).where(rollout_events.c.rollout_id == rollout_id).order_by(rollout_events.c.id)
        with self._database.reading() as connection:
            return tuple(_event(row) for row in connection.execute(query))

    def latest(self, rollout_id: RolloutId) -> Mapping[str, RolloutEvent]:
        """The newest event of each kind."""
        newest = (
            sa.select(sa.func.max(rollout_events.c.id))
            .where(rollout_events.c.rollout_id == rollout_id)
            .group_by(rollout_events.c.kind)
        )
        with self._database.reading() as connection:
            found = connection.execute(sa.select(rollout_events).where(rollout_events.c.id.in_(newest)))
            return {row.kind: _event(row) for row in found}


def append_event(connection: sa.Connection, rollout_id: RolloutId, event: RolloutEvent) -> None:
    """Append what was decided, in the transaction of the change that it tells of."""
    values = {
        "rollout_id": rollout_id,
        "at": event.at,
        "kind": event.kind,
        "decision": plain(event.decision),
        "evidence": plain(event.evidence),
    }
    connection.execute(rollout_events.insert().values(values))


def _event(row: sa.Row[Any]) -> RolloutEvent:
    return RolloutEvent(row.at, row.kind, row.decision, row.evidence, row.id)
