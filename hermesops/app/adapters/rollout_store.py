"""The rows of one rollout for its runner: the registry, asked in its own thread, written under the runner's lease."""

from typing import TYPE_CHECKING

from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Rollout, RolloutEvent, RolloutId, RolloutState, RolloutTarget
from hermesops.operations.db_thread import in_db_thread
from hermesops.rollout.ports import Records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.container import Container
    from hermesops.registry import Registry


class RolloutRows:
    """What ``hermesops.rollout`` reads and writes.

    Args:
        registry: Where.
        rollout_id: Of which.
        lease: The runner's; ``None`` for an operator's command, which writes without.
    """

    def __init__(self, registry: "Registry", rollout_id: RolloutId, lease: Lease | None) -> None:
        self._registry = registry
        self._id = rollout_id
        self._lease = lease

    async def read(self) -> Records:
        """All of it."""
        return await in_db_thread(records_of, self._registry, self._id)

    async def state(self) -> RolloutState:
        """Only that."""
        return await in_db_thread(self._registry.rollouts.state, self._id)

    async def put_targets(self, *targets: RolloutTarget) -> None:
        """Write where targets stand, all or none."""
        await in_db_thread(self._registry.rollout_targets.put, self._id, targets, lease=self._lease)

    async def change(self, was: Rollout, rollout: Rollout, event: RolloutEvent) -> bool:
        """Write a state with the event of it, or nothing where the row is another by now."""
        return await in_db_thread(self._registry.rollouts.change, was, rollout, event, lease=self._lease)

    async def add_event(self, event: RolloutEvent) -> None:
        """Append what was decided."""
        await in_db_thread(self._registry.rollout_events.add, self._id, event, lease=self._lease)

    async def add_exposure(self, instance_id: InstanceId, release: ReleaseId) -> None:
        """Note that an instance was among the first."""
        await in_db_thread(self._registry.rollout_targets.add_exposure, instance_id, release, lease=self._lease)


def records_of(registry: "Registry", rollout_id: RolloutId) -> Records:
    """All that is written of a rollout."""
    return Records(
        registry.rollouts.get(rollout_id),
        registry.rollout_targets.list(rollout_id),
        registry.rollout_events.latest(rollout_id),
    )


def records(app: "Container", text: str) -> Records:
    """All that is written of the rollout that an operator means; of the one under way for an empty text.

    Raises:
        UsageError: There is none of that id.
    """
    return records_of(app.registry, app.registry.rollouts.find(text).id)


def asked_of(registry: "Registry", rollout_id: RolloutId) -> "Mapping[str, object]":
    """What was asked for when a rollout was begun: ``where``, ``who`` and the rest of its first event."""
    return registry.rollout_events.latest(rollout_id)["start"].decision
