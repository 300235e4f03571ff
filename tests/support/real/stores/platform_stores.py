"""Machines of a world that the roles of the platform's stores are applied to, and clients of what runs there."""

import asyncio
import configparser
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from hermesops.access.pki.authority import Authority
from hermesops.machines.converge import HostResult
from hermesops.model.access.certificate import CallerName
from hermesops.model.ids import MachineId
from tests.support.fakes.credentials import authority_in
from tests.support.real.go_programs import VERSITYGW
from tests.support.worlds.local.converged import ConvergedWorld

ENVIRONMENT = "local"
NAME = "platform.hermes.internal"
TLS = "hermes_platform_tls"
BASE = ("hermes_base", TLS)
OBJECT_STORE, POSTGRESQL, REDIS = (f"hermes_platform_{name}" for name in ("object_store", "postgresql", "redis"))
PORTS = {POSTGRESQL: 5432, REDIS: 6380, OBJECT_STORE: 8445}

_LIFE = timedelta(days=7)
_COMMAND_S = 120.0


@dataclass(frozen=True)
class StoresHost:
    """One machine.

    Attributes:
        tls: Variables of role hermes_platform_tls.
        program: versitygw.
    """

    world: ConvergedWorld
    machine_id: MachineId
    authority: Authority
    tls: Mapping[str, str]
    program: Path

    @property
    def address(self) -> str:
        return str(self.world.driver.daemon_address(self.machine_id)[0])

    async def apply(
        self, roles: Sequence[str], variables: Mapping[str, object] | None = None, *, check: bool = False
    ) -> HostResult:
        """Apply roles; ``variables`` come on top of what they all need."""
        needed = {
            "hermes_base_open_ports": sorted(PORTS.values()),
            "hermes_platform_object_store_program": self.program,
            "hermes_platform_postgresql_environment": ENVIRONMENT,
        }
        given = {**self.world.base_variables, **needed, **self.tls, **(variables or {})}
        return await self.world.apply(self.machine_id, roles, given, check=check)

    async def run(self, command: str) -> str:
        """What a command prints, as root."""
        done = await self.world.channel(self.machine_id).run(command, timeout_s=_COMMAND_S)
        assert done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text

    async def fails(self, command: str) -> str:
        """What a command that must not work prints."""
        done = await self.world.channel(self.machine_id).run(command, timeout_s=_COMMAND_S)
        assert done.exit_code != 0, f"{command}: {done.text}"
        return done.text + done.stderr.decode()

    async def key_of(self, bucket: str) -> tuple[str, str]:
        """The access key and the secret key of a bucket's user."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(await self.run(f"cat /etc/hermes-platform/secrets/object-store/{bucket}"))
        return parser["default"]["aws_access_key_id"], parser["default"]["aws_secret_access_key"]

    def client(self, name: str, *, environment: str = ENVIRONMENT, authority: Authority | None = None) -> Path:
        """A folder with files ``crt``, ``key`` and ``authorities`` of a service of that name."""
        certificate = (authority or self.authority).introduce(CallerName(environment, name), life=_LIFE)
        folder = self.world.folder / f"{environment}-{name}"
        folder.mkdir(exist_ok=True)
        for file, text in {
            "crt": certificate.pem,
            "key": certificate.key,
            "authorities": self.authority.certificate,
        }.items():
            (folder / file).write_text(text)
            (folder / file).chmod(0o600)
        return folder

    def context(self, client: Path | None) -> ssl.SSLContext:
        """TLS of a client, with its certificate or without one."""
        context = ssl.create_default_context(cadata=self.authority.certificate)
        if client:
            context.load_cert_chain(client / "crt", client / "key")
        return context

    def database_url(self, client: Path, *, role: str = "hermesops", driver: str = "+psycopg") -> str:
        """The URL of the registry's database for a client."""
        files = {"sslrootcert": "authorities", "sslcert": "crt", "sslkey": "key"}
        query = "".join(f"&{name}={quote(str(client / file), safe='')}" for name, file in files.items())
        return f"postgresql{driver}://{role}@{self.address}:5432/hermesops?sslmode=verify-full{query}"


@asynccontextmanager
async def stores_host(world: ConvergedWorld) -> AsyncIterator[StoresHost]:
    """A machine with a certificate for its address; gone afterwards."""
    authority = authority_in(world.folder, environment=ENVIRONMENT)
    program = await asyncio.to_thread(VERSITYGW.built)
    async with world.machine() as machine_id:
        address = str(world.driver.daemon_address(machine_id)[0])
        own = authority.serve([address, "127.0.0.1", NAME], life=_LIFE)
        tls = {"certificate": own.pem, "key": own.key, "authorities": authority.certificate}
        named = {f"hermes_platform_tls_{name}": value for name, value in tls.items()}
        yield StoresHost(world, machine_id, authority, named, program)
