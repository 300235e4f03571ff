"""What the provider needs of a vendor: five questions and orders, in the provider's own words."""

from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import HermesError


@dataclass(frozen=True)
class Order:
    """What to rent.

    Attributes:
        image_id: Empty for the vendor's own base.
    """

    name: str
    server_type: str
    region: str
    image_id: str


@dataclass(frozen=True)
class Seen:
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

    async def order(self, order: Order) -> Seen:
        """Rent a machine, or find the one of that exact name; billing starts when the vendor accepts.

        Safe to repeat: it looks for the name before it orders and after every lost answer.

        Raises:
            RefusedError: The vendor said no.
            UnavailableError: No answer, and nothing was ordered.
            UnknownOutcomeError: No answer; a machine may exist.
        """
        ...

    async def find(self, name: str) -> Seen | None:
        """The machine of that exact name in the vendor's list."""
        ...

    async def look(self, machine_id: str) -> Seen | None:
        """The machine of that id; ``None`` when the vendor knows none."""
        ...

    async def delete(self, machine_id: str) -> None:
        """Destroy it for good; one that is gone already is a success."""
        ...

    async def resize(self, machine_id: str, server_type: str) -> None:
        """Ask for another size; it reboots. Accepted is not done: look."""
        ...


class HalfMadeError(HermesError):
    """The machine exists, is billed, and is not what was asked for (yet): keep its id.

    Args:
        machine: As it was last seen.
        reason: What is missing, in one line.
    """

    def __init__(self, machine: Seen, reason: str) -> None:
        super().__init__(reason)
        self.machine = machine


class InterruptedWorkError(HermesError):
    """The engine asked to stop before anything was changed."""
