"""Copies of machines' disks, made in the background: images, and the vendor's backups, which go with their machine."""

from dataclasses import replace
from uuid import uuid4

import structlog

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.localcloud.drivers.interface import Driver
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.server.background import Background
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import BackupRow, BackupStatus, ImageRow, ImageStatus, MachineRow, now
from hermesops.model.ids import ImageId, MachineId

_KEPT_BACKUPS = 7

log = structlog.get_logger()


class _DiskCopies:
    """Copies disks through the driver, each in a background task named after its row."""

    def __init__(self, store: Store, driver: Driver, faults: Faults) -> None:
        self._store = store
        self._driver = driver
        self._faults = faults
        self._background = Background()

    async def close(self) -> None:
        """Stop the tasks; the next server restarts unfinished copies."""
        await self._background.close()

    async def _delete(self, row: ImageRow | BackupRow) -> None:
        # The row goes last: while there is one, the copy is known.
        await self._driver.delete_image(ImageId(row.id))
        self._store.remove(type(row), row.id)


class Images(_DiskCopies):
    """Takes and deletes images. Their names are the owner's and need not be unique."""

    def open(self) -> None:
        """Continue images that an earlier server began; to be called when the driver is open."""
        for row in self._store.find(ImageRow):
            # Without the provider's id it is not finished, whatever status a fault gives it.
            if row.status in {ImageStatus.CREATING, ImageStatus.READY} and not row.provider_image_id:
                self._background.begin(self._take(row), row.id)

    def take(self, machine: MachineRow, name: str) -> ImageRow:
        """Begin to take an image; it is ``creating`` until the copy is complete."""
        timestamp = now()
        size = SERVER_TYPES[machine.server_type].disk_gb
        row = ImageRow(str(uuid4()), name, machine.id, size, timestamp, timestamp)
        self._store.add(row)
        self._background.begin(self._take(row), row.id)
        return row

    async def delete(self, row: ImageRow) -> None:
        """Delete an image, once it is no longer being taken.

        Raises:
            RefusedError: A machine uses it.
        """
        await self._background.ended(row.id)
        await self._delete(row)

    async def _take(self, row: ImageRow) -> None:
        machine = self._store.get(MachineRow, row.source_machine_id)
        names = machine.names if machine else (row.source_machine_id,)
        path = f"/machines/{row.source_machine_id}/image"
        if self._faults.take(FaultKind.IMAGE_FAILS, names, method="POST", path=path):
            self._write(row, status=ImageStatus.FAILED, description="image creation failed at the provider")
            return
        try:
            bytes_used = await self._driver.save_image(MachineId(row.source_machine_id), ImageId(row.id))
        except HermesError as failure:
            log.warning("image_failed", image=row.id, error=failure.message)
            self._write(row, status=ImageStatus.FAILED, description=failure.message)
        except Exception as failure:
            log.exception("image_failed", image=row.id)
            self._write(row, status=ImageStatus.FAILED, description=f"a bug: {type(failure).__name__}")
        else:
            log.info("image_taken", image=row.id, bytes=bytes_used)
            if early := self._faults.take(FaultKind.IMAGE_EARLY, names, method="POST", path=path):
                self._write(row, status=ImageStatus.READY)
                await pause(early.seconds)
            self._write(row, status=ImageStatus.READY, provider_image_id=row.id, bytes_used=bytes_used)

    def _write(self, row: ImageRow, **changes: str | int | None) -> None:
        self._store.update(ImageRow, row.id, updated_at=now(), **changes)


class Backups(_DiskCopies):
    """Takes and deletes the vendor's backups of machines.

    Source: published SDK 2026.3.6 and a public client, 2026. They resemble the data centre's own server backups, whose
    rules stand in for what is not known of the vendor's: seven at most, the oldest makes room; switching them off, like
    deleting the machine, deletes them all.
    """

    def open(self) -> None:
        """Continue backups that an earlier server began; to be called when the driver is open."""
        for row in self._store.find(BackupRow, status=BackupStatus.CREATING):
            self._background.begin(self._take(row), row.id)

    def of(self, machine: MachineRow) -> list[BackupRow]:
        """The backups of a machine, oldest first."""
        return self._store.find(BackupRow, machine_id=machine.id)

    def take(self, machine: MachineRow, description: str) -> BackupRow:
        """Begin to take a backup; the row returned is ``creating``."""
        row = BackupRow(f"bkp-{uuid4().hex[:12]}", machine.id, description, now())
        path = f"/machines/{machine.id}/backups"
        if self._faults.take(FaultKind.BACKUP_FAILS, machine.names, method="POST", path=path):
            self._store.add(replace(row, status=BackupStatus.UNAVAILABLE))
        else:
            self._store.add(row)
            self._background.begin(self._take(row), row.id)
        return row

    async def delete(self, row: BackupRow) -> None:
        """Delete a backup, once it is no longer being taken; absent is success."""
        await self._background.ended(row.id)
        await self._delete(row)

    async def _take(self, row: BackupRow) -> None:
        try:
            bytes_used = await self._driver.save_image(MachineId(row.machine_id), ImageId(row.id))
        except HermesError as failure:
            log.warning("backup_failed", backup=row.id, error=failure.message)
            self._store.update(BackupRow, row.id, status=BackupStatus.UNAVAILABLE)
            return
        self._store.update(BackupRow, row.id, status=BackupStatus.AVAILABLE, bytes_used=bytes_used, copied_at=now())
        log.info("backup_taken", backup=row.id, bytes=bytes_used)
        for old in self._store.find(BackupRow, machine_id=row.machine_id)[:-_KEPT_BACKUPS]:
            if old.status != BackupStatus.CREATING:  # it goes when it is complete, by this same line
                await self._delete(old)
