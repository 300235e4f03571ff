"""JustAVPS's HTTP API: machines, images, proxy tokens, sizes, account. The toolbox is in ``toolbox.py``."""

from dataclasses import replace
from functools import partial

import httpx

from hermesops.vendor.justavps.connections import Closing
from hermesops.vendor.justavps.errors import ChangeNotJsonError, ReadNotJsonError
from hermesops.vendor.justavps.ordering import newest_named, order_once
from hermesops.vendor.justavps.sharing import Shared
from hermesops.vendor.justavps.toolbox import Toolbox
from hermesops.vendor.justavps.transport import Call, Transport
from hermesops.vendor.justavps.wire import (
    Account,
    Image,
    Machine,
    MachineOrder,
    ProxyToken,
    ServerType,
    Usage,
    UsageAnswer,
)

_SLOW_READ_S = 60.0
"""One machine's answer was seen to take six seconds; leave ten times that."""

_ORDER_S = 300.0
"""The vendor's only public client raised this from 30 to 300 s on its first day."""

_LARGEST_LIST = 512 << 20
"""Bytes of all machines of an account: 4 KB each, with room for 100,000."""


class Client(Closing):
    """One account at JustAVPS, or at a server that speaks its API. Use as an async context manager.

    Safe for many tasks at once. Reads are retried; changes never are.

    Args:
        base_url: With ``/api/v1``, as ``https://justavps.com/api/v1``.
        transport: Replaces the network in tests.
    """

    def __init__(self, base_url: str, api_key: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = Transport(base_url, api_key, transport=transport)
        self.toolbox = Toolbox(self._transport)
        everything = replace(_read("/machines"), largest=_LARGEST_LIST)
        self._list = Shared(partial(self._transport.ask_for_list, everything, "machines", Machine))

    async def aclose(self) -> None:
        """Close all connections to the API."""
        await self._list.close()
        await self._transport.aclose()

    async def list_machines(self) -> list[Machine]:
        """All machines of the account that are not deleted; the API has no filter and no pages.

        Read after this was called, and once for all concurrent callers: each create looks for its name.
        """
        return list(await self._list())

    async def find_machine(self, name: str) -> Machine | None:
        """The newest machine of exactly that name, or ``None``. Names are not unique at the vendor."""
        return newest_named(await self.list_machines(), name)

    async def get_machine(self, machine_id: str) -> Machine:
        """Read one machine.

        Raises:
            NotFoundError: It does not exist, or was ordered within the last minute.
            ReadNotJsonError: The answer is of another machine.
        """
        call = _read(f"/machines/{machine_id}")
        machine = await self._transport.ask_for(call, Machine)
        _refuse_other(call, "machine", machine.id == machine_id)
        return machine

    async def create_machine(self, order: MachineOrder) -> Machine:
        """Rent a machine, once: one of exactly that name that exists already is returned instead.

        Billing starts when JustAVPS accepts. The order is sent at most once; after a lost answer or a 5xx the
        machine is looked for by name, five times, two seconds apart.

        Raises:
            PaymentRequiredError: No payment method; nothing was ordered.
            UnprocessableError: Not sold there, or the image is larger than the disk; nothing was ordered.
            OrderUnknownError: The answer was lost and no machine of that name has appeared: look again before ordering.

        Source:
            kortix-ai/suna at 1de0693, 2026-04-17: orders answered with 5xx that were carried out.
        """
        return await order_once(order, self.find_machine, self.post_order)

    async def post_order(self, order: MachineOrder) -> Machine:
        """Send one order without a look for its name. For ``create_machine`` alone."""
        call = Call("POST", "/machines", body=order.to_wire(), read_timeout_s=_ORDER_S)
        machine = await self._transport.ask_for(call, Machine)
        _refuse_other(call, "machine", machine.name == order.name)
        return machine

    async def delete_machine(self, machine_id: str) -> None:
        """Destroy a machine and its disk for good and stop its billing. One that is gone already is success."""
        await self._transport.ask_gone(Call("DELETE", f"/machines/{machine_id}", read_timeout_s=_SLOW_READ_S))

    async def start_machine(self, machine_id: str) -> None:
        """Ask the vendor to boot a stopped machine."""
        await self._do(machine_id, "start")

    async def stop_machine(self, machine_id: str) -> None:
        """Shut a machine down; it may still be billed."""
        await self._do(machine_id, "stop")

    async def reboot_machine(self, machine_id: str) -> None:
        """Reboot a machine the hard way, as if its power had failed; it is away for about half a minute."""
        await self._do(machine_id, "reboot")

    async def resize_machine(self, machine_id: str, *, server_type: str) -> None:
        """Change a machine's size; it reboots. Whether a disk can shrink again is not known: assume it cannot."""
        await self._do(machine_id, "resize", {"server_type": server_type})

    async def _do(self, machine_id: str, verb: str, body: object = None) -> None:
        await self._transport.ask(
            Call("POST", f"/machines/{machine_id}/{verb}", body=body, read_timeout_s=_SLOW_READ_S)
        )

    async def list_images(self) -> list[Image]:
        """All images of the account that are not deleted."""
        return await self._transport.ask_for_list(_read("/images"), "images", Image)

    async def get_image(self, image_id: str) -> Image:
        """Read the image with that id."""
        call = _read(f"/images/{image_id}")
        image = await self._transport.ask_for(call, Image)
        _refuse_other(call, "image", image.id == image_id)
        return image

    async def delete_image(self, image_id: str) -> None:
        """Delete an image for good. One that is gone already is success."""
        await self._transport.ask_gone(Call("DELETE", f"/images/{image_id}", read_timeout_s=_SLOW_READ_S))

    async def save_image(self, machine_id: str, *, name: str) -> Image:
        """Begin to save a ready machine's disk as an image; ``creating`` at first, for up to tens of minutes.

        The disk is copied as of one instant, as if the power had failed then. Names are not unique.
        """
        call = Call("POST", f"/machines/{machine_id}/image", body={"name": name}, read_timeout_s=_SLOW_READ_S)
        return await self._transport.ask_for(call, Image)

    async def issue_proxy_token(self, machine_id: str, *, label: str, lifetime_s: int) -> ProxyToken:
        """Create a token that opens the machine's ports through the vendor's proxy.

        ``label`` is its purpose, as it appears in the vendor's list. The vendor caps ``lifetime_s`` at seven days,
        we at six hours.
        """
        body = {"machine_id": machine_id, "label": label, "expires_in_seconds": lifetime_s}
        return await self._transport.ask_for(Call("POST", "/proxy-tokens", body=body), ProxyToken)

    async def revoke_proxy_token(self, token_id: str) -> None:
        """End a token before its time. One that is gone already is success."""
        await self._transport.ask_gone(Call("DELETE", f"/proxy-tokens/{token_id}"))

    async def list_server_types(self, *, region: str, provider: str = "cloud") -> list[ServerType]:
        """The sizes sold in a region, with ``available`` saying whether one can be had now."""
        call = _read("/server-types", query={"provider": provider, "region": region})
        return await self._transport.ask_for_list(call, "server_types", ServerType)

    async def get_account(self) -> Account:
        """The account of this key; the cheapest way to check that the key works."""
        return await self._transport.ask_for(_read("/account"), Account)

    async def get_usage(self) -> Usage:
        """Read the usage of the current period, with the vendor's own estimate of its cost."""
        return (await self._transport.ask_for(_read("/account/usage"), UsageAnswer)).current_period


def _refuse_other(call: Call, what: str, is_meant: bool) -> None:  # noqa: FBT001 - what was found out
    """Refuse an answer about another thing: the next change would be made to that one."""
    if not is_meant:
        kind = ChangeNotJsonError if call.changes else ReadNotJsonError
        raise kind(call.shown, f"an answer about another {what}", status=200)


def _read(path: str, *, query: dict[str, str] | None = None) -> Call:
    return Call("GET", path, query=query or {}, read_timeout_s=_SLOW_READ_S, changes=False)
