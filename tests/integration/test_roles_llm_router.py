"""Role hermes_platform_llm_router on one booted machine, without a database: it serves, and lets nobody in.

``tests/contract/programs/test_litellm_router.py`` runs it with a database; this module covers units, nginx and secrets.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.machines.converge import HostResult
from hermesops.machines.image.bundles import router as router_bundle
from hermesops.machines.image.packages.download import Pip
from hermesops.model.ids import MachineId
from hermesops.programs.model_router import build
from tests.support.fakes.credentials import LIFE, authority_in
from tests.support.suite.kept import shared_cache
from tests.support.worlds.local.converged import ConvergedWorld, converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(100)]

ROLES = ("hermes_platform_tls", "hermes_platform_llm_router")
PROVIDER_KEY, TOKEN_KEY = "sk-canary-of-a-provider-0123456789", "token-key-canary-of-at-least-32-bytes"
CANARY = "emu-canary-that-nobody-may-keep"


@dataclass
class Host:
    """A platform's host."""

    world: ConvergedWorld
    machine_id: MachineId
    variables: dict[str, object]

    async def apply(self, *, check: bool = False, **more: object) -> HostResult:
        """Apply the roles."""
        return await self.world.apply(self.machine_id, ROLES, {**self.variables, **more}, check=check)

    async def run(self, command: str, *, timeout_s: float = 60, fails: bool = False) -> str:
        """What a command prints."""
        done = await self.world.channel(self.machine_id).run(command, timeout_s=timeout_s)
        assert fails or done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text

    async def curl(self, words: str, *, timeout_s: int = 40) -> str:
        """The status that nginx answers to a request."""
        options = "--cacert /etc/hermes-platform/tls/authorities.crt -s -o /dev/null -w '%{http_code}'"
        command = f"curl {options} --max-time {timeout_s} {words}"
        return await self.run(command, timeout_s=timeout_s + 20, fails=True)


