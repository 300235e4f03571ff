"""Rows of ``data_keys``: the keys of machines' data volumes.

A key is destroyed in the transaction that gives its machine up or terminates its instance: from then on the
volume, and any copy of it at the vendor, is unreadable. The row stays as a record.
"""

from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, MachineId
from hermesops.store.registry.encryption.sealing import place
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import data_keys

_AT_MOST = 4
"""Volumes of one machine, so that no machine can fill the registry."""


class DataKeyRepository(Repository):
    """Rows of ``data_keys``: one key a volume."""

    def release(self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None, *, fresh: str) -> str:
        """The key of a volume, for its machine or its instance's; ``fresh`` becomes the key of an unknown volume.

        Raises:
            RefusedError: The volume is another's, its key was destroyed, or the machine has too many.
        """
        columns = data_keys.c
        with self._database.writing() as connection:
            query = sa.select(data_keys).where(columns.volume_id == volume_id).with_for_update()
            row = connection.execute(query).one_or_none()
            if row is None:
                return self._make(connection, volume_id, machine_id, instance_id, fresh)
            if row.destroyed_at is not None:
                raise RefusedError(f"the key of data volume {volume_id} was destroyed")
            if row.instance_id and instance_id and row.instance_id != instance_id:
                raise RefusedError(f"data volume {volume_id} is another instance's")
            is_its = instance_id is not None and row.instance_id == instance_id
            if not is_its and row.machine_id != machine_id:
                raise RefusedError(f"data volume {volume_id} is another machine's")
            now_of = {"machine_id": machine_id, "instance_id": row.instance_id or instance_id}
            if (row.machine_id, row.instance_id) != tuple(now_of.values()):
                connection.execute(data_keys.update().where(columns.volume_id == volume_id).values(now_of))
            return self._context.sealer.unseal(row.key, place=_place(volume_id))

    def _make(
        self,
        connection: sa.Connection,
        volume_id: str,
        machine_id: MachineId,
        instance_id: InstanceId | None,
        fresh: str,
    ) -> str:
        of_it = sa.select(sa.func.count()).where(data_keys.c.machine_id == machine_id)
        if (connection.execute(of_it).scalar() or 0) >= _AT_MOST:
            raise RefusedError(f"machine {machine_id} has {_AT_MOST} data volumes already")
        values = {
            "volume_id": volume_id,
            "machine_id": machine_id,
            "instance_id": instance_id,
            "key": self._seal_in(connection, fresh, _place(volume_id)),
            "created_at": self._database.now(connection),
        }
        connection.execute(data_keys.insert().values(values))
        self._note(connection, "data_key_made", f"machine/{machine_id}", after={"volume": volume_id})
        return fresh


def destroy_data_keys(
    connection: sa.Connection, now: datetime, *, machine_id: str | None = None, instance_id: InstanceId | None = None
) -> None:
    """Destroy the keys of a machine's and of an instance's volumes."""
    columns = data_keys.c
    whose = [
        column == value
        for column, value in ((columns.machine_id, machine_id), (columns.instance_id, instance_id))
        if value
    ]
    if whose:
        gone = {"key": None, "destroyed_at": now}
        connection.execute(data_keys.update().where(sa.or_(*whose), columns.destroyed_at.is_(None)).values(gone))


def _place(volume_id: str) -> str:
    return place("data_keys", "key", volume_id)
