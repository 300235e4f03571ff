"""Asks JustAVPS and agents for the fleet's state, and records the answers."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from hermesops.agents.drift.collect import listing
from hermesops.agents.health.samples.kept import StoredHealthSamples
from hermesops.agents.health.samples.sample import Question
from hermesops.agents.health.samples.sampler import Sampler
from hermesops.agents.instances.remote.both_ways import ask_both_ways
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.automation.monitor.controls import draw, ways_that_answer
from hermesops.automation.monitor.sources import Source
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.store.registry import Registry
from hermesops.vendor.channel import Channel, ToolboxChannel
from hermesops.vendor.justavps import Client

_VENDOR_DOWN = Hint(("runbook", "show", "vendor-down"))


@dataclass(frozen=True)
class FleetObservation:
    """Observes the fleet of one environment, and records the result."""

    registry: Registry
    vendor: Callable[[], AbstractAsyncContextManager[Client]]
    environment: str

    async def list_machines(self) -> None:
        """Ask JustAVPS for its list of machines, and record it: one call.

        Raises:
            UnavailableError: JustAVPS does not answer.
        """
        await list_machines(self.registry, self.vendor, self.environment)

    async def ask_agents(self, only: InstanceId | None = None) -> None:
        """Ask each instance that should run how it is, some seconds long, and record the answers that came.

        Args:
            only: The instance that is asked; all of them without it.
        """
        asked_at, instances = self.registry.now(), self.registry.instances
        running = instances.list(status=InstanceStatus.RUNNING) if only is None else instances.list_by_id([only])
        machines = {
            instance.id: instance.machine_id
            for instance in running
            if instance.machine_id and instance.status is InstanceStatus.RUNNING
        }
        async with self.vendor() as client:

            async def open_channel(instance_id: InstanceId) -> Channel:
                return ToolboxChannel(client, machines[instance_id])

            sampler = Sampler(open_channel, lambda: asked_at)
            try:
                answers = await sampler.sample(dict.fromkeys(machines, Question()))
            finally:
                await sampler.stop()
        await StoredHealthSamples(self.registry).add(
            {instance_id: sample for instance_id, sample in answers.items() if sample}
        )


async def list_machines(
    registry: Registry, vendor: Callable[[], AbstractAsyncContextManager[Client]], environment: str
) -> None:
    """Ask the vendor for its list of machines, and record it: one call."""
    rows = registry.fleet.list_ordered()
    async with vendor() as client:
        listed, missing = listing(await client.list_machines(), rows, environment, {})
    registry.observations.record(listed, missing=missing)


async def reach_machines(registry: Registry, client: InstanceClient) -> str:
    """Ask a few running machines by toolbox and by proxy; the result as text.

    Raises:
        RefusedError: JustAVPS tells of the machines, and by one of the ways none of them answered.
        UnavailableError: JustAVPS tells of none, so that nobody could be asked.
    """
    expected = {
        instance.id: instance for instance in registry.fleet.expected(reason="doctor").instances if not instance.busy
    }
    serving = {instance.id for instance in expected.values() if instance.reported_gateway is GatewayHealth.OK}
    controls = draw(list(expected), serving)
    if not controls:
        return "no machine runs"
    instances = [registry.instances.get(control.id) for control in controls]
    answers = [ways for ways, _ in await asyncio.gather(*(ask_both_ways(client, instance) for instance in instances))]
    whom = ", ".join(expected[control.id].user for control in controls)
    ways = ways_that_answer(controls, answers)
    if ways[Source.JUSTAVPS] is False:
        raise UnavailableError(f"JustAVPS returns no machine; probed instances: {whom}", hint=_VENDOR_DOWN)
    # JustAVPS says that they run, and 5xx of its toolbox or proxy are answers: this is seen, not unknown.
    if silent := [way.value for way, lets_through in ways.items() if lets_through is False]:
        raise RefusedError(f"no machine answers by {' and '.join(silent)}; asked: {whom}", hint=_VENDOR_DOWN)
    return f"{whom} answer by {' and '.join(way.value for way in (Source.TOOLBOX, Source.PROXY) if ways[way])}"
