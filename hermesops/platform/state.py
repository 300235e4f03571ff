"""Observed state of a platform's host: its services, their versions, its backups and its certificate."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509

from hermesops.errors import UnavailableError
from hermesops.platform.host import TLS
from hermesops.vendor.channel import Channel
from hermesops.wire import strict_json

_ASK_S = 60.0
_PACKAGES = ("postgresql-15", "pgbackrest", "redis-server", "nginx", "prometheus", "prometheus-alertmanager")
_PART = "--- hermesops ---"
UNITS = tuple(
    f"{name}-*.{kind}" for name in ("hermes-platform", "hermesops") for kind in ("service", "socket", "timer")
)
"""Patterns of every unit that roles of the platform bring."""

_QUOTED = " ".join(f"'{pattern}'" for pattern in UNITS)
_ASKED = {
    # By their files: systemd forgets a unit that has stopped, and patterns do not find it. Of a template those that are
    # loaded, as each is that a timer starts.
    "units": f"{{ systemctl list-unit-files --no-legend {_QUOTED} | grep -v @; "
    "systemctl list-units --all --plain --no-legend 'hermes-platform-*@*.service'; } | cut -d ' ' -f 1 "
    "| xargs systemctl show --property=Id,Type,ActiveState,SubState,UnitFileState,NRestarts",
    "packages": f"dpkg-query --show --showformat '${{Package}} ${{Version}}\\n' {' '.join(_PACKAGES)} 2>/dev/null",
    "hermesops": "/opt/hermesops/current/venv/bin/hermesops --version 2>/dev/null",
    "backups": "hermes-pgbackrest info --output=json 2>/dev/null",
    "certificate": f"cat {TLS}/server.crt",
}
_COMMAND = f"; echo; echo '{_PART}'; ".join(_ASKED.values()) + "; true"


@dataclass(frozen=True)
class ServiceState:
    """A service of the host, or a socket or timer that starts one.

    Attributes:
        name: Of its unit; of a service without ``.service``.
        state: As systemd says it: ``active``, ``failed``, ``inactive`` …
        is_healthy: Whether it is as it should be: a service that is enabled runs.
        is_passing: Whether it only runs for a moment, as a timer or a socket starts it, or starts one.
    """

    name: str
    state: str
    is_healthy: bool
    restarts: int
    is_passing: bool = False

    @property
    def unit(self) -> str:
        """Name of the systemd unit, with its suffix."""
        return self.name if self.name.endswith((".socket", ".timer")) else f"{self.name}.service"


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
        return all(service.is_healthy for service in self.services)


async def observe_host(channel: Channel) -> HostState:
    """Ask a host for its services, versions, backups and certificate.

    Raises:
        UnavailableError: It does not answer.
    """
    done = await channel.run(_COMMAND, timeout_s=_ASK_S)
    parts = done.text.split(_PART)
    if len(parts) != len(_ASKED):
        raise UnavailableError("the platform's host does not report its state", hint="look at its log")
    return parse_host(dict(zip(_ASKED, parts, strict=True)))


def parse_host(printed: Mapping[str, str]) -> HostState:
    """Parse the commands' outputs, by the names in ``_ASKED``."""
    packages = dict(line.split(" ", 1) for line in printed["packages"].splitlines() if " " in line)
    ours = printed["hermesops"].split()
    return HostState(
        tuple(_services(printed["units"])),
        packages | ({"hermesops": ours[-1]} if ours else {}),
        _newest_backup(printed["backups"]),
        _end_of(printed["certificate"]),
    )


def _services(text: str) -> list[ServiceState]:
    blocks = (dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n"))
    return sorted((_service(block) for block in blocks if block.get("Id")), key=lambda state: state.name)


def _service(unit: Mapping[str, str]) -> ServiceState:
    state, is_enabled = unit.get("ActiveState", ""), unit.get("UnitFileState") == "enabled"
    restarts = int(unit.get("NRestarts") or 0)
    name = unit["Id"].removesuffix(".service")
    is_once = unit.get("Type") == "oneshot"
    is_passing = is_once or unit.get("UnitFileState") == "static" or name.endswith((".socket", ".timer"))
    # What runs once may be at it, if it did not fail before.
    is_at_it = is_once and state == "activating" and unit.get("SubState") != "auto-restart" and not restarts
    is_healthy = state == "active" or (state == "inactive" and not is_enabled) or is_at_it
    return ServiceState(name, state, is_healthy, restarts, is_passing)


def _newest_backup(text: str) -> datetime | None:
    try:
        stanzas = strict_json.parse(text.strip().encode())
        stops = [int(backup["timestamp"]["stop"]) for stanza in stanzas for backup in stanza["backup"]]
    except (strict_json.MalformedJSONError, json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
    return datetime.fromtimestamp(max(stops), UTC) if stops else None


def _end_of(certificate: str) -> datetime | None:
    try:
        return x509.load_pem_x509_certificate(certificate.strip().encode()).not_valid_after_utc
    except ValueError:
        return None
