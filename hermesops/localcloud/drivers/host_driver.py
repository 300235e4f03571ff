"""A driver on this computer, with what a server has to know of the computer besides."""

from ipaddress import IPv4Address
from typing import Protocol

from hermesops.localcloud.drivers.interface import Driver

MODEL_PORT = 18080
"""Port of the model router on the machines' side."""

OBJECT_STORE_PORT = 18081
"""Port of the object store there."""

PLATFORM_PORT = 18082
"""Port of the platform's service there; their links let nothing through but these three."""


class Room(Protocol):
    """What is free for machines; its text holds the figures."""

    @property
    def machines(self) -> int:
        """How many more machines would boot."""


class HostDriver(Driver, Protocol):
    """A driver that also says where machines find this computer, once it is open."""

    @property
    def gateway(self) -> IPv4Address:
        """The one address of this computer that machines reach."""

    @property
    def subnet(self) -> str:
        """Addresses of the machines' links, in CIDR notation; empty when there are none of its own."""

    @property
    def unlimited(self) -> tuple[str, ...]:
        """What of a server type this computer holds no machine to: of ``memory``, ``cpu``, ``disk``."""

    async def room(self) -> Room:
        """Count what is free."""
