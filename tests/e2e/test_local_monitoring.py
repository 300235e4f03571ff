"""The platform's monitoring of a local world, on real machines: killed, up, up again, and written to."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.app import Container
from hermesops.settings import Environment
from hermesops.waiting import Pending, until
from tests.support.real.command import Command, local_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(6, at=2)]

ASKED = ("--reason", "test")
MONITORED = ("local", "up", "--monitoring")
WRITE = (
    "curl -s -o /dev/null -w '%{{http_code}}' --max-time 10 -X POST --data x --cacert /etc/hermes-node/authority.crt "
    "--cert /etc/hermes-node/machine.crt --key /etc/hermes-node/machine.key {url}/ingest/write"
)


@pytest.fixture(scope="module")
async def command(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("monitoring")) as command:
        yield command


async def _on_ada(command: Command, line: str) -> str:
    return (await command.run("instance", "exec", "ada", line, *ASKED)).stdout.strip()


def _query(command: Command, promql: str) -> list[dict[str, str]]:
    import httpx  # noqa: PLC0415 - beside its only use

    endpoint = Container(Environment.load("local", command.environ), lambda _: None).monitoring()
    assert endpoint
    with httpx.Client(verify=endpoint.context(), trust_env=False) as client:
        answer = client.get(f"{endpoint.url}/prometheus/api/v1/query", params={"query": promql})
    return [one["metric"] for one in answer.json()["data"]["result"]]


async def test_machines_are_watched_under_their_own_names_until_they_are_revoked(command: Command) -> None:
    assert await command.killed_at("machine hermes-local-platform", *MONITORED) == -9
    assert await command.killed_at("Install the units", *MONITORED) == -9
    up = (await command.ok(*MONITORED, "--json")).json
    assert (up["machine"], up["logs"]) == ("hermes-local-platform", True)
    assert (await command.ok(*MONITORED, "--json")).json["changed"] == 0
    assert [one["name"] for one in await command.machines()] == ["hermes-local-platform"]
    status = (await command.ok("local", "status", "--json")).json
    assert status["monitoring_url"] == up["url"]
    assert "nothing differs" in (await command.ok("fleet", "drift")).stdout

    await command.ok("provision", "ada", "--plan", "light")
    [row] = (await command.ok("instance", "list", "--json")).json["instances"]

    async def heard() -> list[dict[str, str]] | Pending[list[dict[str, str]]]:
        found = await asyncio.to_thread(_query, command, "hermes_node_info")
        return found or Pending("nothing was written yet")

    [labels] = await until(heard, what="the machine to write", timeout_s=180, every_s=2)
    wanted = {"instance_id": row["instance_id"], "cell": row["cell"], "machine": row["machine_id"]}
    assert {name: labels.get(name) for name in wanted} == wanted

    write = WRITE.format(url=up["url"])
    assert await _on_ada(command, write) == "400", "its certificate is good, and x is no write"
    [platform] = [one for one in await command.machines() if one["name"] == up["machine"]]
    direct = f"timeout 3 bash -c '</dev/tcp/{platform['ip']}/8443' && echo open"
    assert await _on_ada(command, direct) == "", "no machine reaches another but through the world's server"
    await command.ok("identity", "revoke", "ada", "--yes", *ASKED)

    async def refused() -> bool | Pending[bool]:
        code = await _on_ada(command, write)
        return True if code == "403" else Pending(f"it gets {code}")

    await until(refused, what="the revoked machine to be refused", timeout_s=120, every_s=2)


async def test_a_simulated_world_has_no_platform(tmp_path_factory: pytest.TempPathFactory) -> None:
    command = Command(tmp_path_factory.mktemp("simulated"))
    refused = await command.run("local", "up", "--driver", "sim", "--monitoring")
    assert (refused.exit_code, "simulated" in refused.stderr) == (3, True)
    told: dict[str, Any] = json.loads((await command.ok("local", "status", "--json")).stdout)
    assert not told["is_up"]
