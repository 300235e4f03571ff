"""Who keeps which resource type: takes properties, calls the action, answers what is there now."""

from collections.abc import Mapping
from typing import Protocol

from hermesops.errors import UsageError
from hermesops.provider import values
from hermesops.provider.actions import Machines, Tell
from hermesops.provider.image import IMAGE
from hermesops.provider.image_actions import Images
from hermesops.provider.machine import MACHINE
from hermesops.provider.ports import ImageOrder, Order, Thing
from hermesops.provider.resource import Kind

Values = Mapping[str, object]


class Keeper(Protocol):
    """Brings about what is wanted of one resource type. Timeouts are seconds; 0 takes the default."""

    kind: Kind

    async def create(self, inputs: Values, *, timeout_s: float, tell: Tell) -> Thing:
        """Make one of these inputs."""

    async def update(self, thing_id: str, name: str, news: Values, *, timeout_s: float, tell: Tell) -> Thing:
        """Bring the one of that id, which must bear that name, to new inputs."""

    async def read(self, thing_id: str, name: str) -> Thing | None:
        """What is there; ``None`` when nothing is.

        The name may be empty, as in an import. Without an id the one of that name is meant: so the embedded engine
        looks up what an interrupted create has made.
        """

    async def delete(self, thing_id: str, name: str, *, timeout_s: float) -> None:
        """Take the one of that id away, which must bear that name."""


class MachineKeeper:
    """Keeps machines."""

    kind = MACHINE

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    async def create(self, inputs: Values, *, timeout_s: float, tell: Tell) -> Thing:
        """Rent one."""
        order = Order(
            name=values.text(inputs, "name"),
            server_type=values.text(inputs, "server_type"),
            region=values.text(inputs, "region"),
            image_id=values.text(inputs, "image_id"),
            data_gb=values.text(inputs, "data_gb"),
        )
        return await self._machines.create(order, timeout_s=timeout_s, tell=tell)

    async def update(self, thing_id: str, name: str, news: Values, *, timeout_s: float, tell: Tell) -> Thing:
        """Resize or finish one."""
        size = values.text(news, "server_type")
        return await self._machines.update(thing_id, name, size, timeout_s=timeout_s, tell=tell)

    async def read(self, thing_id: str, name: str) -> Thing | None:
        """Look at one."""
        return await (self._machines.read(thing_id, name) if thing_id else self._machines.find(name))

    async def delete(self, thing_id: str, name: str, *, timeout_s: float) -> None:
        """Destroy one."""
        await self._machines.delete(thing_id, name, timeout_s=timeout_s)


class ImageKeeper:
    """Keeps images."""

    kind = IMAGE

    def __init__(self, images: Images) -> None:
        self._images = images

    async def create(self, inputs: Values, *, timeout_s: float, tell: Tell) -> Thing:
        """Save one."""
        order = ImageOrder(name=values.text(inputs, "name"), machine_id=values.text(inputs, "machine_id"))
        return await self._images.create(order, timeout_s=timeout_s, tell=tell)

    async def update(self, thing_id: str, name: str, news: Values, *, timeout_s: float, tell: Tell) -> Thing:
        """Finish one."""
        del news
        return await self._images.finish(thing_id, name, timeout_s=timeout_s, tell=tell)

    async def read(self, thing_id: str, name: str) -> Thing | None:
        """Look at one."""
        return await (self._images.read(thing_id) if thing_id else self._images.find(name))

    async def delete(self, thing_id: str, name: str, *, timeout_s: float) -> None:
        """Delete one."""
        await self._images.delete(thing_id, name, timeout_s=timeout_s)


def keeper_of(keepers: Mapping[str, Keeper], urn: str) -> Keeper:
    """Who keeps the resource of that URN.

    Raises:
        UsageError: Nobody: the type is not ours.
    """
    kind = urn.split("::")[2].rpartition("$")[2] if urn.count("::") > 1 else ""
    if kind not in keepers:
        raise UsageError(f"the justavps provider has no resource type {kind!r}; it has {', '.join(keepers)}")
    return keepers[kind]
