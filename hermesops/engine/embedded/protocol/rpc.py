"""What the engine asks of a provider plugin, and how a plugin says no. No process and no socket here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermesops.engine.embedded.protocol.opaque import Message

DIED = "error reading from server: EOF"
"""How a call ends whose plugin died under it, in the CLI's words."""


@dataclass(frozen=True)
class HalfMade:
    """What a plugin reports when the thing exists but did not become what it should (``ErrorResourceInitFailed``)."""

    id: str
    properties: Mapping[str, Any]
    reasons: tuple[str, ...]


@dataclass
class ProviderFaultError(Exception):
    """A plugin's call failed.

    Attributes:
        code: The gRPC status name, as ``UNKNOWN`` or ``UNAVAILABLE``.
        half_made: Set when something was made all the same.
    """

    code: str
    message: str
    half_made: HalfMade | None = None
    about: str = field(default="")

    def __str__(self) -> str:
        return self.message


def describe(fault: ProviderFaultError) -> str:
    """Put a plugin's error as the CLI does."""
    if fault.half_made is None:
        return fault.message
    reasons = fault.half_made.reasons
    lines = "".join(f"\t* {reason}\n" for reason in reasons)
    return f"{len(reasons)} error{'s' * (len(reasons) != 1)} occurred:\n{lines}\n"


class Connection(Protocol):
    """One running plugin process."""

    async def call(self, method: str, request: Message) -> Message:
        """Send one request of the provider protocol and await its answer.

        Raises:
            ProviderFaultError: The plugin refused, failed or died.
        """

    async def close(self) -> None:
        """End the process; safe to call twice."""


class PluginHost(Protocol):
    """Starts plugins."""

    async def start(self, package: str) -> Connection:
        """Start the plugin of a package.

        Raises:
            RefusedError: There is no such plugin.
            UnavailableError: It did not come up.
        """

    async def close(self) -> None:
        """End what was started and not asked for."""
