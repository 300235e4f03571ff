"""Roles hermes_platform_api and hermes_platform_edge on a booted machine, with the database and the relay behind them.

The tests build on each other, in this order. Nobody signs in: the issuer is an address that does not answer.
"""

import contextlib
import json
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermesops.access.pki.authority import Authority
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.machines.converge import HostResult
from hermesops.model.access.certificate import CallerName
from hermesops.model.ids import MachineId
from hermesops.platform.image.bundles import control_bundle_of
from hermesops.platform.parts.control import DATABASE_CLIENTS
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from tests.support.fakes.credentials import LIFE, authority_in
from tests.support.suite.kept import shared_cache
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.converged import ConvergedWorld, converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(150)]

BEHIND = ("hermes_platform_tls", "hermes_platform_postgresql", "hermes_platform_redis", "hermes_platform_control")
ROLES = ("hermes_platform_api", "hermes_platform_edge")
ENVIRONMENT, ORIGIN = "staging", "agents.test"
DATABASE = "127.0.0.1:5432/hermesops?sslmode=verify-full&sslrootcert=/etc/hermes-platform/tls/authorities.crt"
HERMESOPS = "/opt/hermesops/current/venv/bin/hermesops"
UNITS = ("hermesops-api-1", "hermesops-api-2")
SECRETS = (
    "/var/lib/hermesops/staging/keys/registry.key",
    "/var/lib/hermesops-relay/staging/keys/registry.key",
    "/var/lib/hermesops-relay/staging/keys/authority.key",
    "/var/lib/hermesops-relay/registry-client.key",
    "/etc/hermes-platform/tls/server.key",
)
WEB = {
    "origin": f"https://{ORIGIN}",
    "issuer": "https://issuer.invalid",
    "client_id": "web",
    "keys_url": "https://issuer.invalid/keys",
    "authorize_url": "https://issuer.invalid/authorize",
    "token_url": "https://issuer.invalid/token",
}


@dataclass
class Host:
    """A platform's host.

    Attributes:
        variables: Of its roles.
    """

    world: ConvergedWorld
    machine_id: MachineId
    authority: Authority
    variables: dict[str, object] = field(default_factory=dict)

    async def apply(
        self, roles: Sequence[str], more: Mapping[str, object] | None = None, *, check: bool = False
    ) -> HostResult:
        """Apply roles; ``more`` variables come on top."""
        return await self.world.apply(self.machine_id, roles, {**self.variables, **(more or {})}, check=check)

    async def run(self, command: str, *, timeout_s: float = 60, fails: bool = False) -> str:
        """What a command prints, as root."""
        done = await self.world.channel(self.machine_id).run(command, timeout_s=timeout_s)
        assert fails or done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text

    async def in_unit(self, unit: str, command: str) -> str:
        """What a command prints in the file system of a unit's process, as its user."""
        pid = (await self.run(f"systemctl show --property=MainPID --value {unit}")).strip()
        inside = (
            f"nsenter --target {pid} --mount -- setpriv --reuid hermesops-api --regid hermesops-api --clear-groups --"
        )
        return await self.run(f"{inside} {command} 2>&1", fails=True)

    async def status(self, path: str = "/api/hermes/me", *, within_s: int = 60) -> str:
        """The status of an answer through the door."""
        asking = (
            f"--cacert /etc/hermes-platform/tls/authorities.crt -s -o /dev/null -w '%{{http_code}}' -H 'Host: {ORIGIN}'"
        )
        command = f"curl {asking} --max-time {within_s} https://127.0.0.1:8449{path}"
        return (await self.run(command, timeout_s=within_s + 20, fails=True)).strip()

    def client(self, name: str) -> tuple[str, str]:
        """Certificate and key of a process for the database."""
        pair = self.authority.introduce(CallerName(ENVIRONMENT, name), life=LIFE)
        return pair.pem, pair.key

    async def admitted(self) -> str:
        """A new certificate for the relay, as role hermes_platform_api gets it: signed by hermesops on the host."""
        key = openssl.make()
        await self.world.channel(self.machine_id).put("/run/request.pem", openssl.request(key), mode=0o644)
        relay = f"HERMESOPS_ENV={ENVIRONMENT} HERMESOPS_HOME=/var/lib/hermesops-relay {HERMESOPS} relay admit api"
        admit = f"{relay} --request /run/request.pem --to /var/lib/hermesops-relay/api --reason test"
        await self.run(f"runuser -u hermesops-relay -- env {admit}")
        signed = await self.run(
            "cd /var/lib/hermesops-relay/api && cat certificate.pem authority.pem && rm -r .", fails=True
        )
        return key.decode() + signed


