"""What a platform's host says of itself: its services, their versions, its backups and its certificate."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509

from hermesops.app.services.platform_host import TLS
from hermesops.channel import Channel
from hermesops.errors import UnavailableError
from hermesops.node.untrusted import strict_json

_ASK_S = 60.0
_PACKAGES = ("postgresql-15", "pgbackrest", "redis-server", "nginx", "prometheus", "prometheus-alertmanager")
_PART = "--- hermesops ---"
_UNITS = " ".join(
    (
        "'hermes-platform-*.service'",
        *(f"hermesops-{name}.service" for name in ("migrate", "worker", "monitor", "identity")),
    )
)
_ASKED = {
    # By their files: systemd forgets a unit that has stopped, and patterns do not find it.
    "units": f"systemctl list-unit-files --no-legend {_UNITS} | cut -d ' ' -f 1 | grep -v @ "
    "| xargs systemctl show --property=Id,Type,ActiveState,UnitFileState,NRestarts",
    "packages": f"dpkg-query --show --showformat '${{Package}} ${{Version}}\\n' {' '.join(_PACKAGES)} 2>/dev/null",
    "hermesops": "/opt/hermesops/current/venv/bin/hermesops --version 2>/dev/null",
    "backups": "hermes-pgbackrest info --output=json 2>/dev/null",
    "certificate": f"cat {TLS}/server.crt",
}
_COMMAND = f"; echo; echo '{_PART}'; ".join(_ASKED.values()) + "; true"


@dataclass(frozen=True)
class ServiceState:
    """A service of the host.

    Attributes:
        state: As systemd says it: ``active``, ``failed``, ``inactive`` …
        is_healthy: Whether it is as it should be: a service that is enabled runs.
    """

    name: str
    state: str
    is_healthy: bool
    restarts: int


@dataclass(frozen=True)
class HostState:
    """A host of the platform, as it is now.

    Attributes:
        versions: By the names of packages.
        database_backup: When the newest backup of the database ended; ``None`` while there is none.
        certificate_until: When the certificate of its services ends.
    """

    services: Sequence[ServiceState]
    versions: Mapping[str, str]
    database_backup: datetime | None
    certificate_until: datetime | None

    @property
    def is_healthy(self) -> bool:
        """Whether every service is as it should be."""
        return all(one.is_healthy for one in self.services)


async def observe_host(channel: Channel) -> HostState:
    """Ask a host.

    Raises:
        UnavailableError: It does not answer.
    """
    done = await channel.run(_COMMAND, timeout_s=_ASK_S)
    parts = done.text.split(_PART)
    if len(parts) != len(_ASKED):
        raise UnavailableError("the platform's host does not say how it is", hint="look at its log")
    return parse_host(dict(zip(_ASKED, parts, strict=True)))


def parse_host(said: Mapping[str, str]) -> HostState:
    """Read what the commands printed, by the names in ``_ASKED``."""
    packages = dict(line.split(" ", 1) for line in said["packages"].splitlines() if " " in line)
    ours = said["hermesops"].split()
    return HostState(
        tuple(_services(said["units"])),
        packages | ({"hermesops": ours[-1]} if ours else {}),
        _newest_backup(said["backups"]),
        _end_of(said["certificate"]),
    )


def _services(text: str) -> list[ServiceState]:
    blocks = (dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n"))
    return sorted((_service(one) for one in blocks if _is_shown(one)), key=lambda one: one.name)


def _is_shown(unit: Mapping[str, str]) -> bool:
    """Leave out what a timer or a socket starts for a moment, unless it failed."""
    is_passing = unit.get("Type") == "oneshot" or unit.get("UnitFileState") == "static"
    return bool(unit.get("Id")) and (not is_passing or unit.get("ActiveState") == "failed")


def _service(unit: Mapping[str, str]) -> ServiceState:
    state, is_enabled = unit.get("ActiveState", ""), unit.get("UnitFileState") == "enabled"
    restarts = int(unit.get("NRestarts") or 0)
    is_healthy = state == "active" or (state == "inactive" and not is_enabled)
    return ServiceState(unit["Id"].removesuffix(".service"), state, is_healthy, restarts)


def _newest_backup(text: str) -> datetime | None:
    try:
        found = strict_json.parse(text.strip().encode())
        stops = [int(backup["timestamp"]["stop"]) for stanza in found for backup in stanza["backup"]]
    except (strict_json.MalformedJSONError, json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
    return datetime.fromtimestamp(max(stops), UTC) if stops else None


def _end_of(certificate: str) -> datetime | None:
    try:
        return x509.load_pem_x509_certificate(certificate.strip().encode()).not_valid_after_utc
    except ValueError:
        return None
