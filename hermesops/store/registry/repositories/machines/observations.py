"""Rows of ``machine_observations`` and ``health_samples``: machines as last observed, agents' health."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet.overview import GONE, MachineObservation
from hermesops.model.fleet.unassigned_machine import machine_subject
from hermesops.model.ids import InstanceId, MachineId, MachineName
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.repositories.base import (
    Repository,
    insert_if_absent,
    insert_or_update,
    insert_or_update_all,
)
from hermesops.store.registry.schema.tables import health_samples, machine_observations, meta

LISTED_AT = "machines_listed_at"
"""Name of the row of ``meta`` with the moment of the last listing of all machines."""

_SEEN = {"server_type": "machine_resized_seen", "status": "machine_status_seen", "boot_id": "machine_reboot_seen"}
"""Audit actions for changes that hermesops did not make, by the field that changed."""

GONE_SEEN = "machine_gone_seen"
"""Audit action for a machine that the vendor no longer lists."""

_REMEMBERED = timedelta(days=7)


class MachineObservationRepository(Repository):
    """The last observation of each machine."""

    def record(
        self, observations: Iterable[MachineObservation], *, missing: Mapping[MachineId, str] | None = None
    ) -> Mapping[MachineId, MachineObservation]:
        """Record an observation of all machines, with an audit entry for each change since the last one.

        Args:
            observations: Every machine that exists; the rows of others are deleted, and audited as gone. One without
                ``boot_id`` keeps the boot that was recorded before.
            missing: Names of the machines that instances are on and that do not exist; recorded as gone.

        Returns:
            The observations before.
        """
        gone = [MachineObservation(machine_id, name, "", GONE) for machine_id, name in (missing or {}).items()]
        with self._database.writing() as connection:
            before = {
                MachineId(row.machine_id): MachineObservation(**row._asdict())
                for row in connection.execute(sa.select(machine_observations))
            }
            now = self._database.now(connection)
            left = dict(before)
            changed = []
            for observation in (*observations, *gone):
                changed += self._changed(connection, left.pop(observation.machine_id, None), observation, now)
            insert_or_update_all(connection, machine_observations, changed)
            for old in left.values():
                connection.execute(
                    machine_observations.delete().where(machine_observations.c.machine_id == old.machine_id)
                )
                if old.status != GONE:
                    self._note_gone(connection, old)
            insert_or_update(connection, meta, {"name": LISTED_AT, "value": now.isoformat()})
        return before

    def listed_at(self) -> datetime | None:
        """When all machines were last listed; ``None`` for never."""
        with self._database.reading() as connection:
            listed_at = read_meta(connection, LISTED_AT)
        return datetime.fromisoformat(listed_at) if listed_at else None

    def status_of(self, machine_id: MachineId) -> str:
        """The vendor's status of a machine in the last listing, or ``GONE``; empty for one that was never listed."""
        query = sa.select(machine_observations.c.status).where(machine_observations.c.machine_id == machine_id)
        with self._database.reading() as connection:
            return str(connection.execute(query).scalar_one_or_none() or "")

    def _changed(
        self, connection: sa.Connection, old: MachineObservation | None, new: MachineObservation, now: datetime
    ) -> list[dict[str, Any]]:
        """Write audit entries for changes; returns the row to write, or nothing for an unchanged machine."""
        if new.status != GONE:
            self._note_change(connection, old, new)
        elif old is None or old.status != GONE:
            self._note_gone(connection, new)
        boot = {"boot_id": old.boot_id, "boot_seen_at": old.boot_seen_at} if old else {}
        if new.boot_id:
            boot = {"boot_id": new.boot_id, "boot_seen_at": now}
        if old is None or new.boot_id or (old.server_type, old.status) != (new.server_type, new.status):
            return [vars(new) | boot]
        return []

    def _note_gone(self, connection: sa.Connection, observation: MachineObservation) -> None:
        self._note(
            connection, GONE_SEEN, machine_subject(MachineName(observation.name)), before={"id": observation.machine_id}
        )

    def _note_change(self, connection: sa.Connection, old: MachineObservation | None, new: MachineObservation) -> None:
        for field, action in _SEEN.items():
            was, now = getattr(old, field, ""), getattr(new, field)
            if was and now and was != now:
                self._note(
                    connection, action, machine_subject(MachineName(new.name)), before={field: was}, after={field: now}
                )


class HealthSampleRepository(Repository):
    """Health samples, as text that ``hermesops.agents.health`` writes and reads; kept for 7 days."""

    def add(self, read: Mapping[InstanceId, tuple[datetime, str]]) -> None:
        """Record samples by instance, with the moment of each, and delete old ones; safe to call twice."""
        with self._database.writing() as connection:
            forgotten = self._database.now(connection) - _REMEMBERED
            connection.execute(health_samples.delete().where(health_samples.c.at < forgotten))
            for instance_id, (at, text) in read.items():
                values = {"instance_id": instance_id, "at": at, "reading": text}
                insert_if_absent(connection, health_samples, values)

    def list(self, instances: Collection[InstanceId], *, since: datetime) -> dict[InstanceId, tuple[str, ...]]:
        """The samples of these instances since a moment, oldest first."""
        return dict.fromkeys(instances, ()) | self._since(since, health_samples.c.instance_id.in_(list(instances)))

    def list_all(self, *, since: datetime) -> dict[InstanceId, tuple[str, ...]]:
        """The samples of all instances since a moment, oldest first; those without any are absent."""
        return self._since(since, sa.true())

    def _since(self, since: datetime, which: sa.ColumnElement[bool]) -> dict[InstanceId, tuple[str, ...]]:
        columns = health_samples.c
        query = sa.select(columns.instance_id, columns.reading).where(which, columns.at >= since).order_by(columns.at)
        samples: dict[InstanceId, tuple[str, ...]] = {}
        for row in self._rows(query):
            samples[row.instance_id] = (*samples.get(row.instance_id, ()), row.reading)
        return samples