@pytest.fixture(scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    require(os.geteuid() == 0, "root")
    async with host_in(tmp_path_factory.mktemp("api")) as host:
        yield host


@contextlib.asynccontextmanager
async def host_in(folder: Path) -> AsyncIterator[Host]:
    """A host with what stands behind the API."""
    home = {"HOME": str(folder), "HERMESOPS_HOME": str(folder), "HERMESOPS_CACHE": str(shared_cache())}
    bundle = control_bundle_of(Environment.load("local", {**os.environ, **home}), print)  # noqa: TID251 - pip's own
    async with converged_world(for_platform=True) as world, world.machine() as machine_id:
        host = Host(world, machine_id, authority_in(folder, environment=ENVIRONMENT))
        served = host.authority.serve(["127.0.0.1"], life=LIFE)
        pairs = {name: host.client(name) for name in ("hermesops", "hermesops-identity", "hermesops-relay")}
        certificate, key = host.client("hermesops-api")
        host.variables |= {
            "hermes_platform_tls_certificate": served.pem,
            "hermes_platform_tls_key": served.key,
            "hermes_platform_tls_authorities": host.authority.certificate,
            "hermes_platform_postgresql_environment": ENVIRONMENT,
            "hermes_platform_postgresql_clients": DATABASE_CLIENTS,
            "hermes_platform_control_environment": ENVIRONMENT,
            "hermes_platform_control_bundle": str(bundle.file),
            "hermes_platform_control_version": bundle.version,
            "hermes_platform_control_registry_url": f"postgresql://hermesops@{DATABASE}",
            "hermes_platform_control_certificates": {
                name: {"certificate": pair[0], "key": pair[1]} for name, pair in pairs.items()
            },
            "hermes_platform_control_settings": {"api_url": "https://vendor.invalid/api/v1"},
            "hermes_platform_control_keys": {
                "registry.key": Ring.fresh().to_text(),
                "authority.key": (folder / f"{ENVIRONMENT}.key").read_text(),
            },
            "hermes_platform_control_processes": ["relay"],
            "hermes_platform_api_environment": ENVIRONMENT,
            "hermes_platform_api_settings": {"web": WEB},
            "hermes_platform_api_certificate": certificate,
            "hermes_platform_api_key": key,
            "hermes_platform_api_redis": True,
        }
        done = await host.apply(BEHIND)
        assert done.status == "done", done.failure
        host.variables["hermes_platform_api_relay_credentials"] = [await host.admitted(), await host.admitted()]
        yield host


async def test_it_is_installed_and_answers_at_the_door(host: Host) -> None:
    checked = await host.apply(ROLES, check=True)
    assert checked.status == "done", checked.failure
    done = await host.apply(ROLES)
    assert done.status == "done", done.failure
    states = await host.run(f"systemctl is-active {' '.join(UNITS)} hermes-platform-edge hermesops-relay")
    assert set(states.split()) == {"active"}
    assert await host.status() == "401", await host.run("journalctl -u 'hermesops-api-*' --no-pager | tail -40")
    assert await host.status("/hermes-max/chat") == "303", "to sign in"
    assert await host.status("/api/hermes/settings") == "401"


async def test_a_second_time_nothing_changes_also_without_keys(host: Host) -> None:
    again = await host.apply(ROLES)
    assert (again.status, again.changed) == ("done", ()), again
    kept: dict[str, object] = {f"hermes_platform_api_{name}": "" for name in ("certificate", "key")}
    kept["hermes_platform_api_relay_credentials"] = ["", ""]
    again = await host.apply(ROLES, kept)
    assert (again.status, again.changed) == ("done", ()), again


async def test_its_processes_read_no_key_but_their_own(host: Host) -> None:
    own = "/var/lib/hermesops-api/staging/keys/messages.key"
    for unit in UNITS:
        assert "current" in await host.in_unit(unit, f"cat {own}"), "the way to look works"
        for secret in SECRETS:
            shown = await host.in_unit(unit, f"cat {secret}")
            assert "Permission denied" in shown or "No such file" in shown, (unit, secret, shown)
        assert "Read-only file system" in await host.in_unit(unit, f"touch {own}")
        assert "Read-only file system" in await host.in_unit(unit, "touch /var/lib/hermesops-api/relay-1.pem")
    assert not await host.in_unit(UNITS[0], "touch /var/lib/hermesops-api/renewed-1/x")
    await host.run("rm /var/lib/hermesops-api/renewed-1/x")
    assert "Read-only file system" in await host.in_unit(UNITS[0], "touch /var/lib/hermesops-api/renewed-2/x")
    modes = await host.run("find /var/lib/hermesops-api -type f -printf '%m %u\\n' | sort -u")
    assert set(modes.splitlines()) == {"600 hermesops-api"}


async def test_who_is_not_root_reads_nothing_of_the_authoritys_key_and_puts_no_other_in_its_place(host: Host) -> None:
    found = "find / -xdev -name authority.key -printf '%p %u %m %n\\n'"
    keys = [line.split() for line in (await host.run(found, timeout_s=120)).splitlines()]
    assert {key[0]: key[1:] for key in keys} == {
        f"/var/lib/{user}/{ENVIRONMENT}/keys/authority.key": [user, "600", "1"]
        for user in ("hermesops", "hermesops-identity", "hermesops-relay")
    }
    await host.run("id visitor 2>/dev/null || useradd --create-home visitor")
    users = (await host.run("getent passwd | cut -d: -f1")).split()
    assert {"visitor", "nobody", "postgres", "hermesops-api"} <= set(users)
    tries = "cat {key} || cp {key} /dev/null || mv {key} {key}.old || rm -f {key} || echo x > {key}"
    for path, owner, *_ in keys:
        commands = "\n".join(
            f"runuser -u {user} -- sh -c '({tries.format(key=path)}) 2>/dev/null && echo opened'"
            for user in users
            if user not in {"root", owner}
        )
        shown = await host.run(f"sh -c {shlex.quote(commands)} 2>&1; ls {path}", fails=True, timeout_s=240)
        assert "opened" not in shown, (path, shown)
        assert "PRIVATE" not in shown, path
        assert shown.splitlines()[-1] == path
    await host.run(f"sed -n 2,3p {keys[0][0]} > /run/needle-of-key")
    assert not await host.run("journalctl --no-pager -q | grep -Ff /run/needle-of-key", fails=True)
    running = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -caFf /run/needle-of-key; rm /run/needle-of-key"
    assert (await host.run(running, fails=True)).strip() == "0"


async def test_its_certificate_opens_its_role_of_the_database_and_no_other(host: Host) -> None:
    files = "sslcert=/var/lib/hermesops-api/registry-client.crt&sslkey=/var/lib/hermesops-api/registry-client.key"
    asking = "runuser -u hermesops-api -- psql --no-psqlrc -tA"
    for role in ("hermesops", "router", "postgres"):
        shown = await host.run(f"{asking} 'postgresql://{role}@{DATABASE}&{files}' -c 'SELECT 1' 2>&1", fails=True)
        assert "FATAL" in shown, shown
    own = f"{asking} 'postgresql://hermes_api@{DATABASE}&{files}'"
    assert (await host.run(f"{own} -c 'TABLE turns'")).strip() == ""
    for columns in ("instance_details (settings)", "instance_details (api_server_key)", "proxy_tokens (token)"):
        refused = await host.run(f"{own} -c 'COPY {columns} TO STDOUT' 2>&1", fails=True)
        assert "permission denied" in refused, columns


async def test_it_reaches_the_relay_and_nothing_else_of_its_host(host: Host) -> None:
    pem = "/var/lib/hermesops-api/relay-1.pem"
    asking = f"curl -s --cacert {pem} --cert {pem} --key {pem} https://127.0.0.1:8448/metrics"
    assert "hermesops_relay_requests_total" in await host.run(f"runuser -u hermesops-api -- {asking}")
    opening = "timeout 5 bash -c '</dev/tcp/127.0.0.1/{port}' 2>&1 && echo opened"
    for port, is_open in ((8448, True), (5432, True), (6380, True), (8449, False)):
        shown = await host.run(f"runuser -u hermesops-api -- {opening.format(port=port)}", fails=True)
        assert ("opened" in shown) == is_open, (port, shown)


async def test_a_restart_keeps_who_asks_waiting_and_a_killed_process_is_back(host: Host) -> None:
    await host.run(f"systemctl kill -s KILL {' '.join(UNITS)}")
    assert await host.status(within_s=90) == "401"
    await host.run(f"systemctl restart --no-block {' '.join(UNITS)}")
    assert await host.status(within_s=90) == "401"


async def test_a_certificate_that_was_revoked_is_replaced_by_the_role(host: Host) -> None:
    relay = f"HERMESOPS_ENV={ENVIRONMENT} HERMESOPS_HOME=/var/lib/hermesops-relay {HERMESOPS} relay"
    await host.run(f"runuser -u hermesops-relay -- env {relay} revoke api --reason test --yes")
    pem = "/var/lib/hermesops-api/relay-1.pem"
    asking = f"curl -s --cacert {pem} --cert {pem} --key {pem} https://127.0.0.1:8448/metrics"
    assert json.loads(await host.run(asking))["code"] == "not_a_caller"
    done = await host.apply(ROLES, {"hermes_platform_api_relay_credentials": [await host.admitted(), ""]})
    assert done.status == "done"
    assert any("Enable and start each process" in task for task in done.changed)
    assert "hermesops_relay_requests_total" in await host.run(asking)


async def test_units_are_locked_down_as_their_siblings(host: Host) -> None:
    for unit in (*UNITS, "hermesops-relay", "hermes-platform-edge"):
        line = (await host.run(f"systemd-analyze security --no-pager {unit} | tail -1")).strip()
        assert float(line.split(":")[1].split()[0]) <= 1.5, line


async def test_nothing_that_is_secret_is_in_the_journal_or_in_a_unit(host: Host) -> None:
    ring = json.loads(await host.run("cat /var/lib/hermesops-api/staging/keys/messages.key"))
    await host.world.channel(host.machine_id).put("/run/needle", ring["keys"][ring["current"]].encode(), mode=0o600)
    assert not await host.run("journalctl --no-pager -q | grep -Ff /run/needle", fails=True)
    assert not await host.run("grep -rlFf /run/needle /etc /run/systemd", fails=True)
    lines = await host.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -caFf /run/needle", fails=True)
    assert lines.strip() == "0"
