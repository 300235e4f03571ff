"""The platform's monitoring of a local world, on real machines: killed, up, up again, and written to."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.machines.image.machines import rented
from hermesops.model.ids import MachineId
from hermesops.programs.ingest.remote_write import compress, encode_labels, encode_sample, encode_series
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Channel, ToolboxChannel
from hermesops.vendor.justavps import MachineOrder
from tests.support.crash.death import KILLED
from tests.support.real.commands.command import Command, local_world

MONITORED = ("local", "up", "--monitoring")
POST = (
    "curl -s -o /dev/null -w '%{{http_code}}' --max-time 10 --data-binary @/root/body "
    "--cacert /root/authorities --cert /root/certificate --key /root/key {url}/ingest/write"
)


@dataclass
class Fleet:
    """A world, and a machine in it that has a certificate."""

    command: Command
    container: Container
    channel: Channel
    machine_id: MachineId

    async def on_machine(self, line: str) -> str:
        return (await self.channel.run(line, timeout_s=30)).text.strip()

    async def certify(self) -> None:
        """Give the machine, which has no user, what hermes-node would have."""
        key = openssl.make()
        credential = self.container.certificates.issue(openssl.request(key).decode(), self.machine_id)
        files = {"certificate": credential.certificate, "key": key.decode(), "authorities": credential.authority}
        for name, text in files.items():
            await self.channel.put(f"/root/{name}", text.encode(), mode=0o600)

    async def write(self, url: str, metric: str) -> str:
        """Have the machine write a metric, as another; the status that it gets."""
        at = int(time.time() * 1000)
        labels = encode_labels([(b"__name__", metric.encode()), (b"instance_id", b"another")])
        await self.channel.put("/root/body", compress(encode_series(labels, [encode_sample(1, at)])), mode=0o600)
        return await self.on_machine(POST.format(url=url))

    def query(self, promql: str) -> list[dict[str, str]]:
        endpoint = self.container.monitoring.endpoint()
        assert endpoint
        with httpx.Client(verify=endpoint.context(), trust_env=False) as client:
            answer = client.get(f"{endpoint.url}/prometheus/api/v1/query", params={"query": promql})
        return [series["metric"] for series in answer.json()["data"]["result"]]


@pytest.fixture
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with local_world(tmp_path_factory.mktemp("monitoring"), image=False) as command:
        container = Container(Environment.load("local", command.environ), lambda _: None)
        order = MachineOrder(name="hermes-local-build-0123456789ab", server_type="starter", region="hel1")
        async with container.vendor() as client:
            channel_to = partial(ToolboxChannel, client)
            machine_id = await rented(client, channel_to, order, report=lambda _: None)
            yield Fleet(command, container, channel_to(machine_id), machine_id)


@pytest.mark.machines
@pytest.mark.turns(200)
async def test_machines_are_watched_under_their_own_names_until_they_are_revoked(fleet: Fleet) -> None:
    command = fleet.command
    assert await command.killed_at("machine hermes-local-platform", *MONITORED) == KILLED
    assert await command.killed_at("Configure Prometheus", *MONITORED) == KILLED
    up = (await command.ok(*MONITORED, "--json")).json
    assert (up["machine"], up["logs"]) == ("hermes-local-platform", True)
    assert (await command.ok(*MONITORED, "--json")).json["changed"] == []
    [platform] = [machine for machine in await command.machines() if machine["name"] == up["machine"]]
    assert (await command.ok("local", "status", "--json")).json["monitoring_url"] == up["url"]
    assert up["machine"] not in (await command.run("fleet", "drift")).stdout

    await fleet.certify()
    assert await fleet.write(up["url"], "hermes_test") == "204"
    assert fleet.query("hermes_test") == [{"__name__": "hermes_test", "machine": fleet.machine_id}]
    direct = f"timeout 3 bash -c '</dev/tcp/{platform['ip']}/8443' && echo open"
    assert await fleet.on_machine(direct) == "", "no machine reaches another but through the world's server"

    assert fleet.container.registry.certificates.revoke(fleet.machine_id, why="stolen") == 1

    async def refused() -> bool | Pending[bool]:
        code = await fleet.write(up["url"], "hermes_test")
        return True if code == "403" else Pending(f"it gets {code}")

    await until(refused, what="the revoked machine to be refused", timeout_s=120, every_s=2)


async def test_a_simulated_world_has_no_platform(tmp_path_factory: pytest.TempPathFactory) -> None:
    command = Command(tmp_path_factory.mktemp("simulated"))
    refused = await command.run("local", "up", "--driver", "sim", "--monitoring")
    assert (refused.exit_code, "simulated" in refused.stderr) == (3, True)
    document: dict[str, Any] = json.loads((await command.ok("local", "status", "--json")).stdout)
    assert not document["is_up"]
