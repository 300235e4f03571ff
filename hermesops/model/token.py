"""Tokens for the vendor's authenticated proxy."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermesops.model.ids import MachineId

LONGEST_TOKEN_LIFE = timedelta(hours=6)
"""How long a proxy token of ours may live (seed, layer L5); the vendor would allow seven days."""


@dataclass(frozen=True)
class ProxyToken:
    """One token for one machine and one purpose.

    Attributes:
        id: The vendor's id of it, with which it is revoked.
        purpose: Who uses it and for what, as ``chat`` or ``platform``; also its label at the vendor.
        token: What goes into ``X-Proxy-Token``.
    """

    id: str
    machine_id: MachineId
    purpose: str
    expires_at: datetime
    token: str = field(repr=False)

    def lives_until(self, moment: datetime) -> bool:
        """Whether it can still be used at ``moment``."""
        return self.expires_at > moment
