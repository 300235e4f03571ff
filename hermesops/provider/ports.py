"""What the provider needs of a vendor: questions and orders about machines and images, in the provider's own words."""

from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import HermesError


class Thing(Protocol):
    """Something at the vendor, as it was seen last."""

    @property
    def id(self) -> str:
        """The vendor's id of it."""
        ...

    @property
    def name(self) -> str:
        """The name it was ordered by."""
        ...

    @property
    def status(self) -> str:
        """The vendor's word for its state."""
        ...


@dataclass(frozen=True)
class Order:
    """What to rent.

    Attributes:
        image_id: Empty for the vendor's own base.
        data_gb: Gigabytes of its data volume; empty for none.
    """

    name: str
    server_type: str
    region: str
    image_id: str
    data_gb: str = ""


@dataclass(frozen=True)
class ObservedMachine:
    """A machine as the vendor described it just now; what it did not say is empty.

    Attributes:
        status: ``provisioning``, ``ready``, ``stopped``, ``error`` or ``deleted``.
        stage: How far its making has come, in the vendor's words.
        created_at: ISO 8601, in UTC.
    """

    id: str
    name: str
    status: str
    stage: str = ""
    slug: str = ""
    region: str = ""
    server_type: str = ""
    image_id: str = ""
    ip: str = ""
    port_template: str = ""
    created_at: str = ""


class Vendor(Protocol):
    """Where machines come from."""

    async def order(self, order: Order) -> ObservedMachine:
        """Rent a machine, or find the one of that exact name; billing starts when the vendor accepts.

        Safe to repeat: it looks for the name before it orders and after every lost answer.

        Raises:
            RefusedError: The vendor said no.
            UnavailableError: No answer, and nothing was ordered.
            UnknownOutcomeError: No answer; a machine may exist.
        """
        ...

    async def find(self, name: str) -> ObservedMachine | None:
        """The machine of that exact name in the vendor's list."""
        ...

    async def observe(self, machine_id: str) -> ObservedMachine | None:
        """The machine of that id; ``None`` when the vendor knows none."""
        ...

    async def delete(self, machine_id: str) -> None:
        """Destroy it for good; one that is gone already is a success."""
        ...

    async def resize(self, machine_id: str, server_type: str) -> None:
        """Ask for another size; it reboots. Accepted is not done: look."""
        ...


@dataclass(frozen=True)
class ImageOrder:
    """What to save: whose disk, under which name."""

    name: str
    machine_id: str


@dataclass(frozen=True)
class ObservedImage:
    """An image as the vendor described it just now; what it did not say is empty.

    Attributes:
        status: ``creating``, ``ready``, ``failed`` or ``deleted``.
        bootable: Whether machines can be ordered from it; the vendor says ``ready`` a little before.
        machine_id: Whose disk it is.
        reason: Why it failed, where the vendor says so.
        created_at: ISO 8601, in UTC.
    """

    id: str
    name: str
    status: str
    bootable: bool = False
    machine_id: str = ""
    reason: str = ""
    created_at: str = ""


class ImageVendor(Protocol):
    """Where images come from."""

    async def save_image(self, order: ImageOrder) -> ObservedImage:
        """Begin to save a disk, blindly.

        Raises:
            RefusedError: The vendor said no.
            UnavailableError: No answer, and nothing was begun.
            UnknownOutcomeError: No answer; an image may be on its way.
        """
        ...

    async def images(self, name: str) -> list[ObservedImage]:
        """The images of that exact name in the vendor's list, the newest first; names are not unique."""
        ...

    async def look_image(self, image_id: str) -> ObservedImage | None:
        """The image of that id; ``None`` when the vendor knows none."""
        ...

    async def delete_image(self, image_id: str) -> None:
        """Delete it for good; one that is gone already is a success."""
        ...


class HalfMadeError(HermesError):
    """It exists, is billed, and is not what was asked for (yet): keep its id.

    Args:
        thing: As it was last seen.
        reason: What is missing, in one line.
    """

    def __init__(self, thing: Thing, reason: str) -> None:
        super().__init__(reason)
        self.thing = thing


class InterruptedWorkError(HermesError):
    """The engine asked to stop before it was done; the same command does the rest."""
