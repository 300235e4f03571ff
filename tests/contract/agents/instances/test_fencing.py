"""A lease that was taken over changes no machine any more: registry, channel and the real hermes-node on one."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.agents.instances.remote.gateway import GatewayService
from hermesops.agents.instances.remote.node_commands import admit, change
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.operation import LeaseLostError
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client
from hermesops.wire.protocol import PROGRAM, Identity, Payload, Secrets
from tests.support.real.stores.registries import TurnedClock, registry_at
from tests.support.worlds.local.local_server import serving

INSTANCE = InstanceId("11111111-2222-3333-4444-555555555555")
SUBJECT = instance_subject(INSTANCE)
PAYLOAD = Payload(
    Identity(INSTANCE, "u-1", "light", "c1", 1), Secrets("k" * 64, "hm1.i-1.1." + "a" * 40), "http://10.0.0.1:18080/v1"
)


@pytest.fixture
async def channel(tmp_path: Path) -> AsyncIterator[ToolboxChannel]:
    async with serving(tmp_path, SimDriver(tmp_path)) as world:
        machine = await world.ready("edge")
        key = (tmp_path / "api.key").read_text().strip()
        async with Client(f"{world.where.api_url}/api/v1", key) as client:
            yield ToolboxChannel(client, MachineId(str(machine["id"])))


async def test_who_lost_the_lease_neither_personalises_nor_restarts_nor_fences(
    channel: ToolboxChannel, tmp_path: Path
) -> None:
    clock = TurnedClock()
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=clock)
    slow = registry.leases.take(SUBJECT, "slow:1:aa")
    await _personalise(channel, "first")
    await admit(channel, slow)
    clock.turn(16)
    quick = registry.leases.take(SUBJECT, "quick:2:bb")
    await admit(channel, quick)
    gateways = GatewayService(lambda _: channel, slow)
    before = await _seen(channel)
    for work in (
        change(channel, "configure --wait 0", slow, timeout_s=10),
        gateways.restart(MachineId("any")),
        gateways.fence(MachineId("any")),
    ):
        with pytest.raises(LeaseLostError, match="quick:2:bb holds"):
            await work
    assert await _seen(channel) == before
    registry.epochs.open("restored from a copy")
    await admit(channel, registry.leases.take(SUBJECT, "slow:1:aa"))
    with pytest.raises(LeaseLostError, match=r"holds 2\.1"):
        await admit(channel, replace(quick, counter=10**6))
    registry.close()


async def _personalise(channel: ToolboxChannel, name: str) -> None:
    path = f"/run/hermes-node/{name}.json"
    await channel.put(path, PAYLOAD.to_json(), mode=0o600)
    done = await change(channel, f"personalise {path} --wait 5", None, timeout_s=30)
    assert done.exit_code == 0, done


async def _seen(channel: ToolboxChannel) -> tuple[object, ...]:
    status = json.loads((await channel.run(f"{PROGRAM} status", timeout_s=10)).stdout)
    start = await GatewayService(lambda _: channel).invocation(MachineId("any"))
    assert start, "the gateway runs"
    return status["lease"], status["payload"], start
