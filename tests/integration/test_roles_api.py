"""Roles of the users' half on a booted machine, with database and relay behind them: API, connections, connector, door.

The tests build on each other, in this order. Users sign in at an issuer of this computer, which the host reaches on its
own loopback, as in a local world.
"""

import contextlib
import html
import json
import os
import re
import shlex
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from hermesops.access.pki.authority import Authority
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.localcloud.drivers.interface import MODEL_PORT
from hermesops.localcloud.vendors.issuer import CLIENT, CONSOLE_CLIENT, LocalIssuer, Person
from hermesops.machines.converge import HostResult
from hermesops.model.access.certificate import CallerName
from hermesops.model.ids import MachineId, user_id_from_alias
from hermesops.platform.image.bundles import control_bundle_of
from hermesops.platform.parts.control import DATABASE_CLIENTS
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from tests.support.fakes.credentials import LIFE, authority_in
from tests.support.suite.kept import shared_cache
from tests.support.suite.prerequisites import require
from tests.support.users.api import served
from tests.support.users.browser import Browser
from tests.support.worlds.local.converged import ConvergedWorld, converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(150)]

BEHIND = ("hermes_platform_tls", "hermes_platform_postgresql", "hermes_platform_redis", "hermes_platform_control")
ROLES = (
    *("hermes_platform_api", "hermes_platform_connections", "hermes_platform_connector", "hermes_platform_console"),
    "hermes_platform_edge",
)
ENVIRONMENT = "staging"
DATABASE = "127.0.0.1:5432/hermesops?sslmode=verify-full&sslrootcert=/etc/hermes-platform/tls/authorities.crt"
HERMESOPS = "/opt/hermesops/current/venv/bin/hermesops"
UNITS = ("hermesops-api-1", "hermesops-api-2")
CONNECTIONS, CONNECTOR, CONSOLE = "hermesops-connections", "hermesops-connector", "hermesops-console"
CONSOLE_HOST = "console.test"
OWN = "/var/lib/hermesops-api/staging/keys/messages.key"
SECRETS = (
    "/var/lib/hermesops/staging/keys/registry.key",
    "/var/lib/hermesops-relay/staging/keys/registry.key",
    "/var/lib/hermesops-relay/staging/keys/authority.key",
    "/var/lib/hermesops-relay/registry-client.key",
    "/etc/hermes-platform/tls/server.key",
)


@dataclass
class Host:
    """A platform's host.

    Attributes:
        variables: Of its roles.
        address: At which its door is found.
    """

    world: ConvergedWorld
    machine_id: MachineId
    authority: Authority
    address: str
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

    @property
    def origin(self) -> str:
        """Of its pages."""
        return f"https://{self.address}:8449"

    async def in_unit(self, unit: str, command: str) -> str:
        """What a command prints in the file system of a unit's process, as its user."""
        pid = (await self.run(f"systemctl show --property=MainPID --value {unit}")).strip()
        user = (await self.run(f"systemctl show --property=User --value {unit}")).strip()
        inside = f"nsenter --target {pid} --mount -- setpriv --reuid {user} --regid {user} --clear-groups --"
        return await self.run(f"{inside} {command} 2>&1", fails=True)

    async def status(self, path: str = "/api/hermes/me", *, within_s: int = 60) -> str:
        """The status of an answer through the door."""
        asking = "--cacert /etc/hermes-platform/tls/authorities.crt -s -o /dev/null -w '%{http_code}'"
        command = f"curl {asking} --max-time {within_s} {self.origin}{path}"
        return (await self.run(command, timeout_s=within_s + 20, fails=True)).strip()

    def client(self, name: str) -> tuple[str, str]:
        """Certificate and key of a process for the database."""
        pair = self.authority.introduce(CallerName(ENVIRONMENT, name), life=LIFE)
        return pair.pem, pair.key

    async def admitted(self, caller: str = "api") -> str:
        """A new certificate for the relay, as role hermes_platform_api gets it: signed by hermesops on the host."""
        key = openssl.make()
        await self.world.channel(self.machine_id).put("/run/request.pem", openssl.request(key), mode=0o644)
        relay = f"HERMESOPS_ENV={ENVIRONMENT} HERMESOPS_HOME=/var/lib/hermesops-relay {HERMESOPS} relay admit {caller}"
        admit = f"{relay} --request /run/request.pem --to /var/lib/hermesops-relay/api --reason test"
        await self.run(f"runuser -u hermesops-relay -- env {admit}")
        signed = await self.run(
            "cd /var/lib/hermesops-relay/api && cat certificate.pem authority.pem && rm -r .", fails=True
        )
        return key.decode() + signed


