"""The health of instances for rollouts: asks nodes and Prometheus, and keeps samples in the registry."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_in_place import machine_of
from hermesops.health.canary_watch import CanaryWatch
from hermesops.health.prometheus import Prometheus
from hermesops.health.sampler import Sampler
from hermesops.health.samples import HealthSample, figures_of
from hermesops.model.ids import InstanceId
from hermesops.model.vitals import Vital
from hermesops.operations.db_thread import in_db_thread
from hermesops.rollout.ports import Comparison, HealthObservation

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.channel import Channel
    from hermesops.registry import Registry


class Watching:
    """``hermesops.rollout.ports.HealthWatch``.

    Args:
        now: The present moment, by the clock that also says when each instance was changed.
    """

    def __init__(self, session: "Connected", now: Callable[[], datetime]) -> None:
        self._session = session
        url = session.app.env.settings.prometheus_url
        self._prometheus = Prometheus(url) if url else None
        self._sampler = Sampler(self._open_channel, now)
        store = StoredHealthSamples(session.app.registry)
        self._watcher = CanaryWatch(self._sampler, store, now, self._prometheus)

    async def require(self, vitals: Sequence[str]) -> None:
        """Refuse vitals whose metric Prometheus does not have; nodes have all of theirs.

        Raises:
            RefusedError: A gate on it would never pass.
            UnavailableError: It does not answer.
        """
        for vital in Vital:
            if self._prometheus and vital.value in vitals:
                await self._prometheus.require_vital(vital)

    async def watch(
        self, changed: Mapping[InstanceId, datetime], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> HealthObservation:
        """Observe changed and untouched instances; one that did not answer yet is absent."""
        seen = await self._watcher.watch(changed, untouched)
        return HealthObservation(
            liveness_of=seen.liveness_of,
            comparisons=tuple(
                Comparison(each, figures_of(each, seen.changed), figures_of(each, seen.controls))
                for each in Vital
                if each.value in vitals
            ),
        )

    async def stop(self) -> None:
        """Stop waiting for answers."""
        await self._sampler.stop()

    async def _open_channel(self, instance_id: InstanceId) -> "Channel":
        instance = await in_db_thread(self._session.app.registry.instances.get, instance_id)
        return self._session.instance_client.channel(machine_of(instance))


class StoredHealthSamples:
    """``hermesops.health.canary_watch.SampleStore`` in the registry."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    async def add(self, read: Mapping[InstanceId, HealthSample]) -> None:
        """Store one sample of each."""
        rows = {each: (sample.at, sample.to_json()) for each, sample in read.items()}
        if rows:
            await in_db_thread(self._registry.health_samples.add, rows)

    async def since(
        self, instances: Collection[InstanceId], moment: datetime
    ) -> dict[InstanceId, Sequence[HealthSample]]:
        """The samples of each since then, oldest first."""
        rows = await in_db_thread(self._registry.health_samples.list, instances, since=moment)
        return {each: [HealthSample.from_json(text) for text in texts] for each, texts in rows.items()}
