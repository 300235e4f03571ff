"""``Vendor`` and ``ImageVendor`` on JustAVPS's client.

Loaded when the first machine is asked for and not before: the client's libraries take half a second.
"""

from datetime import UTC, datetime
from http import HTTPStatus

from hermesops.errors import RefusedError, UnavailableError
from hermesops.justavps import Client, Image, Machine, MachineOrder
from hermesops.justavps.errors import AnswerError, NotFoundError, scrubbed
from hermesops.node.protocol import DATA_VARIABLE
from hermesops.provider.ports import ImageOrder, ObservedImage, ObservedMachine, Order

_ANCIENT = datetime(1970, 1, 1, tzinfo=UTC)
_NO_SUCH_CALL = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}


class JustAvps:
    """JustAVPS, or a server that speaks its API.

    Args:
        client: Of the account whose machines these are.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def order(self, order: Order) -> ObservedMachine:
        """As ``Vendor.order``."""
        return _seen(
            await self._client.create_machine(
                MachineOrder(
                    name=order.name,
                    server_type=order.server_type,
                    region=order.region,
                    image_id=order.image_id or None,
                    env_vars={DATA_VARIABLE: order.data_gb} if order.data_gb else {},
                )
            )
        )

    async def find(self, name: str) -> ObservedMachine | None:
        """As ``Vendor.find``."""
        found = await self._client.find_machine(name)
        return None if found is None else _seen(found)

    async def observe(self, machine_id: str) -> ObservedMachine | None:
        """As ``Vendor.look``."""
        try:
            return _seen(await self._client.get_machine(machine_id))
        except NotFoundError:
            return None

    async def delete(self, machine_id: str) -> None:
        """As ``Vendor.delete``."""
        await self._client.delete_machine(machine_id)

    async def resize(self, machine_id: str, server_type: str) -> None:
        """As ``Vendor.resize``; a "not found" that names no machine is about the call.

        One that does is as passing as every other such answer: the caller has just seen the machine.
        """
        try:
            await self._client.resize_machine(machine_id, server_type=server_type)
        except AnswerError as error:
            if isinstance(error, NotFoundError) and "machine" in error.said.lower():
                raise UnavailableError(
                    f"machine {machine_id}, which was seen just before, was not resized: {error.message}",
                    hint="run the same command again",
                ) from error
            if error.status in _NO_SUCH_CALL:
                raise RefusedError(
                    f"machine {machine_id} was not resized to {server_type}: this API cannot resize ({error.said})",
                    hint="keep the server type in the settings as it is",
                ) from error
            raise

    async def save_image(self, order: ImageOrder) -> ObservedImage:
        """As ``ImageVendor.save_image``."""
        return _seen_image(await self._client.save_image(order.machine_id, name=order.name))

    async def images(self, name: str) -> list[ObservedImage]:
        """As ``ImageVendor.images``."""
        named = [image for image in await self._client.list_images() if image.name == name]
        named.sort(key=lambda image: image.created_at or _ANCIENT, reverse=True)
        return [_seen_image(image) for image in named]

    async def look_image(self, image_id: str) -> ObservedImage | None:
        """As ``ImageVendor.look_image``; who believes a 404 alone forgets an image that is billed."""
        try:
            return _seen_image(await self._client.get_image(image_id))
        except NotFoundError:
            listed = (image for image in await self._client.list_images() if image.id == image_id)
            return next((_seen_image(image) for image in listed), None)

    async def delete_image(self, image_id: str) -> None:
        """As ``ImageVendor.delete_image``."""
        await self._client.delete_image(image_id)


def _seen_image(image: Image) -> ObservedImage:
    return ObservedImage(
        id=image.id,
        name=image.name,
        status=image.status.value,
        bootable=image.bootable,
        machine_id=image.source_machine_id or "",
        reason=scrubbed(image.description or ""),
        created_at=image.created_at.isoformat() if image.created_at else "",
    )


def _seen(machine: Machine) -> ObservedMachine:
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