PROJECT_KEY = f"ak_{uuid4().hex}"
SOCKETS_KEY, BOT_TOKEN = f"sockets-{uuid4().hex}{uuid4().hex}", f"123456:{uuid4().hex}"
SLACK_TOKEN = f"xoxb-{uuid4().hex}"


@contextlib.asynccontextmanager
async def issuer(gateway: str, pages: str) -> AsyncIterator[int]:
    """An issuer on a port of this computer's loopback, which it yields, and on the gateway's that machines reach."""
    with socket.create_server(("127.0.0.1", 0)) as here:
        port = int(here.getsockname()[1])
        url = f"http://127.0.0.1:{port}/issuer"
        ada = Person(user_id_from_alias("ada"), "ada")
        of_world = LocalIssuer(url, lambda: [ada], pages=pages, console=f"https://{CONSOLE_HOST}")
        app = Starlette(routes=[Mount("/issuer", routes=of_world.routes())])
        with socket.create_server((gateway, MODEL_PORT)) as for_machines:
            async with served(app, here), served(app, for_machines):
                yield port


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
    async with contextlib.AsyncExitStack() as stack:
        world = await stack.enter_async_context(converged_world(for_platform=True))
        machine_id = await stack.enter_async_context(world.machine())
        address = str(world.driver.daemon_address(machine_id)[0])
        host = Host(world, machine_id, authority_in(folder, environment=ENVIRONMENT), address)
        port = await stack.enter_async_context(issuer(str(world.driver.gateway), host.origin))
        own = host.authority.serve([address, "127.0.0.1"], life=LIFE)
        pairs = {name: host.client(name) for name in ("hermesops", "hermesops-identity", "hermesops-relay")}
        certificate, key = host.client("hermesops-api")
        own_certificate, own_key = host.client(CONNECTIONS)
        of_connector, of_console = host.client(CONNECTOR), host.client(CONSOLE)
        url = f"http://127.0.0.1:{port}/issuer"
        web = {
            "origin": host.origin,
            "issuer": url,
            "client_id": CLIENT,
            **{f"{name}_url": f"{url}/{name}" for name in ("keys", "authorize", "token")},
        }
        host.variables |= {
            "hermes_platform_tls_certificate": own.pem,
            "hermes_platform_tls_key": own.key,
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
            "hermes_platform_control_vendor_api": f"{world.driver.gateway}:{MODEL_PORT}",
            "hermes_platform_control_vendor_api_port": port,
            "hermes_platform_api_settings": {"web": web},
            "hermes_platform_api_loopback_ports": [port],
            "hermes_platform_api_certificate": certificate,
            "hermes_platform_api_key": key,
            "hermes_platform_api_redis": True,
            "hermes_platform_connections_environment": ENVIRONMENT,
            "hermes_platform_connections_settings": {
                "web": web,
                "connections": {"services": "gmail=ac_gmail", "agents_url": f"{host.origin}/mcp"},
            },
            "hermes_platform_connections_certificate": own_certificate,
            "hermes_platform_connections_key": own_key,
            "hermes_platform_connections_project_key": PROJECT_KEY,
            "hermes_platform_connections_loopback_ports": [port],
            "hermes_platform_connector_environment": ENVIRONMENT,
            "hermes_platform_connector_settings": {
                "messengers": {"telegram_bot": "our_bot", "slack_app": "A0123456789"}
            },
            "hermes_platform_connector_redis": True,
            "hermes_platform_connector_certificate": of_connector[0],
            "hermes_platform_connector_key": of_connector[1],
            "hermes_platform_connector_sockets_key": f"{SOCKETS_KEY}\n",
            "hermes_platform_connector_telegram_token": BOT_TOKEN,
            "hermes_platform_connector_slack_token": SLACK_TOKEN,
            "hermes_platform_console_environment": ENVIRONMENT,
            "hermes_platform_console_settings": {
                "console": {
                    "origin": f"https://{CONSOLE_HOST}",
                    "issuer": url,
                    "client_id": CONSOLE_CLIENT,
                    "viewers": "viewers",
                    **{f"{name}_url": f"{url}/{name}" for name in ("keys", "authorize", "token")},
                }
            },
            "hermes_platform_console_loopback_ports": [port],
            "hermes_platform_console_certificate": of_console[0],
            "hermes_platform_console_key": of_console[1],
            "hermes_platform_edge_console_host": CONSOLE_HOST,
            "hermes_platform_edge_has_connections": True,
            "hermes_platform_edge_has_connector": True,
        }
        done = await host.apply(BEHIND)
        assert done.status == "done", done.failure
        host.variables["hermes_platform_api_relay_credentials"] = [await host.admitted(), await host.admitted()]
        host.variables["hermes_platform_connector_relay_credential"] = await host.admitted("connector")
        yield host


