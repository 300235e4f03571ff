"""Which instances a rollout may change, as its start freezes them. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hermesops.model.fleet import Ordered
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.model.instance_policy import InstancePolicy
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Target
from hermesops.model.rollout_spec import Action
from hermesops.model.selector import Selector

SELECTABLE = frozenset({"plan", "cell", "region", "release", "user"})
"""Fields of ``--where``."""


@dataclass(frozen=True)
class Fleet:
    """What the registry knows of instances.

    Attributes:
        ordered: All instances with their machines.
        releases: The release that each was last seen to run; unknown ones are absent.
        exposures: The releases that each was among the first to get, of those that count.
        busy: Instances of rollouts that have not ended.
    """

    ordered: tuple[Ordered, ...]
    releases: Mapping[InstanceId, ReleaseId] = field(default_factory=dict)
    policies: Mapping[InstanceId, InstancePolicy] = field(default_factory=dict)
    exposures: Mapping[InstanceId, Collection[ReleaseId]] = field(default_factory=dict)
    busy: frozenset[InstanceId] = frozenset()


def running_targets(fleet: Fleet, action: Action = Action.SLOT) -> tuple[Target, ...]:
    """Every running instance; for whole machines, the release before is the image that its machine boots."""
    running = (one for one in fleet.ordered if one.instance.status is InstanceStatus.RUNNING)
    return tuple(_target(fleet, one, action) for one in running)


def select(targets: Iterable[Target], selector: Selector) -> tuple[Target, ...]:
    """The targets that a selector takes."""
    return tuple(
        target
        for target in targets
        if selector.takes(
            {
                "plan": target.plan.value,
                "cell": target.cell,
                "region": target.region,
                "release": target.release_before,
                "user": target.user,
            }
        )
    )


def _target(fleet: Fleet, ordered: Ordered, action: Action) -> Target:
    instance = ordered.instance
    policy = fleet.policies.get(instance.id, InstancePolicy())
    release = fleet.releases.get(instance.id, ReleaseId(""))
    return Target(
        instance.id,
        instance.title,
        instance.plan,
        instance.cell,
        ordered.region,
        release_before=release if action is Action.SLOT else (ordered.image_id or ""),
        agent_version=release.rpartition("-")[0],
        opted_in=policy.opted_in,
        protected=policy.protected,
        exposures=len(fleet.exposures.get(instance.id, ())),
        quiet=policy.quiet,
    )
