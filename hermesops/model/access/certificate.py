"""Certificates of machines and of the services that may call the relay: their names and rows. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from hermesops.errors import RefusedError, UsageError
from hermesops.model.ids import CellName, InstanceId, MachineId

_SCHEME = "hermesops://"

OURS = "hermesops"
"""Name of hermesops' own processes in their certificates; no service that an operator admits has it, nor one that
begins with it and a hyphen."""


def is_ours(name: str) -> bool:
    """Whether a service's name is one of hermesops' own processes."""
    return name == OURS or name.startswith(f"{OURS}-")


class KeyTakenError(RefusedError):
    """A machine asks for a certificate with another machine's key: it runs on a copy of that machine's disk."""


@dataclass(frozen=True)
class MachineNames:
    """The names in a machine's certificate: URIs ``hermesops://<environment>/<kind>/<id>``.

    Attributes:
        cell: ``None``, like ``instance_id``, while the machine has no user.
    """

    environment: str
    machine_id: MachineId
    cell: CellName | None = None
    instance_id: InstanceId | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """Subject alternative names of the machine's certificate, as URIs."""
        named = (("machine", self.machine_id), ("cell", self.cell), ("instance", self.instance_id))
        return tuple(f"{_SCHEME}{self.environment}/{kind}/{name}" for kind, name in named if name)

    @property
    def subject(self) -> tuple[tuple[str, str], ...]:
        """The attributes of the subject in their order.

        Monitoring's ingest reads them, because nginx shows no URI of a certificate.
        """
        named = (
            ("CN", self.machine_id),
            ("O", self.environment),
            ("OU", "machine"),
            ("L", self.cell),
            ("UID", self.instance_id),
        )
        return tuple((kind, name) for kind, name in named if name)

    @classmethod
    def parse(cls, uris: Sequence[str]) -> "MachineNames | None":
        """Read the URIs; ``None`` unless they name one machine of one environment."""
        names: dict[str, str] = {}
        environments = set()
        for uri in uris:
            environment, _, rest = uri.removeprefix(_SCHEME).partition("/")
            kind, _, name = rest.partition("/")
            if not uri.startswith(_SCHEME) or kind not in {"machine", "cell", "instance"} or not name or kind in names:
                return None
            names[kind] = name
            environments.add(environment)
        if len(environments) != 1 or "machine" not in names:
            return None
        cell, instance = names.get("cell"), names.get("instance")
        return cls(
            environments.pop(),
            MachineId(names["machine"]),
            CellName(cell) if cell else None,
            InstanceId(instance) if instance else None,
        )


@dataclass(frozen=True)
class Certificate:
    """A certificate that was issued to a machine.

    Attributes:
        serial: Hexadecimal digits.
        key: SHA-256 of its public key, hexadecimal.
        revoked_at: ``None`` while it is not revoked.
        why: It was revoked.
    """

    serial: str
    key: str
    machine_id: MachineId
    instance_id: InstanceId | None
    cell: CellName | None
    issued_at: datetime
    not_after: datetime
    revoked_at: datetime | None = None
    why: str = ""


_URI = re.compile(r"hermesops://(?P<environment>[a-z0-9_]+)/service/(?P<name>[a-z][a-z0-9-]{0,30})")


@dataclass(frozen=True)
class CallerName:
    """The name in a service's certificate: one URI ``hermesops://<environment>/service/<name>``.

    No machine's certificate has such a URI, and no service's has a machine's.
    """

    environment: str
    name: str

    def __post_init__(self) -> None:
        """Check the name.

        Raises:
            UsageError: It is not lower-case letters, digits and hyphens, or is too long.
        """
        if not _URI.fullmatch(self.uris[0]):
            raise UsageError(f"{self.name!r} is no service's name: lower-case letters, digits and -, at most 31")

    @property
    def uris(self) -> tuple[str, ...]:
        """Subject alternative name of the caller's certificate, as a URI."""
        return (f"hermesops://{self.environment}/service/{self.name}",)

    @property
    def subject(self) -> tuple[tuple[str, str], ...]:
        """The attributes of the subject in their order; see ``MachineNames.subject``."""
        return (("CN", self.name), ("O", self.environment), ("OU", "service"))

    @classmethod
    def parse(cls, uris: Sequence[str]) -> Self | None:
        """Read the URIs; ``None`` unless they name one service of one environment."""
        match = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
        return cls(match["environment"], match["name"]) if match else None


@dataclass(frozen=True)
class Caller:
    """A certificate that was issued to a service.

    Attributes:
        serial: Hexadecimal digits.
        key: SHA-256 of its public key, hexadecimal.
        revoked_at: ``None`` while it is not revoked.
        why: It was admitted, or revoked.
    """

    serial: str
    name: str
    key: str
    issued_at: datetime
    not_after: datetime
    revoked_at: datetime | None = None
    why: str = ""
