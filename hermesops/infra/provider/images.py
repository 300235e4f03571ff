"""Saves, reads and deletes one image at the vendor, and waits until it is done.

As with machines, every action reads before it acts: the vendor has no idempotency key, so an image is found again by
its name and machine.
"""

from collections.abc import Mapping

from hermesops.base.waiting import Pending, WaitExpiredError
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.infra.provider import values
from hermesops.infra.provider.backoff import (
    Actions,
    Reporter,
    delete_and_wait,
    poll,
    refuse_if_stopping,
    refuse_other_name,
    unless_stopped,
)
from hermesops.infra.provider.observation import HalfMadeError, ImageSpec, InterruptedWorkError, ObservedImage
from hermesops.infra.provider.resource_types import IMAGE

_LOST_ANSWER_S = 10.0
"""How long an image whose order got no answer is searched for."""

_GONE = frozenset({"failed", "deleted"})


class Images(Actions):
    """The actions on images; see ``Machines``."""

    type = IMAGE

    async def order(self, inputs: Mapping[str, object], *, timeout_s: float, report: Reporter) -> ObservedImage:
        """Create an image from a resource's inputs."""
        spec = ImageSpec(name=values.text(inputs, "name"), machine_id=values.text(inputs, "machine_id"))
        return await self.create(spec, timeout_s=timeout_s, report=report)

    async def create(self, spec: ImageSpec, *, timeout_s: float, report: Reporter) -> ObservedImage:
        """Save a machine's disk, or adopt the image of that name and machine, and wait until it boots.

        Raises:
            HalfMadeError: The image exists and is not finished.
            RefusedError: The vendor refused or failed, or an image of another machine has the name.
            UnknownOutcomeError: No answer, and none of that name has appeared; the same call searches again first.
        """
        refuse_if_stopping(self.stopping, f"image {spec.name} was not begun")
        image = await self._existing(spec) or await self._saved(spec)
        await report(f"{spec.name} is image {image.id}")
        return await self._settled(image, timeout_s=timeout_s, report=report)

    async def update(
        self,
        image_id: str,
        name: str,
        news: Mapping[str, object],  # noqa: ARG002 - as of a machine
        *,
        timeout_s: float,
        report: Reporter,
    ) -> ObservedImage:
        """Wait for a half-made image; nothing else about an image can change.

        Raises:
            HalfMadeError: It is not finished.
            RefusedError: It is gone or failed, or has another name.
        """
        refuse_if_stopping(self.stopping, f"image {name} was not waited for")
        image = await self.read(image_id)
        if image is None:
            raise RefusedError(
                f"image {name} ({image_id}) is gone", hint=Hint(("stack", "preview"), "shows what is left")
            )
        refuse_other_name("image", image, name)
        return await self._settled(image, timeout_s=timeout_s, report=report)

    async def read(self, image_id: str, name: str = "") -> ObservedImage | None:
        """The image, or ``None`` when it is gone; without an id the one of that name that is or becomes usable."""
        if not image_id:
            images = await self.vendor.find_images(name) if name else []
            return next((image for image in images if image.status not in _GONE), None)
        image = await self.vendor.get_image(image_id)
        return None if image is None or image.status == "deleted" else image

    async def delete(self, image_id: str, name: str, *, timeout_s: float = 0) -> None:
        """Delete an image for good; see ``delete_and_wait``."""
        await delete_and_wait(
            "image",
            name,
            read=lambda: self.read(image_id),
            delete=lambda: self.vendor.delete_image(image_id),
            timeout_s=timeout_s or self.timeouts.gone,
            stopping=self.stopping,
        )

    async def _existing(self, spec: ImageSpec) -> ObservedImage | None:
        """The image that an earlier call ordered; failed ones of the same order are deleted."""
        for image in await self.vendor.find_images(spec.name):
            whose = image.machine_id
            if image.status in _GONE:
                if image.status == "failed" and whose == spec.machine_id:
                    await self.vendor.delete_image(image.id)
                continue
            if whose and whose != spec.machine_id:
                raise RefusedError(
                    f"an image named {spec.name} exists already ({image.id}), of machine {whose}"
                    f" and not {spec.machine_id}",
                    hint="delete it or take another name",
                )
            return image
        return None

    async def _saved(self, spec: ImageSpec) -> ObservedImage:
        """Start saving it; if the answer is lost, search for the started image."""

        async def find() -> ObservedImage | Pending[ObservedImage]:
            try:
                return await self._existing(spec) or Pending("none of that name")
            except UnavailableError as error:
                return Pending(error.message)

        try:
            return await self.vendor.save_image(spec)
        except UnknownOutcomeError as lost:
            try:
                return await poll(find, what=f"image {spec.name}", timeout_s=_LOST_ANSWER_S)
            except WaitExpiredError:
                raise lost from None

    async def _settled(self, image: ObservedImage, *, timeout_s: float, report: Reporter) -> ObservedImage:
        last, reported = image, ""
        what = f"image {image.name} ({image.id})"

        async def observe() -> ObservedImage | Pending[ObservedImage]:
            nonlocal last, reported
            try:
                observed = await self.read(image.id)
            except UnavailableError as error:
                return Pending(f"no answer ({error.message})")
            except HermesError as error:
                raise HalfMadeError(last, f"{what} exists, but: {error.message}") from error
            if observed is None:
                raise RefusedError(f"{what} is gone", hint="run the same command again")
            last = observed
            if observed.status == "failed":
                return await self._failed(observed)
            if observed.status == "ready" and observed.bootable:
                return observed
            if observed.status != reported:
                reported = observed.status
                await report(f"waiting for image {image.name} to be saved: {reported}")
            return Pending(observed.status)

        try:
            return await unless_stopped(
                poll(observe, what=what, timeout_s=timeout_s or self.timeouts.saved), self.stopping, what
            )
        except InterruptedWorkError as error:
            raise HalfMadeError(last, f"interrupted while waiting for {what}; it exists") from error
        except WaitExpiredError as error:
            raise HalfMadeError(last, f"{what} was not saved in time: {error.observed}") from error

    async def _failed(self, image: ObservedImage) -> ObservedImage:
        """Delete an image that will never be usable, and say why it failed."""
        why = f"image {image.name} ({image.id}) could not be saved: {image.reason or 'the vendor does not say why'}"
        try:
            await self.vendor.delete_image(image.id)
        except HermesError as error:
            raise HalfMadeError(image, f"{why}; removing it failed: {error.message}") from error
        raise RefusedError(why, hint="run the same command again; it saves the disk again")
