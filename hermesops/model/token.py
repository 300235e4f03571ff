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
    """Under what a token is kept that was made for a purpose and has not been tried yet."""
    return purpose + _NEXT


def former_of(purpose: str) -> str:
    """Under what a token is kept that another has replaced, until it is revoked."""
    return purpose + _FORMER


def purpose_of(kept_as: str) -> str:
    """What a token is, was or will be for."""
    return kept_as.removesuffix(_NEXT).removesuffix(_FORMER)


@dataclass(frozen=True)
class KeptToken:
    """What may be shown of a token.

    Attributes:
        id: The vendor's id of it, with which it is revoked.
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
        id: The vendor's id of it, with which it is revoked.
        purpose: Who uses it and for what, as ``chat`` or ``platform``; also its label at the vendor.
        token: What goes into ``X-Proxy-Token``. It is root on the machine: it opens every port of its loopback, and the
            vendor's toolbox.
        address: URL of the machine's ports, where ``{port}`` stands for one; empty where nobody asked for it.
    """

    id: str
    machine_id: MachineId
    purpose: str
    expires_at: datetime
    token: str = field(repr=False)
    address: str = ""

    def is_valid_at(self, moment: datetime) -> bool:
        """Whether it can still be used at ``moment``."""
        return self.expires_at > moment
