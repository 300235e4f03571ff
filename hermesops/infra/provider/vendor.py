"""The provider's calls to JustAVPS, in the provider's own types.

Loaded when the first machine or image is needed and not before: the client's libraries take half a second.
"""

from datetime import UTC, datetime
from http import HTTPStatus

from hermesops.errors import RefusedError, UnavailableError
from hermesops.infra.provider.observation import ImageSpec, MachineSpec, ObservedImage, ObservedMachine
from hermesops.vendor.justavps import Client, Image, Machine, MachineOrder
from hermesops.vendor.justavps.errors import AnswerError, NotFoundError, scrubbed
from hermesops.wire.protocol import DATA_VARIABLE

_ANCIENT = datetime(1970, 1, 1, tzinfo=UTC)
_NO_SUCH_CALL = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}


class JustAvps:
    """JustAVPS, or a server that speaks its API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create_machine(self, spec: MachineSpec) -> ObservedMachine:
        """Rent a machine, or find the one of that exact name; billing starts when the vendor accepts.

        Safe to repeat: it looks for the name before it orders and after every lost answer.

        Raises:
            RefusedError: The vendor refused.
            UnavailableError: No answer, and nothing was ordered.
            UnknownOutcomeError: No answer; a machine may exist.
        """
        order = MachineOrder(
            name=spec.name,
            server_type=spec.server_type,
            region=spec.region,
            image_id=spec.image_id or None,
            env_vars={DATA_VARIABLE: spec.data_gb} if spec.data_gb else {},
        )
        return _observed_machine(await self._client.create_machine(order))

    async def find_machine(self, name: str) -> ObservedMachine | None:
        """Return the machine of that exact name in the vendor's list; ``None`` if it is not listed."""
        machine = await self._client.find_machine(name)
        return None if machine is None else _observed_machine(machine)

    async def get_machine(self, machine_id: str) -> ObservedMachine | None:
        """Return the machine of that id; ``None`` if the vendor knows none."""
        try:
            return _observed_machine(await self._client.get_machine(machine_id))
        except NotFoundError:
            return None

    async def delete_machine(self, machine_id: str) -> None:
        """Destroy it for good; one that is gone already is a success."""
        await self._client.delete_machine(machine_id)

    async def resize_machine(self, machine_id: str, server_type: str) -> None:
        """Ask for another size; it reboots. Accepted is not done: read it afterwards.

        A "not found" that names no machine is about the call. One that does is temporary: the caller has just read
        the machine.
        """
        try:
            await self._client.resize_machine(machine_id, server_type=server_type)
        except AnswerError as error:
            if isinstance(error, NotFoundError) and "machine" in error.said.lower():
                raise UnavailableError(
                    f"machine {machine_id}exists, and was not resized: {error.message}",
                    hint="run the same command again",
                ) from error
            if error.status in _NO_SUCH_CALL:
                raise RefusedError(
                    f"machine {machine_id} was not resized to {server_type}: this API cannot resize ({error.said})",
                    hint="keep the server type in the settings as it is",
                ) from error
            raise

    async def save_image(self, spec: ImageSpec) -> ObservedImage:
        """Begin to save a disk, without looking for an earlier one.

        Raises:
            RefusedError: The vendor refused.
            UnavailableError: No answer, and nothing was begun.
            UnknownOutcomeError: No answer; an image may be on its way.
        """
        return _observed_image(await self._client.save_image(spec.machine_id, name=spec.name))

    async def find_images(self, name: str) -> list[ObservedImage]:
        """The images of that exact name in the vendor's list, the newest first; names are not unique."""
        named = [image for image in await self._client.list_images() if image.name == name]
        named.sort(key=lambda image: image.created_at or _ANCIENT, reverse=True)
        return [_observed_image(image) for image in named]

    async def get_image(self, image_id: str) -> ObservedImage | None:
        """The image of that id; ``None`` when the vendor knows none.

        A 404 alone is not believed: that could forget an image that is billed.
        """
        try:
            return _observed_image(await self._client.get_image(image_id))
        except NotFoundError:
            listed = (image for image in await self._client.list_images() if image.id == image_id)
            return next((_observed_image(image) for image in listed), None)

    async def delete_image(self, image_id: str) -> None:
        """Delete it for good; one that is gone already is a success."""
        await self._client.delete_image(image_id)


def _observed_image(image: Image) -> ObservedImage:
    return ObservedImage(
        id=image.id,
        name=image.name,
        status=image.status.value,
        bootable=image.bootable,
        machine_id=image.source_machine_id or "",
        reason=scrubbed(image.description or ""),
        created_at=image.created_at.isoformat() if image.created_at else "",
    )


def _observed_machine(machine: Machine) -> ObservedMachine:
    return ObservedMachine(
        id=machine.id,
        name=machine.name,
        status=machine.status.value,
        stage=machine.provisioning_stage,
        slug=machine.slug,
        region=machine.region,
        server_type=machine.server_type,
        image_id=machine.image_id or "",
        ip=machine.ip or "",
        port_template=machine.urls.port_template,
        created_at=machine.created_at.isoformat() if machine.created_at else "",
    )
