"""Rows of ``machine_sightings`` and ``readings``: how machines looked last, and health samples of their agents."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet import GONE, READY, Confirmation, MachineObservation, Unconfirmed
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import InstanceStatus
from hermesops.registry.repositories.base import Repository, insert_if_absent, insert_or_update, insert_or_update_all
from hermesops.registry.schema.tables import (
    hermes_instances,
    instance_details,
    machine_sightings,
    meta,
    readings,
    users,
)

_LISTED_AT = "machines_listed_at"
"""The row of ``meta`` that says when all machines were listed last."""

_SEEN = {"server_type": "machine_resized_seen", "status": "machine_status_seen", "boot_id": "machine_reboot_seen"}
"""What the audit calls a change that was seen, not made, by the field that it is seen in."""


class MachineObservationRepository(Repository):
    """What machines looked like."""

    def record(
        self, seen: Iterable[MachineObservation], *, missing: Mapping[MachineId, str] | None = None
    ) -> Mapping[MachineId, MachineObservation]:
        """Remember how all machines look now, and write into the audit what differs from the last time.

        A sighting without ``boot_id`` leaves the one before as it is.

        Args:
            seen: Every machine there is: one that was seen before and is not in it is forgotten, and the audit says
                that it is gone.
            missing: Machines that instances are on and that were not seen, with their names: remembered as gone.

        Returns:
            How machines looked before.
        """
        gone = [MachineObservation(machine_id, name, "", GONE) for machine_id, name in (missing or {}).items()]
        with self._database.writing() as connection:
            before = {MachineId(row.machine_id): _sighting(row) for row in connection.execute(_ALL)}
            now = self._database.now(connection)
            left = dict(before)
            changed = []
            for observation in (*seen, *gone):
                changed += self._changed(connection, left.pop(observation.machine_id, None), observation, now)
            insert_or_update_all(connection, machine_sightings, changed)
            for old in left.values():
                connection.execute(machine_sightings.delete().where(machine_sightings.c.machine_id == old.machine_id))
                if old.status != GONE:
                    self._note_gone(connection, old)
            insert_or_update(connection, meta, {"name": _LISTED_AT, "value": now.isoformat()})
        return before

    def confirmation(self) -> Confirmation:
        """What the vendor said, when it was last asked, of the machines of instances that should run."""
        status, instances = machine_sightings.c.status, hermes_instances.c
        running = (
            sa.select(users.c.alias, instances.user_id, instance_details.c.machine_name, status)
            .select_from(
                hermes_instances.join(instance_details, instance_details.c.instance_id == instances.id)
                .join(users, users.c.id == instances.user_id)
                .outerjoin(machine_sightings, machine_sightings.c.machine_id == instances.vm_id)
            )
            .where(instances.status == InstanceStatus.RUNNING)
        )
        with self._database.reading() as connection:
            listed_at = connection.scalar(sa.select(meta.c.value).where(meta.c.name == _LISTED_AT))
            if listed_at is None:
                return Confirmation(None, 0)
            found = connection.execute(running).all()
        others = [
            Unconfirmed(row.alias or row.user_id, row.machine_name, row.status or "")
            for row in found
            if row.status != READY
        ]
        unconfirmed = tuple(sorted(others, key=lambda one: one.user))
        return Confirmation(datetime.fromisoformat(listed_at), len(found) - len(others), unconfirmed)

    def _changed(
        self, connection: sa.Connection, old: MachineObservation | None, new: MachineObservation, now: datetime
    ) -> list[dict[str, Any]]:
        """The row to be written, where it differs; what differs is noted."""
        if new.status != GONE:
            self._note_change(connection, old, new)
        elif old is None or old.status != GONE:
            self._note_gone(connection, new)
        boot = {"boot_id": new.boot_id, "boot_seen_at": now} if new.boot_id else {}
        if old is None or boot or (old.server_type, old.status) != (new.server_type, new.status):
            return [{**_values(new, old), **boot}]
        return []

    def _note_gone(self, connection: sa.Connection, one: MachineObservation) -> None:
        self._note(connection, "machine_gone_seen", f"machine/{one.name}", before={"id": one.machine_id})

    def _note_change(self, connection: sa.Connection, old: MachineObservation | None, new: MachineObservation) -> None:
        for field, action in _SEEN.items():
            was, now = getattr(old, field, ""), getattr(new, field)
            if was and now and was != now:
                self._note(connection, action, f"machine/{new.name}", before={field: was}, after={field: now})


_ALL = sa.select(machine_sightings)


def _values(observation: MachineObservation, old: MachineObservation | None) -> dict[str, Any]:
    return {
        "machine_id": observation.machine_id,
        "name": observation.name,
        "server_type": observation.server_type,
        "status": observation.status,
        "boot_id": old.boot_id if old else "",
        "boot_seen_at": old.boot_seen_at if old else None,
    }


def _sighting(row: sa.Row[Any]) -> MachineObservation:
    return MachineObservation(
        MachineId(row.machine_id), row.name, row.server_type, row.status, row.boot_id, row.boot_seen_at
    )


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
