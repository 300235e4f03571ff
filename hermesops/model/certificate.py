"""A machine's certificate: the names in it, and what the registry keeps of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hermesops.errors import RefusedError
from hermesops.model.ids import CellName, InstanceId, MachineId

_SCHEME = "hermesops://"


class KeyTakenError(RefusedError):
    """A machine asks for a certificate with another machine's key: it was made of a copy of that one's disk."""


@dataclass(frozen=True)
class MachineNames:
    """What a certificate says its machine is: URIs ``hermesops://<environment>/<kind>/<id>``.

    Attributes:
        cell: Only once the machine is somebody's, like ``instance_id``.
    """

    environment: str
    machine_id: MachineId
    cell: CellName | None = None
    instance_id: InstanceId | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """As they stand in the certificate."""
        named = (("machine", self.machine_id), ("cell", self.cell), ("instance", self.instance_id))
        return tuple(f"{_SCHEME}{self.environment}/{kind}/{name}" for kind, name in named if name)

    @property
    def common_name(self) -> str:
        """What tools show of the certificate; nothing is decided by it."""
        return self.machine_id

    @classmethod
    def parse(cls, uris: Sequence[str]) -> "MachineNames | None":
        """Read them; ``None`` for those of anything but one machine of one environment."""
        found: dict[str, str] = {}
        environments = set()
        for uri in uris:
            environment, _, rest = uri.removeprefix(_SCHEME).partition("/")
            kind, _, name = rest.partition("/")
            if not uri.startswith(_SCHEME) or kind not in {"machine", "cell", "instance"} or not name or kind in found:
                return None
            found[kind] = name
            environments.add(environment)
        if len(environments) != 1 or "machine" not in found:
            return None
        cell, instance = found.get("cell"), found.get("instance")
        return cls(
            environments.pop(),
            MachineId(found["machine"]),
            CellName(cell) if cell else None,
            InstanceId(instance) if instance else None,
        )


@dataclass(frozen=True)
class Certificate:
    """A certificate that was issued to a machine.

    Attributes:
        serial: Hexadecimal digits.
        key: SHA-256 of its public key, hexadecimal.
        revoked_at: From then on it opens nothing; ``None`` while it is good.
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
