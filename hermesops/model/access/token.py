"""Tokens for the vendor's authenticated proxy."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.model.ids import MachineId

LONGEST_TOKEN_LIFE = timedelta(hours=6)
"""How long a proxy token of ours may live (seed, layer L5); the vendor would allow seven days."""

PLATFORM = "platform"
"""Purpose of the relay's token, with which it carries the platform's messages to the agent's API."""

PURPOSES = (PLATFORM, "health", "chat")
"""What tokens are for."""

LONGEST_ADDRESS = 512
"""Characters of ``ProxyToken.address``."""

_NEXT, _FORMER = " next", " former"


def next_of(purpose: str) -> str:
    """The stored purpose of a new token that is not in use yet."""
    return purpose + _NEXT


def former_of(purpose: str) -> str:
    """The stored purpose of a token that was replaced and is not revoked yet."""
    return purpose + _FORMER


def purpose_of(kept_as: str) -> str:
    """The purpose of a stored token, in use or not."""
    return kept_as.removesuffix(_NEXT).removesuffix(_FORMER)


@dataclass(frozen=True)
class KeptToken:
    """A stored token without its secret.

    Attributes:
        id: The vendor's id, for revoking it.
        purpose: Who uses it and for what; or ``next_of`` or ``former_of`` that.
    """

    id: str
    machine_id: MachineId
    purpose: str
    expires_at: datetime


@dataclass(frozen=True)
class ProxyToken:
    """One token for one machine and one purpose.

    Attributes:
        id: The vendor's id, for revoking it.
        purpose: Who uses it and for what, as ``chat`` or ``platform``; also its label at the vendor.
        token: What goes into ``X-Proxy-Token``. It is root on the machine: it opens every port of its loopback, and the
            vendor's toolbox.
        address: URL of the machine's ports, where ``{port}`` stands for one; empty if it was not requested.
    """

    id: str
    machine_id: MachineId
    purpose: str
    expires_at: datetime
    token: str = field(repr=False)
    address: str = ""

    def is_valid_at(self, timestamp: datetime) -> bool:
        """Whether the token is valid at that time."""
        return self.expires_at > timestamp
