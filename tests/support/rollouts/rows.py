"""Rollouts as rows, for tests that need no more of them."""

from dataclasses import replace
from datetime import UTC, datetime

from hermesops.agents.rollout.records.events import Recorded, RolloutStarted, to_row
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState, RolloutTarget, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, Spec
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import CELL

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD, NEW = ReleaseId("0.18.2-0123456789ab"), ReleaseId("0.19.0-ba9876543210")
ROLLOUT = Rollout(
    RolloutId("r1"),
    NEW,
    Action.SLOT,
    Spec(),
    RolloutState.PENDING,
    "newer is better",
    "tester",
    created_at=AT,
    updated_at=AT,
)
STARTED = Recorded(AT, RolloutStarted("asked for"), {"targets": 2})
STARTED_ROW = to_row(STARTED)


def target_of(instance: Instance | InstanceId, position: int = 0, *, stage: int = 0) -> RolloutTarget:
    """A target that waits for its turn."""
    id_, title = (instance.id, instance.title) if isinstance(instance, Instance) else (instance, "ada")
    return RolloutTarget(Target(id_, title, Plan.LIGHT, CELL, "hel1", release_before=OLD), stage, 0, position)


def started(registry: Registry, *instances: Instance, rollout_id: str = "r1", action: Action = Action.SLOT) -> Rollout:
    """A rollout to those, just begun."""
    now = registry.now()
    rollout = replace(ROLLOUT, id=RolloutId(rollout_id), action=action, created_at=now, updated_at=now)
    registry.rollouts.add(
        rollout, [target_of(instance, number) for number, instance in enumerate(instances)], STARTED_ROW
    )
    return rollout
