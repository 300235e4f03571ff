"""``Vendor`` on JustAVPS's client.

Loaded when the first machine is asked for and not before: the client's libraries take half a second.
"""

from http import HTTPStatus

from hermesops.errors import RefusedError
from hermesops.justavps import Client, Machine, MachineOrder
from hermesops.justavps.errors import AnswerError, NotFoundError
from hermesops.provider.ports import Order, Seen

_NO_SUCH_CALL = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}


class JustAvps:
    """JustAVPS, or a server that speaks its API.

    Args:
        client: Of the account whose machines these are.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def order(self, order: Order) -> Seen:
        """As ``Vendor.order``."""
        return _seen(
            await self._client.create_machine(
                MachineOrder(
                    name=order.name,
                    server_type=order.server_type,
                    region=order.region,
                    image_id=order.image_id or None,
                )
            )
        )

    async def find(self, name: str) -> Seen | None:
        """As ``Vendor.find``."""
        found = await self._client.find_machine(name)
        return None if found is None else _seen(found)

    async def look(self, machine_id: str) -> Seen | None:
        """As ``Vendor.look``."""
        try:
            return _seen(await self._client.get_machine(machine_id))
        except NotFoundError:
            return None

    async def delete(self, machine_id: str) -> None:
        """As ``Vendor.delete``."""
        await self._client.delete_machine(machine_id)

    async def resize(self, machine_id: str, server_type: str) -> None:
        """As ``Vendor.resize``; the caller has just seen the machine, so "not found" is about the call."""
        try:
            await self._client.resize_machine(machine_id, server_type=server_type)
        except AnswerError as error:
            if error.status in _NO_SUCH_CALL:
                raise RefusedError(
                    f"machine {machine_id} was not resized to {server_type}: this API cannot resize ({error.said})",
                    hint="keep the server type in the settings as it is",
                ) from error
            raise


def _seen(machine: Machine) -> Seen:
    return Seen(
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
