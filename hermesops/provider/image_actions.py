"""Saves, reads and deletes one image at the vendor, and waits until it is so.

As with machines, every action looks before it acts: the vendor has no idempotency key, so a name and whose disk it is
have to do.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.provider import deletion
from hermesops.provider.actions import Tell
from hermesops.provider.backoff import Patience, go_on, patiently, unless_stopped
from hermesops.provider.ports import HalfMadeError, ImageOrder, ImageVendor, InterruptedWorkError, ObservedImage
from hermesops.waiting import Pending, WaitExpiredError

_LOST_LOOKS_S = 10.0
"""How long an image whose order got no answer is looked for."""

_GONE = frozenset({"failed", "deleted"})


@dataclass
class Images:
    """The actions, on one vendor.

    Attributes:
        open_vendor: Where images come from; opened when the first of them is asked for.
        stopping: Set when the engine wants an end.
    """

    open_vendor: Callable[[], ImageVendor]
    patience: Patience = field(default_factory=Patience)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @cached_property
    def vendor(self) -> ImageVendor:
        """The vendor, opened."""
        return self.open_vendor()

    async def create(self, order: ImageOrder, *, timeout_s: float, tell: Tell) -> ObservedImage:
        """Save a machine's disk, or adopt the image of that name and machine, and wait until it boots.

        Args:
            order: What to save.
            timeout_s: For it to be saved; 0 takes the default.
            tell: Hears what is waited for.

        Raises:
            HalfMadeError: It exists and is not finished.
            RefusedError: The vendor said no or could not save it, or an image of another machine bears the name.
            UnknownOutcomeError: No answer, and none of that name has appeared; the same call looks again first.
        """
        go_on(self.stopping, f"image {order.name} was not begun")
        image = await self._existing(order) or await self._saved(order)
        await tell(f"{order.name} is image {image.id}")
        return await self._settled(image, timeout_s=timeout_s, tell=tell)

    async def finish(self, image_id: str, name: str, *, timeout_s: float, tell: Tell) -> ObservedImage:
        """Wait for one that was left half made; nothing else about an image can change.

        Raises:
            HalfMadeError: It is not finished.
            RefusedError: It is gone or failed, or bears another name.
        """
        go_on(self.stopping, f"image {name} was not waited for")
        image = await self.read(image_id)
        if image is None:
            raise RefusedError(f"image {name} ({image_id}) is gone", hint="hermesops stack preview shows what is left")
        deletion.refuse_stranger("image", image, name)
        return await self._settled(image, timeout_s=timeout_s, tell=tell)

    async def read(self, image_id: str) -> ObservedImage | None:
        """The image, or ``None`` when it is gone."""
        image = await self.vendor.look_image(image_id)
        return None if image is None or image.status == "deleted" else image

    async def find(self, name: str) -> ObservedImage | None:
        """The image of that name, or ``None`` when there is none that is or becomes usable."""
        images = await self.vendor.images(name) if name else []
        return next((image for image in images if image.status not in _GONE), None)

    async def delete(self, image_id: str, name: str, *, timeout_s: float = 0) -> None:
        """Delete an image for good and wait until the vendor knows none of that id.

        Raises:
            RefusedError: It bears another name than the state says, or the vendor said no.
            UnavailableError: It could not be seen to go; safe to repeat.
            InterruptedWorkError: The engine stopped before it was seen to go; safe to repeat.
        """
        await deletion.delete(
            "image",
            name,
            read=lambda: self.read(image_id),
            order=lambda: self.vendor.delete_image(image_id),
            timeout_s=timeout_s or self.patience.gone,
            stopping=self.stopping,
        )

    async def _existing(self, order: ImageOrder) -> ObservedImage | None:
        """The image that an earlier call ordered; failed ones of the same order are swept."""
        for image in await self.vendor.images(order.name):
            whose = image.machine_id
            if image.status in _GONE:
                if image.status == "failed" and whose == order.machine_id:
                    await self.vendor.delete_image(image.id)
                continue
            if whose and whose != order.machine_id:
                raise RefusedError(
                    f"an image named {order.name} exists already ({image.id}), of machine {whose}"
                    f" and not {order.machine_id}",
                    hint="delete it or take another name",
                )
            return image
        return None

    async def _saved(self, order: ImageOrder) -> ObservedImage:
        try:
            return await self.vendor.save_image(order)
        except UnknownOutcomeError:
            found = await self._looked_for(order)
            if found is None:
                raise
            return found

    async def _looked_for(self, order: ImageOrder) -> ObservedImage | None:
        async def look() -> ObservedImage | Pending[ObservedImage]:
            try:
                return await self._existing(order) or Pending("none of that name")
            except UnavailableError as error:
                return Pending(error.message)

        try:
            return await patiently(look, what=f"image {order.name}", timeout_s=_LOST_LOOKS_S)
        except WaitExpiredError:
            return None

    async def _settled(self, image: ObservedImage, *, timeout_s: float, tell: Tell) -> ObservedImage:
        last, said = image, ""
        what = f"image {image.name} ({image.id})"

        async def look() -> ObservedImage | Pending[ObservedImage]:
            nonlocal last, said
            try:
                seen = await self.read(image.id)
            except UnavailableError as error:
                return Pending(f"no answer ({error.message})")
            except HermesError as error:
                raise HalfMadeError(last, f"{what} exists, and then: {error.message}") from error
            if seen is None:
                raise RefusedError(f"{what} is gone", hint="run the same command again")
            last = seen
            if seen.status == "failed":
                return await self._failed(seen)
            if seen.status == "ready" and seen.bootable:
                return seen
            if seen.status != said:
                said = seen.status
                await tell(f"waiting for image {image.name} to be saved: {said}")
            return Pending(seen.status)

        try:
            return await unless_stopped(
                patiently(look, what=what, timeout_s=timeout_s or self.patience.saved), self.stopping, what
            )
        except InterruptedWorkError as error:
            raise HalfMadeError(last, f"interrupted while waiting for {what}; it exists") from error
        except WaitExpiredError as error:
            raise HalfMadeError(last, f"{what} was not saved in time: {error.seen}") from error

    async def _failed(self, image: ObservedImage) -> ObservedImage:
        """Nothing becomes of it any more: take it away, and say why it failed."""
        why = f"image {image.name} ({image.id}) could not be saved: {image.reason or 'the vendor does not say why'}"
        try:
            await self.vendor.delete_image(image.id)
        except HermesError as error:
            raise HalfMadeError(image, f"{why}; nor could it be removed: {error.message}") from error
        raise RefusedError(why, hint="run the same command again; it saves the disk anew")
