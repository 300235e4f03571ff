"""Images at the vendor: saves a machine's disk under a known name, waits for it, finds it again by that name."""

from dataclasses import dataclass

from hermesops import justavps
from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.image.machines import Tell
from hermesops.justavps.errors import NotFoundError
from hermesops.model.ids import ImageId, MachineId
from hermesops.waiting import Pending, until

_SAVED_S = 3600.0
"""Saving took tens of minutes at the vendor."""


@dataclass(frozen=True)
class SavedImages:
    """The account's images that builds make."""

    vendor: justavps.Client
    tell: Tell

    async def save(self, machine_id: MachineId, name: str) -> justavps.Image:
        """Save a machine's disk and return once machines can boot from it.

        Raises:
            RefusedError: The vendor could not save it.
            UnknownOutcomeError: The order's answer was lost, and no image of that name is listed.
        """
        try:
            image = await self.vendor.save_image(machine_id, name=name)
        except UnknownOutcomeError:
            # Asking again could save it twice. Only we use such names, so an image of that name is the one.
            found = await self._named(name)
            if found is None:
                raise
            image = found
        return await self._awaited(image)

    async def find(self, name: str) -> justavps.Image | None:
        """The image that a killed build was saving, once machines can boot from it; one that failed is deleted."""
        image = await self._named(name)
        if image is None:
            return None
        if image.status is justavps.ImageStatus.FAILED:
            await self.vendor.delete_image(image.id)
            return None
        self.tell(f"image {name} was saved by an earlier build")
        return await self._awaited(image)

    async def _named(self, name: str) -> justavps.Image | None:
        return next((image for image in await self.vendor.list_images() if image.name == name), None)

    async def _awaited(self, image: justavps.Image) -> justavps.Image:
        async def bootable() -> justavps.Image | Pending[justavps.Image]:
            try:
                seen = await self.vendor.get_image(image.id)
            except UnavailableError as error:
                return Pending(str(error))
            if seen.status in {justavps.ImageStatus.FAILED, justavps.ImageStatus.DELETED}:
                raise RefusedError(
                    f"JustAVPS could not save image {image.name}: {seen.description or seen.status}",
                    hint="run the same command again",
                )
            return seen if seen.bootable else Pending(str(seen.status))

        return await until(bootable, what=f"image {image.name}", timeout_s=_SAVED_S, every_s=0.5, tell=self.tell)

    async def is_bootable(self, image_id: ImageId) -> bool:
        """Whether the vendor still has it and machines can boot from it."""
        try:
            return (await self.vendor.get_image(image_id)).bootable
        except NotFoundError:
            return False