async def test_it_is_installed_and_answers_at_the_door(host: Host) -> None:
    checked = await host.apply(ROLES, check=True)
    assert checked.status == "done", checked.failure
    done = await host.apply(ROLES)
    assert done.status == "done", done.failure
    units = (*UNITS, CONNECTIONS, CONNECTOR, CONSOLE, "hermes-platform-edge", "hermesops-relay")
    states = await host.run(f"systemctl is-active {' '.join(units)}")
    assert set(states.split()) == {"active"}
    assert await host.status() == "401", await host.run("journalctl -u 'hermesops-api-*' --no-pager | tail -40")
    log = f"journalctl -u {CONNECTIONS} --no-pager | tail -40"
    assert await host.status("/api/hermes/connections") == "401", await host.run(log)
    assert await host.status("/relay") == "401", await host.run(f"journalctl -u {CONNECTOR} --no-pager | tail -40")
    assert await host.status("/hermes-max/chat") == "303", "to sign in"
    assert await host.status("/api/hermes/settings") == "401"


async def test_a_user_signs_in_at_the_door_and_both_processes_know_the_session(host: Host) -> None:
    context = ssl.create_default_context(cadata=host.authority.certificate)
    async with httpx.AsyncClient(verify=context, timeout=60, trust_env=False) as http:
        browser = Browser(http, host.origin)
        await browser.sign_in()
        page = await browser.ask("GET", f"{host.origin}/hermes-max/chat")
        assert (page.status_code, "<!doctype html>" in page.text.lower()) == (200, True)
        assert (await browser.me()).json()["user"] == user_id_from_alias("ada")
        response = await browser.ask("GET", f"{host.origin}/api/hermes/connections")
        assert (response.status_code, response.json()["code"]) == (404, "no-agent"), "by the process of connections"


async def test_operators_sign_in_at_the_consoles_own_name_and_read_as_its_role(host: Host) -> None:
    context = ssl.create_default_context(cadata=host.authority.certificate)
    async with httpx.AsyncClient(verify=context, timeout=60, trust_env=False) as http:
        browser = Browser(http, host.origin)
        named = {"headers": {"host": CONSOLE_HOST}}
        led = await browser.ask("GET", f"{host.origin}/console/", **named)
        assert (led.status_code, led.headers["location"]) == (303, "/console/sign-in?onward=%2Fconsole%2F"), led.text
        begun = await browser.ask("GET", f"{host.origin}/console/sign-in", **named)
        page = await http.get(begun.headers["location"])
        form = {key: html.unescape(text) for key, text in re.findall(r'name="([a-z_]+)" value="([^"]*)"', page.text)}
        vera = re.search(r'value="([^"]+)">Continue as vera', page.text)
        assert vera, page.text
        chosen = await http.post(begun.headers["location"].partition("?")[0], data={**form, "user": vera[1]})
        back = urlsplit(chosen.headers["location"])
        assert back.netloc == CONSOLE_HOST
        ended = await browser.ask("GET", f"{host.origin}{back.path}?{back.query}", **named)
        assert ended.status_code == 303, ended.text
        for path in ("/console/", "/console/instances", "/console/operations"):
            shown = await browser.ask("GET", f"{host.origin}{path}", **named)
            log = await host.run(f"journalctl -u {CONSOLE} --no-pager | tail -40")
            assert (shown.status_code, "vera@local.test (viewer)" in shown.text) == (200, True), (path, shown.text, log)
        users = await browser.ask("GET", f"{host.origin}/console/")
        assert users.status_code in {404, 421}, "by the name of users"