@pytest.fixture(scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("router")
    program = folder / "hermes-router.pyz"
    build.write(program)
    wheels = await asyncio.to_thread(_wheels)
    async with converged_world(for_platform=True) as world, world.machine() as machine_id:
        authority = authority_in(folder)
        served = authority.serve(["127.0.0.1"], life=LIFE)
        variables: dict[str, object] = {
            "hermes_platform_tls_certificate": served.pem,
            "hermes_platform_tls_key": served.key,
            "hermes_platform_tls_authorities": authority.certificate,
            "hermes_platform_llm_router_wheels": str(wheels),
            "hermes_platform_llm_router_program": str(program),
            "hermes_platform_llm_router_token_keys": [TOKEN_KEY],
            "hermes_platform_llm_router_provider_keys": {"anthropic": PROVIDER_KEY, "openai": PROVIDER_KEY},
            "hermes_platform_llm_router_database": "postgresql://router@127.0.0.1:5432/hermesops?sslmode=disable",
            "hermes_platform_llm_router_uses_certificate": False,
        }
        yield Host(world, machine_id, variables)


def _wheels() -> Path:
    lock = assets.folder("roles") / "hermes_platform_llm_router" / "files" / "requirements.txt"
    import os  # noqa: PLC0415 - beside its only use

    return router_bundle.make(lock, Pip(os.environ, shared_cache() / "packages"), shared_cache() / "platform", print)  # noqa: TID251 - pip's own


async def test_it_is_installed_and_answers(host: Host) -> None:
    checked = await host.apply(check=True)
    assert checked.status == "done", checked
    done = await host.apply()
    assert done.status == "done", done
    states = await host.run("systemctl is-active hermes-platform-router hermes-platform-router-nginx")
    assert states.split() == ["active", "active"]
    shown = await host.run("stat -c '%a %U %G' /run/hermes-platform-router.sock")
    assert shown.strip() == "660 root www-data"
    assert await host.curl("https://127.0.0.1:8444/health") == "503", "accounts are not known"
    assert await host.curl("https://127.0.0.1:8444/v1/models") == "401"


async def test_a_second_time_nothing_changes(host: Host) -> None:
    done = await host.apply()
    assert (done.status, done.changed) == ("done", ()), done


async def test_it_listens_at_one_place_and_shows_figures_to_this_host_alone(host: Host) -> None:
    listening = await host.run("ss -Hltn")
    ports = {line.split()[3] for line in listening.splitlines() if ":8444" in line or ":9109" in line}
    assert ports == {"0.0.0.0:8444", "127.0.0.1:9109"}
    assert "hermes_router_accounts_age_seconds" in await host.run("curl -sf http://127.0.0.1:9109/metrics")
    listed = json.loads(await host.run("cat /etc/hermes-platform/scraped-router.json"))
    assert listed[0]["targets"] == ["127.0.0.1:9109"]


async def test_no_key_is_in_a_file_that_others_read_in_a_unit_or_in_the_journal(host: Host) -> None:
    where = (
        "/etc/systemd /etc/hermes-platform /usr/local/lib/hermes-platform/router/*.pyz /var/lib/hermes-platform-router"
    )
    for key in (PROVIDER_KEY, TOKEN_KEY):
        # From a file: the commands that search must not be what they find.
        await host.world.channel(host.machine_id).put("/run/needle", key.encode(), mode=0o600)
        output = await host.run(f"grep -rlFf /run/needle {where}", fails=True)
        assert all(line.startswith("/etc/hermes-platform/secrets/router/") for line in output.split()), output
        assert not await host.run("journalctl --no-pager -q | grep -Ff /run/needle", fails=True)
        lines = await host.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -caFf /run/needle", fails=True)
        assert lines.strip() == "0"
    modes = await host.run("stat -c '%a %U' /etc/hermes-platform/secrets/router /etc/hermes-platform/secrets/router/*")
    assert set(modes.splitlines()) == {"700 root", "600 root"}
    for user in ("www-data", "nobody"):
        reading = f"runuser -u {user} -- cat /run/credentials/hermes-platform-router.service/*"
        cannot = await host.run(reading, fails=True)
        assert PROVIDER_KEY not in cannot


async def test_clients_that_mean_it_ill_cost_only_themselves(host: Host) -> None:
    url = "https://127.0.0.1:8444/v1/chat/completions"
    flood = "for i in $(seq 100); do printf 'x-%s: %01000d\\n' $i 0; done > /run/flood"
    await host.run(flood)
    assert await host.curl(f"-H @/run/flood {url}") == "400"
    await host.run("head -c 20000000 /dev/zero > /run/giant")
    assert await host.curl(f"--data-binary @/run/giant {url}") == "413"
    slow = "exec 3<>/dev/tcp/127.0.0.1/8444; timeout 30 cat <&3 | wc -c"
    assert (await host.run(f"bash -c {slow!r}")).strip() == "0", "cut off, not waited for"
    assert await host.curl("https://127.0.0.1:8444/v1/models") == "401"
    assert await host.curl(f"-X POST -d {CANARY} -H 'Authorization: Bearer {CANARY}' {url}") == "401"
    output = await host.run(f"grep -rlF {CANARY} /var/log /var/lib /run/hermes-platform* /tmp", fails=True)
    assert output == ""


async def test_a_killed_router_is_back_by_itself_and_who_asks_meanwhile_waits(host: Host) -> None:
    gone = "while systemctl is-active --quiet hermes-platform-router; do sleep 0.02; done"
    await host.run(f"systemctl kill -s KILL hermes-platform-router; {gone}")
    answered = await host.curl("https://127.0.0.1:8444/v1/models", timeout_s=180)
    assert answered == "401", await host.run("journalctl -u hermes-platform-router --no-pager | tail -50")


async def test_a_provider_without_a_key_is_not_used_any_more(host: Host) -> None:
    done = await host.apply(hermes_platform_llm_router_provider_keys={"anthropic": PROVIDER_KEY})
    assert done.status == "done", done
    left = await host.run("ls /etc/hermes-platform/secrets/router")
    assert set(left.split()) == {"anthropic", "router.key"}


async def test_the_router_opens_no_connection_to_its_own_host(host: Host) -> None:
    """Its unit loads the rules before it starts, also after they were gone."""
    await host.run("nft delete table inet hermes_router && systemctl restart hermes-platform-router")
    opening = "timeout 5 bash -c '</dev/tcp/127.0.0.1/{port}' 2>&1 && echo opened"
    for port in (8444, 9109):
        await host.run(f"for i in $(seq 100); do {opening.format(port=port)} && break; sleep 0.3; done")
        output = await host.run(f"runuser -u hermes-router -- {opening.format(port=port)}", fails=True)
        assert "opened" not in output
        assert "Connection refused" in output
