"""The vendor's backups: copies of a machine's disk in the background, which go when their machine goes.

Source: published SDK 2026.3.6 and a public client, 2026. They look like the data centre's own server backups, whose
rules stand in for what is not known of the vendor's: seven at most, the oldest makes room; switching them off, as
deleting the machine, deletes them all.
"""

from uuid import uuid4

import structlog

from hermesops.errors import HermesError
from hermesops.localcloud.drivers.interface import Driver
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.server.background import Background
from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import BackupRow, BackupStatus, MachineRow
from hermesops.model.ids import ImageId, MachineId

_KEPT = 7

log = structlog.get_logger()


class Backups:
    """Takes and deletes backups.

    Args:
        store: What there is.
        driver: Copies the disks.
        faults: What goes wrong on order.
    """

    def __init__(self, store: Store, driver: Driver, faults: Faults) -> None:
        self._store = store
        self._driver = driver
        self._faults = faults
        self._under_way = Background()

    def open(self) -> None:
        """Go on with backups whose taking was cut short; to be called when the driver is open."""
        for row in self._store.find(BackupRow, status=BackupStatus.CREATING):
            self._begin(row)

    async def close(self) -> None:
        """Stop; a backup half taken is taken again by the next server."""
        await self._under_way.close()

    def of(self, machine: MachineRow) -> list[BackupRow]:
        """A machine's backups, oldest first."""
        return self._store.find(BackupRow, machine_id=machine.id)

    def take(self, machine: MachineRow, description: str) -> BackupRow:
        """Begin to take a backup."""
        row = BackupRow(f"bkp-{uuid4().hex[:12]}", machine.id, description, now())
        path = f"/machines/{machine.id}/backups"
        if self._faults.take(FaultKind.BACKUP_FAILS, machine.names, method="POST", path=path):
            self._store.add(BackupRow(row.id, row.machine_id, description, row.created_at, BackupStatus.UNAVAILABLE))
        else:
            self._store.add(row)
            self._begin(row)
        return row

    async def delete(self, row: BackupRow) -> None:
        """Delete a backup, one that is being taken once that has ended; absent is success."""
        await self._under_way.ended(row.id)
        await self._forget(row)

    async def _forget(self, row: BackupRow) -> None:
        # The row goes last: while there is one, somebody knows of the copy.
        await self._driver.delete_image(ImageId(row.id))
        self._store.remove(BackupRow, row.id)

    def _begin(self, row: BackupRow) -> None:
        self._under_way.begin(self._take(row), row.id)

    async def _take(self, row: BackupRow) -> None:
        try:
            saved = await self._driver.save_image(MachineId(row.machine_id), ImageId(row.id))
        except HermesError as failure:
            log.warning("backup_failed", backup=row.id, error=failure.message)
            self._store.update(BackupRow, row.id, status=BackupStatus.UNAVAILABLE)
            return
        self._store.update(
            BackupRow, row.id, status=BackupStatus.AVAILABLE, bytes_used=saved.bytes_used, copied_at=now()
        )
        log.info("backup_taken", backup=row.id, bytes=saved.bytes_used)
        for old in self._store.find(BackupRow, machine_id=row.machine_id)[:-_KEPT]:
            if old.status != BackupStatus.CREATING:  # it goes when it is complete, by this same line
                await self._forget(old)
