"""The platform's monitoring of a local world alone: one more machine of it, from the roles that a real host gets."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from hermesops.base.extras import Extra, require
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import PLATFORM_SERVICES, PlatformService
from hermesops.localcloud.world.files import WorldFiles, write_private
from hermesops.machines.image.machines import Reporter, rented
from hermesops.model.ids import platform_machine_name
from hermesops.platform.host import (
    TLS,
    CertificatePairs,
    HostAddress,
    Part,
    PlatformHost,
    TlsPart,
)
from hermesops.platform.parts.tls import PLATFORM
from hermesops.programs.ingest import build
from hermesops.vendor import justavps

_MONITORED = Hint(("local", "down", "--purge"), ", then", ("local", "up", "--driver", "nspawn", "--monitoring"))


@dataclass(frozen=True)
class MonitoringPart:
    """Role ``hermes_platform_monitoring``.

    Args:
        loki: The program Loki; ``None`` where it could not be made.
        program: Where hermes-ingest is written.
        identity_url: Of the service that says what was revoked; empty for none.
        time_scale: What the waiting times of alerts are multiplied by.
    """

    environment: str
    url: str
    identity_url: str
    loki: Path | None
    program: Path
    time_scale: float
    role: str = "hermes_platform_monitoring"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role. Writes the ingest's program; adds a client certificate unless the host's is good."""
        del at
        self.program.parent.mkdir(parents=True, exist_ok=True)
        build.write(self.program)
        client_certificate, client_key = await pairs.client(PLATFORM, f"{TLS}/client.crt")
        return {
            "environment": self.environment,
            "url": self.url,
            "port": PLATFORM_SERVICES[PlatformService.MONITORING].on_machine,
            "identity_url": self.identity_url,
            "ingest": self.program,
            "loki": self.loki or "",
            "time_scale": self.time_scale,
            "client_certificate": client_certificate,
            "client_key": client_key,
        }


async def found_loki(make: Callable[[], Awaitable[Path]], report: Reporter) -> Path | None:
    """The program Loki; ``None``, which is told, where it cannot be made."""
    try:
        return await make()
    except (UnavailableError, RefusedError) as error:
        report(f"the platform stores no logs, because Loki is missing: {error.message}")
        return None


@dataclass(frozen=True)
class LocalMonitoringUp:
    """Monitoring that answers.

    Attributes:
        changed: Tasks of the roles that changed something.
        logs: Whether it keeps logs.
    """

    machine: str
    url: str
    changed: tuple[str, ...]
    logs: bool
    seconds: float


@dataclass(frozen=True)
class LocalMonitoring:
    """Brings the platform's monitoring of a local world up.

    Killed anywhere, the same once more finishes: the machine is found by its name, and roles may be applied again.

    Args:
        find_url: Says where machines and this computer reach it.
        has_platform: Whether there is a stack of the whole platform, of which monitoring is a part.
        extend_base: Gives new machines the platform's packages.
        loki: The program Loki, made where there is none; raises where it cannot be made.
        part: Makes the role's part, of the URL and the program Loki.
    """

    environment: str
    world: WorldFiles
    find_url: Callable[[], str]
    has_platform: Callable[[], Awaitable[bool]]
    client: justavps.Client
    host: PlatformHost
    authorities: Callable[[], str]
    extend_base: Callable[[], Awaitable[None]]
    loki: Callable[[], Awaitable[Path]]
    part: Callable[[str, Path | None], MonitoringPart]
    server_type: str
    region: str
    report: Reporter

    async def up(self) -> LocalMonitoringUp:
        """Bring it up, or find it up.

        Raises:
            RefusedError: The vendor or a role refused.
            UnavailableError: Something did not answer in time; the same command goes on from there.
            UsageError: The extra that applies roles is missing.
        """
        require(Extra.ROLES, "bringing monitoring up")
        begun, url = time.monotonic(), self.find_url()
        if not url:
            raise UnavailableError(
                "the local world's server is older than its monitoring, and forwards nothing to it",
                hint=Hint(("local", "down"), ", then", ("local", "up", "--monitoring")),
            )
        name = platform_machine_name(self.environment)
        if await self.has_platform():
            self.report("monitoring is a part of the platform that this local world has")
            await self.host.wait_for_monitoring(url)
            return LocalMonitoringUp(name, url, (), logs=True, seconds=round(time.monotonic() - begun, 1))
        loki = await found_loki(self.loki, self.report)
        if not self.world.platform.exists():
            await self.extend_base()
        order = justavps.MachineOrder(name=name, server_type=self.server_type, region=self.region)
        self.report(f"machine {name}")
        machine_id = await rented(self.client, self.host.channel_to, order, report=self.report)
        parts: list[Part] = [TlsPart(self.authorities), self.part(url, loki)]
        changed = await self.host.apply(HostAddress(name, machine_id, httpx.URL(url).host), parts)
        write_private(self.world.platform, machine_id.encode())
        write_private(self.world.monitoring, b"")
        await self.host.wait_for_monitoring(url)
        return LocalMonitoringUp(name, url, changed, bool(loki), round(time.monotonic() - begun, 1))


def refuse_simulated(*, is_simulated: bool, again: Hint = _MONITORED) -> None:
    """Refuse a simulated world: its machines run no services.

    Raises:
        RefusedError: They do not.
    """
    if is_simulated:
        raise RefusedError(
            "the machines of this local world are simulated and run no services, so none can be the platform's",
            hint=again,
        )
