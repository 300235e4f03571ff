"""Health of instances for a rollout's runner: nodes and Prometheus are asked, readings are kept in the registry."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_in_place import machine_of
from hermesops.health.canary_watch import Watcher
from hermesops.health.comparison import pairs
from hermesops.health.sampler import Observer
from hermesops.health.samples import HealthSample
from hermesops.model.ids import InstanceId
from hermesops.model.vitals import Vital
from hermesops.operations.db_thread import in_db_thread
from hermesops.rollout.ports import Comparison, Watched

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.channel import Channel
    from hermesops.health.prometheus import Prometheus
    from hermesops.registry import Registry


class Watching:
    """What ``hermesops.rollout`` watches with.

    Args:
        session: What machines are reached with.
        now: The present moment by the clock that also says when each instance was changed.
    """

    def __init__(self, session: "Connected", now: Callable[[], datetime]) -> None:
        self._session = session
        self._observer = Observer(self._channel_to, now)
        self._prometheus = self._server()
        self._watcher = Watcher(self._observer, StoredHealthSamples(session.app.registry), now, self._prometheus)

    async def require(self, vitals: Sequence[str]) -> None:
        """Go on if what these are compared by is there to be had; nodes always have theirs.

        Raises:
            RefusedError: Prometheus has no such metric, so that a gate on it would never pass.
            UnavailableError: It does not answer.
        """
        for vital in Vital:
            if self._prometheus and vital.value in vitals:
                await self._prometheus.require_vital(vital)

    async def watch(
        self, changed: Mapping[InstanceId, datetime], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> Watched:
        """Look at those changed since a moment each, and at some not changed; whom nobody looked at is absent."""
        seen = await self._watcher.watch(changed, untouched)
        return Watched(
            liveness_of=seen.liveness_of,
            comparisons=tuple(
                Comparison(each, pairs(each, seen.changed), pairs(each, seen.controls))
                for each in Vital
                if each.value in vitals
            ),
        )

    async def stop(self) -> None:
        """Wait for no answer any more."""
        await self._observer.stop()

    async def _channel_to(self, instance_id: InstanceId) -> "Channel":
        instance = await in_db_thread(self._session.app.registry.instances.get, instance_id)
        return self._session.instance_client.channel(machine_of(instance))

    def _server(self) -> "Prometheus | None":
        from hermesops.health.prometheus import Prometheus

        url = self._session.app.env.settings.prometheus_url
        return Prometheus(url) if url else None


class StoredHealthSamples:
    """What nodes said, in the registry.

    Args:
        registry: Where.
    """

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    async def add(self, read: Mapping[InstanceId, HealthSample]) -> None:
        """Remember one reading of each."""
        rows = {whose: (reading.at, reading.to_json()) for whose, reading in read.items()}
        if rows:
            await in_db_thread(self._registry.health_samples.add, rows)

    async def since(
        self, instances: Collection[InstanceId], moment: datetime
    ) -> dict[InstanceId, Sequence[HealthSample]]:
        """What is remembered of each since then, oldest first."""
        rows = await in_db_thread(self._registry.health_samples.list, instances, since=moment)
        return {whose: [HealthSample.from_json(text) for text in texts] for whose, texts in rows.items()}
