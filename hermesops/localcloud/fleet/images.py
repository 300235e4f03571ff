"""The images: taken of machines in the background, kept until deleted.

It must not choose what an image is for; names are the owner's and need not be unique.
"""

from uuid import uuid4

import structlog

from hermesops.errors import HermesError
from hermesops.localcloud.drivers.interface import Driver
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.server.background import Background
from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ImageRow, ImageStatus, MachineRow
from hermesops.model.ids import ImageId, MachineId
from hermesops.waiting import pause

log = structlog.get_logger()


class Images:
    """Takes and deletes images.

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
        """Go on with images whose taking was cut short; to be called when the driver is open."""
        for row in self._store.find(ImageRow):
            # Without the provider's id it is not finished, whatever a fault has it called.
            if row.status in {ImageStatus.CREATING, ImageStatus.READY} and not row.provider_image_id:
                self._begin(row)

    async def close(self) -> None:
        """Stop; an image half taken is taken again by the next server."""
        await self._under_way.close()

    def take(self, machine: MachineRow, name: str) -> ImageRow:
        """Begin to take an image; it is ``creating`` until the copy is complete."""
        moment = now()
        size = SERVER_TYPES[machine.server_type].disk_gb
        row = ImageRow(str(uuid4()), name, machine.id, size, moment, moment)
        self._store.add(row)
        self._begin(row)
        return row

    async def delete(self, row: ImageRow) -> None:
        """Delete an image, one that is being taken once that has ended.

        Raises:
            RefusedError: A machine uses it.
        """
        await self._under_way.ended(row.id)
        # The row goes last: while there is one, somebody knows of the copy.
        await self._driver.delete_image(ImageId(row.id))
        self._store.remove(ImageRow, row.id)

    def _begin(self, row: ImageRow) -> None:
        self._under_way.begin(self._take(row), row.id)

    async def _take(self, row: ImageRow) -> None:
        concerned = self._names_of(row)
        path = f"/machines/{row.source_machine_id}/image"
        if self._faults.take(FaultKind.IMAGE_FAILS, concerned, method="POST", path=path):
            self._write(row, status=ImageStatus.FAILED, description="image creation failed at the provider")
            return
        try:
            saved = await self._driver.save_image(MachineId(row.source_machine_id), ImageId(row.id))
        except HermesError as failure:
            log.warning("image_failed", image=row.id, error=failure.message)
            self._write(row, status=ImageStatus.FAILED, description=failure.message)
        except Exception as failure:
            log.exception("image_failed", image=row.id)
            self._write(row, status=ImageStatus.FAILED, description=f"a bug: {type(failure).__name__}")
        else:
            log.info("image_taken", image=row.id, bytes=saved.bytes_used)
            if early := self._faults.take(FaultKind.IMAGE_EARLY, concerned, method="POST", path=path):
                self._write(row, status=ImageStatus.READY)
                await pause(early.seconds)
            self._write(row, status=ImageStatus.READY, provider_image_id=row.id, bytes_used=saved.bytes_used)

    def _names_of(self, row: ImageRow) -> tuple[str, ...]:
        machine = self._store.get(MachineRow, row.source_machine_id)
        return machine.names if machine else (row.source_machine_id,)

    def _write(self, row: ImageRow, **changes: str | int | None) -> None:
        self._store.update(ImageRow, row.id, updated_at=now(), **changes)
