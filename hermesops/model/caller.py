"""A service of the platform that may call the relay: its name, and the certificate that proves it. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from hermesops.errors import UsageError

_URI = re.compile(r"hermesops://(?P<environment>[a-z0-9_]+)/service/(?P<name>[a-z][a-z0-9-]{0,30})")


@dataclass(frozen=True)
class CallerName:
    """What a certificate says its service is: one URI ``hermesops://<environment>/service/<name>``.

    No machine's certificate has such a URI, and no service's has a machine's.
    """

    environment: str
    name: str

    def __post_init__(self) -> None:
        """Refuse a name that no certificate can carry.

        Raises:
            UsageError: It is not lower-case letters, digits and hyphens, or is too long.
        """
        if not _URI.fullmatch(self.uris[0]):
            raise UsageError(f"{self.name!r} is no service's name: lower-case letters, digits and -, at most 31")

    @property
    def uris(self) -> tuple[str, ...]:
        """As it stands in the certificate."""
        return (f"hermesops://{self.environment}/service/{self.name}",)

    @property
    def common_name(self) -> str:
        """What tools show of the certificate; nothing is decided by it."""
        return self.name

    @classmethod
    def parse(cls, uris: Sequence[str]) -> Self | None:
        """Read it; ``None`` for what is not exactly one service of one environment."""
        match = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
        return cls(match["environment"], match["name"]) if match else None


@dataclass(frozen=True)
class Caller:
    """A certificate that was issued to a service.

    Attributes:
        serial: Hexadecimal digits.
        name: The service's.
        key: SHA-256 of its public key, hexadecimal.
        revoked_at: From then on it opens nothing; ``None`` while it is good.
        why: It was admitted, or revoked.
    """

    serial: str
    name: str
    key: str
    issued_at: datetime
    not_after: datetime
    revoked_at: datetime | None = None
    why: str = ""
