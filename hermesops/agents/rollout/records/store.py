"""Rollouts in the registry: the rows of one for its runner, and the rows that requests and reports read."""

from dataclasses import dataclass, replace

from hermesops.agents.rollout.plan.requests import Fleet
from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.records.directory import Rollouts
from hermesops.agents.rollout.records.events import Event, Recorded, RolloutStarted, to_row
from hermesops.model.fleet.cell import parse_cell
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState, RolloutTarget
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class RolloutRows:
    """The rows of one rollout, read and written in the registry's thread.

    Writes after the runner's lease was lost raise ``LeaseLostError``.
    """

    registry: Registry
    rollout_id: RolloutId
    lease: Lease

    async def read(self) -> Records:
        """Read the rollout with its targets, its latest events and the freezes of the environment."""

        def read() -> Records:
            return replace(Rollouts(self.registry).records(self.rollout_id), freezes=self.registry.freezes.list())

        return await in_db_thread(read)

    async def state(self) -> RolloutState:
        """The state alone, cheaply: it is asked every second."""
        return await in_db_thread(self.registry.rollouts.state, self.rollout_id)

    async def put_targets(self, *targets: RolloutTarget) -> None:
        """Write place, state, detail, times and progress of targets, all or none."""
        await in_db_thread(self.registry.rollout_targets.put, self.rollout_id, targets, lease=self.lease)

    async def change(self, was: Rollout, rollout: Rollout, event: Recorded[Event]) -> bool:
        """Write state, reason, who and operators' decisions together with the event, in one transaction.

        Returns:
            Whether it was written; not if the row differs from ``was``, as an operator gave a command meanwhile.
        """
        return await in_db_thread(self.registry.rollouts.change, was, rollout, to_row(event), lease=self.lease)

    async def add_event(self, event: Recorded[Event]) -> None:
        """Append an event; it is never changed."""
        await in_db_thread(self.registry.rollout_events.add, self.rollout_id, to_row(event), lease=self.lease)

    async def add_exposure(self, instance_id: InstanceId, release: ReleaseId) -> None:
        """Write that an instance was among the first to get a release. Safe to call twice."""
        await in_db_thread(self.registry.rollout_targets.add_exposure, instance_id, release, lease=self.lease)


def fleet_of(registry: Registry) -> Fleet:
    """The instances, with all that rollouts select and order them by."""
    unfinished = registry.rollouts.list(unfinished=True)
    return Fleet(
        registry.fleet.list_ordered(),
        registry.rollout_targets.instance_releases(),
        registry.policies.list(),
        registry.rollout_targets.exposures(),
        frozenset(target.id for row in unfinished for target in registry.rollout_targets.list(row.id)),
    )


def start_of(registry: Registry, rollout_id: RolloutId) -> RolloutStarted:
    """The first event of a rollout: the request and its author."""
    return Rollouts(registry).start(rollout_id)


def refuse_unknown(registry: Registry, selector: Selector) -> None:
    """Refuse a selector that names a user or a cell that does not exist.

    Raises:
        UsageError: One does not: nothing would be found about it, which reads like good news.
    """
    for user in sorted(selector.values("user")):
        registry.instances.find(user)
    for cell in sorted(selector.values("cell")):
        registry.cells.get(parse_cell(cell))
