"""Two operators' computers of one environment, as teammates have them: what they share is in services, not in files.

Registry in PostgreSQL, Pulumi's state in a bucket, one vendor (a simulated world on a third computer), the same keys;
each has a home, an anchor of the audit, a host name and a machine id of its own.
"""

import os
import secrets
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermesops.app import Container
from hermesops.base import waiting
from hermesops.settings.environment import Environment
from tests.support.real.commands.command import INSTALLED, Command
from tests.support.real.stores import postgresql
from tests.support.real.stores.bucket import new_bucket, new_bucket_for_backups, s3_server, use_credentials
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.left_worlds import remember_world

ENVIRONMENT = "staging"
_NAMES = ("one", "two")
_AS_ANOTHER_HOST = 'mount --bind "$1" /etc/machine-id && hostname "$2" && shift 2 && exec "$@"'


@dataclass(frozen=True)
class TwoComputers:
    """Two computers and what they share.

    Attributes:
        computers: Run commands of the shared environment.
        vendor: Runs the commands of whoever has the simulated world; its home holds nothing of the two.
        database: Where the registry is.
    """

    computers: tuple[Command, ...]
    vendor: Command
    database: postgresql.PostgreSql

    @property
    def app(self) -> Container:
        """The shared environment in this process, to look at."""
        return Container(Environment.load("", self.computers[0].environ), lambda _line: None)

    async def restart_vendor(self, *, away_s: float) -> None:
        """Kill the world's server as it stands, and start it again after so many seconds."""
        os.kill(int((_world(self.vendor) / "server.lock").read_text()), signal.SIGKILL)
        await waiting.pause(away_s)
        await self.vendor.ok("local", "up")

    def orders(self) -> Counter[str]:
        """How often a machine of each name was ordered, by the world's log."""
        log = _world(self.vendor) / "server.log"
        files = [file for file in (log.with_name(f"{log.name}.1"), log) if file.exists()]
        lines = [line for file in files for line in file.read_text().splitlines() if " machine_ordered " in line]
        return Counter(line.partition(" machine=")[2].split()[0] for line in lines)


@asynccontextmanager
async def two_computers(folder: Path) -> AsyncIterator[TwoComputers]:
    """Two computers for the length of a ``with``, with an image that their machines boot from."""
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    require(os.geteuid() == 0, "root, to give processes a host name of their own")
    with pytest.MonkeyPatch.context() as patch, s3_server() as s3, postgresql.running() as database:
        use_credentials(patch)
        registry = {
            "HERMESOPS_REGISTRY_URL": database.new_database(),
            "HERMESOPS_REGISTRY_KEY_FILE": str(folder / "registry.key"),
        }
        vendor = Command(folder / "vendor", {"HERMESOPS_LOCAL_DRIVER": "sim"})
        remember_world(_world(vendor))
        try:
            world = (await vendor.ok("local", "up", "--json")).json
            # Saved at the vendor by its own command, which can save a simulated machine, and recorded for the others.
            builder = vendor.with_variables(**registry)
            await builder.ok("registry", "migrate")
            await builder.ok("image", "build")
            shared = {**registry, **_vendor_of(world), **_states(folder, new_bucket(s3, "fleet"))}
            shared |= new_bucket_for_backups(s3)
            yield TwoComputers(tuple(_computer(folder, name, shared) for name in _NAMES), vendor, database)
        finally:
            await vendor.run("local", "down", "--purge", "--yes")


def _computer(folder: Path, name: str, shared: Mapping[str, str]) -> Command:
    identity = folder / f"{name}.machine-id"
    identity.write_text(f"{uuid.uuid4().hex}\n")
    command = Command(folder / name, {"HERMESOPS_ENV": ENVIRONMENT, **shared})
    # As slaves: private copies of other tests' mounts would hold their machines' disks for as long as a command takes.
    apart = ("unshare", "--mount", "--propagation=slave", "--uts")
    as_host = ("sh", "-c", _AS_ANOTHER_HOST, "sh", str(identity), name)
    return replace(command, program=(*apart, *as_host, *INSTALLED))


def _vendor_of(world: Mapping[str, str]) -> dict[str, str]:
    return {
        "HERMESOPS_API_URL": f"{world['api_url']}/api/v1",
        "HERMESOPS_API_KEY_FILE": world["api_key_file"],
        "HERMESOPS_ROUTER_URL": world["model_base_url"],
        "HERMESOPS_ROUTER_KEY_FILE": world["model_secret_file"],
    }


def _states(folder: Path, bucket: str) -> dict[str, str]:
    passphrase = folder / "pulumi.passphrase"
    passphrase.write_text(secrets.token_urlsafe())
    passphrase.chmod(0o600)
    return {"HERMESOPS_PULUMI_BACKEND": bucket, "HERMESOPS_PULUMI_PASSPHRASE_FILE": str(passphrase)}


def _world(vendor: Command) -> Path:
    return vendor.home / "local" / "world"
