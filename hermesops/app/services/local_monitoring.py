"""The platform's monitoring of a local world: one more machine of it, from the roles that a real host gets."""

import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
from cryptography import x509

from hermesops import justavps
from hermesops.channel import Channel
from hermesops.converge import Converger, Host
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.image.machines import Reporter, rented
from hermesops.ingest import build
from hermesops.localcloud.world.files import WorldFiles, write_private
from hermesops.localcloud.world.monitoring_forward import PORT_ON_MACHINE
from hermesops.model.certificate import CallerName
from hermesops.model.ids import MachineId, platform_machine_name
from hermesops.pki.authority import Authority
from hermesops.registry import Registry
from hermesops.waiting import Pending, until

PLATFORM = "hermesops-platform"
"""Name of the host in the certificate with which it asks for revocations."""

PLAYBOOK, GROUP = "platform", "platforms"

_CERTIFICATE_LIFE = timedelta(days=90)
_RENEWED_BEFORE = timedelta(days=30)
_ANSWERS_S = 60.0
_SHOWN_S = 10.0
_NAMES_OF_A_HOST = ("127.0.0.1", "platform.hermes.internal")
"""Under which the services of a platform's host find each other: pgBackRest 2.45 compares names, and no addresses."""

_OURS = "/etc/hermes-platform/tls/server.crt"


@dataclass(frozen=True)
class LocalMonitoringUp:
    """Monitoring that answers.

    Attributes:
        changed: How many tasks of the roles changed something.
        logs: Whether it keeps logs.
    """

    machine: str
    url: str
    changed: int
    logs: bool
    seconds: float


@dataclass(frozen=True)
class LocalMonitoring:
    """Brings the platform's monitoring of a local world up.

    Killed anywhere, the same once more finishes: the machine is found by its name, and roles may be applied again.

    Args:
        find_url: Says where machines and this computer reach it.
        context: TLS of this process with the host.
        loki: The program Loki, made where there is none; raises where it cannot be made.
        program: Where hermes-ingest is written.
        identity_url: Of the service that says what was revoked.
        variables: What role ``hermes_base`` has to be told.
        time_scale: What the waiting times of alerts are multiplied by.
    """

    environment: str
    world: WorldFiles
    find_url: Callable[[], str]
    identity_url: str
    client: justavps.Client
    channel_to: Callable[[MachineId], Channel]
    converger: Converger
    load_authority: Callable[[], Authority]
    registry: Registry
    context: Callable[[], ssl.SSLContext]
    loki: Callable[[], Awaitable[Path]]
    program: Path
    variables: Mapping[str, object]
    server_type: str
    region: str
    time_scale: float
    report: Reporter

    async def up(self) -> LocalMonitoringUp:
        """Bring it up, or find it up.

        Raises:
            RefusedError: The vendor or a role refused.
            UnavailableError: Something did not answer in time; the same command goes on from there.
        """
        begun, url = time.monotonic(), self.find_url()
        if not url:
            raise UnavailableError(
                "the local world's server is older than its monitoring, and forwards nothing to it",
                hint=Hint(("local", "down"), ", then", ("local", "up", "--monitoring")),
            )
        loki = await self._loki()
        name = platform_machine_name(self.environment)
        order = justavps.MachineOrder(name=name, server_type=self.server_type, region=self.region)
        self.report(f"machine {name}")
        machine_id = await rented(self.client, self.channel_to, order, report=self.report)
        self.report(f"applying playbook {PLAYBOOK}")
        host = Host(name, machine_id, groups=(GROUP,))
        variables = {**self.variables, **await self._variables(machine_id, url, loki)}
        done = await self.converger.run(PLAYBOOK, [host], variables=variables, report=self.report)
        done.require_ok()
        write_private(self.world.monitoring, machine_id.encode())
        await until(partial(self._answers, url), what=f"monitoring at {url}", timeout_s=_ANSWERS_S, every_s=0.5)
        return LocalMonitoringUp(name, url, done.changed, bool(loki), round(time.monotonic() - begun, 1))

    async def _loki(self) -> Path | None:
        try:
            return await self.loki()
        except (UnavailableError, RefusedError) as error:
            self.report(f"the platform will keep no logs, for want of Loki: {error.message}")
            return None

    async def _variables(self, machine_id: MachineId, url: str, loki: Path | None) -> dict[str, object]:
        self.program.parent.mkdir(parents=True, exist_ok=True)
        build.write(self.program)
        found = {
            "environment": self.environment,
            "url": url,
            "port": PORT_ON_MACHINE,
            "identity_url": self.identity_url,
            "ingest": self.program,
            "loki": loki or "",
            "time_scale": self.time_scale,
        }
        named = {f"hermes_platform_monitoring_{name}": value for name, value in found.items()}
        certificates = await self._certificates(machine_id, httpx.URL(url).host)
        authorities = "".join(self.registry.certificates.list_authorities())
        return {
            **named,
            **certificates,
            "hermes_platform_tls_authorities": authorities,
            "hermes_base_open_ports": [PORT_ON_MACHINE],
        }

    async def _certificates(self, machine_id: MachineId, host: str) -> dict[str, str]:
        """Fresh certificates for the host; empty ones while it has good ones, which the role then leaves alone."""
        names = (
            "hermes_platform_tls_certificate",
            "hermes_platform_tls_key",
            "hermes_platform_monitoring_client_certificate",
            "hermes_platform_monitoring_client_key",
        )
        authority = self.load_authority()
        hosts = (host, *_NAMES_OF_A_HOST)
        shown = await self.channel_to(machine_id).run(f"cat {_OURS}", timeout_s=_SHOWN_S)
        if shown.exit_code == 0 and is_good(shown.text, hosts, authority, datetime.now(UTC)):
            return dict.fromkeys(names, "")
        own = authority.serve(hosts, life=_CERTIFICATE_LIFE)
        client = authority.introduce(CallerName(self.environment, PLATFORM), life=_CERTIFICATE_LIFE)
        return dict(zip(names, (own.pem, own.key, client.pem, client.key), strict=True))

    async def _answers(self, url: str) -> bool | Pending[bool]:
        try:
            async with httpx.AsyncClient(verify=self.context(), trust_env=False, timeout=5) as client:
                answer = await client.get(f"{url}/prometheus/-/ready")
        except (httpx.TransportError, ssl.SSLError) as error:
            return Pending(f"{type(error).__name__}: {error}")
        return True if answer.status_code == httpx.codes.OK else Pending(f"it answers {answer.status_code}")


def is_good(certificate: str, hosts: Sequence[str], authority: Authority, now: datetime) -> bool:
    """Whether a host's certificate, PEM, is for those addresses and names, of that authority, and lasts for a month."""
    try:
        read = x509.load_pem_x509_certificate(certificate.encode())
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        read.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    except Exception:  # noqa: BLE001 - whatever the library raises of it, another one is made
        return False
    return [str(name.value) for name in names] == list(hosts) and read.not_valid_after_utc - now > _RENEWED_BEFORE


def refuse_simulated(*, is_simulated: bool) -> None:
    """Refuse a world whose machines run no services.

    Raises:
        RefusedError: They do not.
    """
    if is_simulated:
        raise RefusedError(
            "the machines of this local world are simulated and run no services, so none can be the platform's",
            hint=Hint(("local", "down", "--purge"), ", then", ("local", "up", "--driver", "nspawn", "--monitoring")),
        )
