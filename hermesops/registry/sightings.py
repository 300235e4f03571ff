"""Rows of ``machine_sightings``: how each machine looked last, and in the audit what has changed since."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import MachineId
from hermesops.model.sighting import Sighting
from hermesops.registry.rows import Rows, insert_or_update
from hermesops.registry.schema import machine_sightings

_SEEN = {"server_type": "machine_resized_seen", "status": "machine_status_seen", "boot_id": "machine_reboot_seen"}
"""What the audit calls a change that was seen, not made, by the field that it is seen in."""


class SightingRows(Rows):
    """What machines looked like."""

    def note_sightings(self, seen: Iterable[Sighting]) -> Mapping[MachineId, Sighting]:
        """Remember how all machines look now, and write into the audit what differs from the last time.

        ``seen`` is every machine there is: one that was seen before and is not in it is forgotten, and the audit says
        that it is gone. A sighting without ``boot_id`` leaves the one before as it is.

        Returns:
            How machines looked before.
        """
        with self._database.writing() as connection:
            before = {MachineId(row.machine_id): _sighting(row) for row in connection.execute(_ALL)}
            now = self._database.now(connection)
            left = dict(before)
            for sighting in seen:
                old = left.pop(sighting.machine_id, None)
                self._note_change(connection, old, sighting)
                boot = {"boot_id": sighting.boot_id, "boot_seen_at": now} if sighting.boot_id else {}
                if old is None or boot or (old.server_type, old.status) != (sighting.server_type, sighting.status):
                    insert_or_update(connection, machine_sightings, {**_values(sighting, old), **boot})
            for gone in left.values():
                connection.execute(machine_sightings.delete().where(machine_sightings.c.machine_id == gone.machine_id))
                self._note(connection, "machine_gone_seen", f"machine/{gone.name}", before={"id": gone.machine_id})
        return before

    def _note_change(self, connection: sa.Connection, old: Sighting | None, new: Sighting) -> None:
        for field, action in _SEEN.items():
            was, now = getattr(old, field, ""), getattr(new, field)
            if was and now and was != now:
                self._note(connection, action, f"machine/{new.name}", before={field: was}, after={field: now})


_ALL = sa.select(machine_sightings)


def _values(sighting: Sighting, old: Sighting | None) -> dict[str, Any]:
    return {
        "machine_id": sighting.machine_id,
        "name": sighting.name,
        "server_type": sighting.server_type,
        "status": sighting.status,
        "boot_id": old.boot_id if old else "",
        "boot_seen_at": old.boot_seen_at if old else None,
    }


def _sighting(row: sa.Row[Any]) -> Sighting:
    return Sighting(MachineId(row.machine_id), row.name, row.server_type, row.status, row.boot_id, row.boot_seen_at)
