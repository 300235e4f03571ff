"""Stores health samples in the registry and reads them back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.health.samples.sample import HealthSample
from hermesops.model.ids import InstanceId
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class StoredHealthSamples:
    """Stores samples of instances and reads them back."""

    registry: Registry

    async def add(self, read: Mapping[InstanceId, HealthSample]) -> None:
        """Store one sample of each instance."""
        rows = {each: (sample.at, sample.to_json()) for each, sample in read.items()}
        if rows:
            await in_db_thread(self.registry.health_samples.add, rows)

    async def since(
        self, instances: Collection[InstanceId], timestamp: datetime
    ) -> dict[InstanceId, Sequence[HealthSample]]:
        """The samples of each since then, oldest first."""
        rows = await in_db_thread(self.registry.health_samples.list, instances, since=timestamp)
        return {each: [HealthSample.from_json(text) for text in texts] for each, texts in rows.items()}