async def test_the_connector_answers_prometheus_and_its_restart_keeps_agents_that_dial_waiting(host: Host) -> None:
    asking = "curl -s http://127.0.0.1:9110/connector"
    figures = (await host.run(asking)).splitlines()
    assert figures == ["hermes_platform_answers 1", "hermesops_connector_sockets 0"]
    listed = json.loads(await host.run("cat /etc/hermes-platform/scraped-connector.json"))
    assert listed[0]["labels"] == {"service": "connector", "__metrics_path__": "/connector"}
    await host.run(f"systemctl kill -s KILL {CONNECTOR}")
    assert await host.status("/relay", within_s=90) == "401"
    assert await host.status("/relay/media") == "401", "of the connector"
    assert await host.status("/relay/other") == "404", "of the API"


async def test_connections_and_agents_calls_go_to_the_process_that_has_the_projects_key(host: Host) -> None:
    agent = f"/mcp/{uuid4()}"
    assert await host.status("/api/hermes/connections") == "401"
    await host.run(f"systemctl stop {CONNECTIONS}.socket {CONNECTIONS}")
    assert [await host.status(path) for path in ("/api/hermes/connections", agent)] == ["503", "503"]
    assert await host.status() == "401"
    await host.run(f"systemctl start {CONNECTIONS}")
    assert [await host.status(path) for path in ("/api/hermes/connections", agent)] == ["401", "405"]


async def test_a_second_time_nothing_changes_also_without_keys(host: Host) -> None:
    again = await host.apply(ROLES)
    assert (again.status, again.changed) == ("done", ()), again
    kept: dict[str, object] = {
        f"hermes_platform_{process}_{name}": ""
        for process in ("api", "connections", "connector", "console")
        for name in ("certificate", "key")
    }
    kept |= {
        f"hermes_platform_connector_{name}": ""
        for name in ("sockets_key", "telegram_token", "slack_token", "relay_credential")
    }
    kept["hermes_platform_connections_project_key"] = ""
    kept["hermes_platform_api_relay_credentials"] = ["", ""]
    again = await host.apply(ROLES, kept)
    assert (again.status, again.changed) == ("done", ()), again


