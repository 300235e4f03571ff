"""Reads from the registry which instances are outdated; the rules are those of ``hermesops.rollout.plan.backlog``."""

from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_store import fleet_of, start_of
from hermesops.model.rollout_spec import Spec
from hermesops.rollout.plan import backlog

if TYPE_CHECKING:
    from hermesops.registry import Registry
    from hermesops.rollout.plan.backlog import OutdatedInstance
    from hermesops.settings import Settings


def outdated(registry: "Registry") -> "tuple[OutdatedInstance, ...]":
    """All outdated instances, first those that a rollout did not reach."""
    rows = registry.rollout_targets.outdated()
    actions = {rollout: registry.rollouts.get(rollout).action for rollout in {row[0] for row in rows}}
    missed = backlog.missed_instances(rows, actions)
    last = backlog.last_done(registry.rollouts.list())
    if last is None:
        return missed
    late = backlog.late_instances(last, start_of(registry, last.id).where, fleet_of(registry))
    known = {one.instance_id for one in missed}
    return (*missed, *(one for one in late if one.instance_id not in known))


def updatable(registry: "Registry") -> "tuple[OutdatedInstance, ...]":
    """The outdated instances that a rollout can be started for now."""
    return backlog.updatable(outdated(registry), fleet_of(registry))


def usual_spec(settings: "Settings") -> Spec:
    """The spec of a rollout for which nobody chose anything else."""
    return Spec(two_person_above=settings.two_person_above)
