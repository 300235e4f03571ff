"""Asks JustAVPS and agents how the fleet is, and records what they say."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from hermesops.app.adapters.health_samples import StoredHealthSamples
from hermesops.channel import Channel, ToolboxChannel
from hermesops.drift.collect import listing
from hermesops.health.sampler import Sampler
from hermesops.health.samples import Question
from hermesops.justavps import Client
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.registry import Registry


async def list_machines(
    registry: Registry, vendor: Callable[[], AbstractAsyncContextManager[Client]], environment: str
) -> None:
    """Ask the vendor for its list of machines, and record it: one call."""
    rows = registry.fleet.list_ordered()
    async with vendor() as client:
        seen, missing = listing(await client.list_machines(), rows, environment, {})
    registry.observations.record(seen, missing=missing)


async def ask_agents(registry: Registry, vendor: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
    """Ask each instance that should run how it is, some seconds long, and record the answers that came."""
    asked_at = registry.now()
    running = registry.instances.list(status=InstanceStatus.RUNNING)
    machines = {one.id: one.machine_id for one in running if one.machine_id}
    async with vendor() as client:

        async def open_channel(instance_id: InstanceId) -> Channel:
            return ToolboxChannel(client, machines[instance_id])

        sampler = Sampler(open_channel, lambda: asked_at)
        try:
            answers = await sampler.sample(dict.fromkeys(machines, Question()))
        finally:
            await sampler.stop()
    await StoredHealthSamples(registry).add({one: sample for one, sample in answers.items() if sample})