async def test_its_processes_read_no_key_but_their_own(host: Host) -> None:
    own, keys = OWN, "/var/lib/hermesops-connections/staging/keys"
    assert await host.in_unit(CONNECTIONS, f"cat {keys}/connections.key") == PROJECT_KEY
    assert await host.in_unit(CONNECTIONS, f"cat {keys}/messages.key") == await host.run(f"cat {own}")
    for secret in (*SECRETS, own, "/var/lib/hermesops-api/relay-1.pem", "/var/lib/hermesops-api/registry-client.key"):
        shown = await host.in_unit(CONNECTIONS, f"cat {secret}")
        assert "Permission denied" in shown or "No such file" in shown, (secret, shown)
    assert "Read-only file system" in await host.in_unit(CONNECTIONS, f"touch {keys}/connections.key")
    of_connector = "/var/lib/hermesops-connector/staging/keys"
    assert await host.in_unit(CONNECTOR, f"cat {of_connector}/connector.key") == SOCKETS_KEY
    assert await host.in_unit(CONNECTOR, f"cat {of_connector}/slack.token") == SLACK_TOKEN
    assert await host.in_unit(CONNECTOR, f"cat {of_connector}/messages.key") == await host.run(f"cat {own}")
    for secret in (*SECRETS, own, f"{keys}/connections.key", "/var/lib/hermesops-api/relay-1.pem"):
        shown = await host.in_unit(CONNECTOR, f"cat {secret}")
        assert "Permission denied" in shown or "No such file" in shown, (secret, shown)
    assert "Read-only file system" in await host.in_unit(CONNECTOR, f"touch {of_connector}/connector.key")
    assert not await host.in_unit(CONNECTOR, "touch /var/lib/hermesops-connector/renewed/x")
    await host.run("rm /var/lib/hermesops-connector/renewed/x")
    for unit in UNITS:
        assert "current" in await host.in_unit(unit, f"cat {own}"), "the way to look works"
        for secret in (*SECRETS, f"{keys}/connections.key", f"{of_connector}/telegram.token"):
            shown = await host.in_unit(unit, f"cat {secret}")
            assert "Permission denied" in shown or "No such file" in shown, (unit, secret, shown)
        assert "Read-only file system" in await host.in_unit(unit, f"touch {own}")
        assert "Read-only file system" in await host.in_unit(unit, "touch /var/lib/hermesops-api/relay-1.pem")
    assert not await host.in_unit(UNITS[0], "touch /var/lib/hermesops-api/renewed-1/x")
    await host.run("rm /var/lib/hermesops-api/renewed-1/x")
    assert "Read-only file system" in await host.in_unit(UNITS[0], "touch /var/lib/hermesops-api/renewed-2/x")
    for secret in (*SECRETS, own, f"{keys}/connections.key", f"{of_connector}/connector.key"):
        shown = await host.in_unit(CONSOLE, f"cat {secret}")
        assert "Permission denied" in shown or "No such file" in shown, (secret, shown)
    assert "BEGIN" in await host.in_unit(CONSOLE, "cat /var/lib/hermesops-console/registry-client.key")
    assert "Read-only file system" in await host.in_unit(CONSOLE, "touch /var/lib/hermesops-console/staging/x")
    for user in ("hermesops-api", CONNECTIONS, CONNECTOR, CONSOLE):
        modes = await host.run(f"find /var/lib/{user} -type f -printf '%m %u\\n' | sort -u")
        assert set(modes.splitlines()) == {f"600 {user}"}


async def test_who_is_not_root_reads_nothing_of_the_authoritys_key_and_puts_no_other_in_its_place(host: Host) -> None:
    finding = "find / -xdev -name authority.key -printf '%p %u %m %n\\n'"
    keys = [line.split() for line in (await host.run(finding, timeout_s=120)).splitlines()]
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
    theirs = files.replace("hermesops-api", CONNECTIONS)
    asking = asking.replace("hermesops-api", CONNECTIONS)
    shown = await host.run(f"{asking} 'postgresql://hermes_api@{DATABASE}&{theirs}' -c 'SELECT 1' 2>&1", fails=True)
    assert "FATAL" in shown, shown
    own = f"{asking} 'postgresql://connections@{DATABASE}&{theirs}'"
    assert (await host.run(f"{own} -c 'TABLE user_connections'")).strip() == ""
    for table in ("turns", "user_requests", "users"):
        assert "permission denied" in await host.run(f"{own} -c 'TABLE {table}' 2>&1", fails=True), table
    theirs, asking = theirs.replace(CONNECTIONS, CONNECTOR), asking.replace(CONNECTIONS, CONNECTOR)
    shown = await host.run(f"{asking} 'postgresql://connections@{DATABASE}&{theirs}' -c 'SELECT 1' 2>&1", fails=True)
    assert "FATAL" in shown, shown
    own = f"{asking} 'postgresql://connector@{DATABASE}&{theirs}'"
    assert (await host.run(f"{own} -c 'TABLE agent_sockets'")).strip() == ""
    for table in ("turns", "user_connections", "instance_details", "proxy_tokens"):
        assert "permission denied" in await host.run(f"{own} -c 'TABLE {table}' 2>&1", fails=True), table


async def test_it_reaches_the_relay_and_nothing_else_of_its_host(host: Host) -> None:
    pem = "/var/lib/hermesops-api/relay-1.pem"
    asking = f"curl -s --cacert {pem} --cert {pem} --key {pem} https://127.0.0.1:8448/metrics"
    assert "hermesops_relay_requests_total" in await host.run(f"runuser -u hermesops-api -- {asking}")
    opening = "timeout 5 bash -c '</dev/tcp/127.0.0.1/{port}' 2>&1 && echo opened"
    for port, is_open in ((8448, True), (5432, True), (6380, True), (8449, False)):
        shown = await host.run(f"runuser -u hermesops-api -- {opening.format(port=port)}", fails=True)
        assert ("opened" in shown) == is_open, (port, shown)
        shown = await host.run(f"runuser -u {CONNECTIONS} -- {opening.format(port=port)}", fails=True)
        assert ("opened" in shown) == (port == 5432), (port, shown)
        shown = await host.run(f"runuser -u {CONNECTOR} -- {opening.format(port=port)}", fails=True)
        assert ("opened" in shown) == (port in {5432, 6380, 8448}), (port, shown)


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


async def test_hermesops_of_the_host_issues_the_consoles_certificate_and_keeps_one_that_lasts(host: Host) -> None:
    """As on AWS, where nobody brings keys to a host."""
    role, home = "hermes_platform_console", "/var/lib/hermesops-console"
    own = {f"{role}_issues_credentials": True, f"{role}_certificate": "", f"{role}_key": ""}
    before = await host.run(f"cat {home}/registry-client.crt")
    done = await host.apply((role,), own)
    assert done.status == "done", done.failure
    issued = await host.run(f"cat {home}/registry-client.crt")
    assert issued != before
    subject = await host.run(f"openssl x509 -in {home}/registry-client.crt -noout -subject")
    assert "hermesops-console" in subject
    assert issued == await host.run(f"cat /var/lib/hermesops/{ENVIRONMENT}/of-console/client.crt")
    folder = f"/var/lib/hermesops/{ENVIRONMENT}/of-console"
    modes = await host.run(f"stat --format='%a %U' {folder} {folder}/client.key")
    assert modes.splitlines() == ["700 hermesops", "600 hermesops"]
    assert (await host.run(f"systemctl is-active {CONSOLE}")).strip() == "active"
    again = await host.apply((role,), own)
    assert (again.status, again.changed) == ("done", ()), again
    entries = await host.run(
        f"runuser -u hermesops -- env HOME=/var/lib/hermesops HERMESOPS_ENV={ENVIRONMENT} "
        f"HERMESOPS_HOME=/var/lib/hermesops {HERMESOPS} audit log --json"
    )
    assert entries.count('"client_certificate_issued"') == 1


async def test_units_are_locked_down_as_their_siblings(host: Host) -> None:
    for unit in (*UNITS, CONNECTIONS, CONNECTOR, "hermesops-relay", "hermes-platform-edge"):
        line = (await host.run(f"systemd-analyze security --no-pager {unit} | tail -1")).strip()
        assert float(line.split(":")[1].split()[0]) <= 1.5, line


async def test_nothing_that_is_secret_is_in_the_journal_or_in_a_unit(host: Host) -> None:
    ring = json.loads(await host.run(f"cat {OWN}"))
    needles = f"{ring['keys'][ring['current']]}\n{PROJECT_KEY}\n{SOCKETS_KEY}\n{BOT_TOKEN}\n{SLACK_TOKEN}"
    await host.world.channel(host.machine_id).put("/run/needle", needles.encode(), mode=0o600)
    assert not await host.run("journalctl --no-pager -q | grep -Ff /run/needle", fails=True)
    assert not await host.run("grep -rlFf /run/needle /etc /run/systemd", fails=True)
    lines = await host.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -caFf /run/needle", fails=True)
    assert lines.strip() == "0"
