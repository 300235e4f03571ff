"""Instances that are outdated: a rollout did not reach them, or they came after it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.rollout.plan.requests import SELECTABLE, Fleet, RolloutRequest, running_targets, select
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState, RolloutTarget
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, Spec


@dataclass(frozen=True)
class OutdatedInstance:
    """An instance without the release, or the image, that it should have."""

    instance_id: InstanceId
    user: str
    release: ReleaseId
    rollout: RolloutId
    action: Action
    why: str
    since: datetime | None


def missed_instances(
    missed: Iterable[tuple[RolloutId, ReleaseId, RolloutTarget]], actions: Mapping[RolloutId, Action]
) -> tuple[OutdatedInstance, ...]:
    """The targets that a rollout left outdated at its end."""
    return tuple(
        OutdatedInstance(
            target.id,
            target.facts.user,
            release,
            rollout,
            actions[rollout],
            target.detail or "not deployed",
            target.updated_at,
        )
        for rollout, release, target in missed
    )


def last_done(rollouts: Iterable[Rollout]) -> Rollout | None:
    """The newest rollout of a release that is done.

    Args:
        rollouts: The newest first.
    """
    return next(
        (rollout for rollout in rollouts if rollout.state is RolloutState.DONE and rollout.action is Action.SLOT), None
    )


def late_instances(last: Rollout, where: str, fleet: Fleet) -> tuple[OutdatedInstance, ...]:
    """Running instances that match a rollout's selector, came after its start, and run another release.

    Args:
        where: The rollout's selector.
    """
    conditions = Selector.parse(where, fields=SELECTABLE).conditions
    # Earlier releases of its targets prove nothing about instances that came later.
    selector = Selector({name: values for name, values in conditions.items() if name != "release"})
    created_at = {ordered.instance.id: ordered.instance.created_at for ordered in fleet.ordered}
    return tuple(
        OutdatedInstance(
            target.instance_id,
            target.user,
            last.release,
            last.id,
            last.action,
            f"came after it, and runs {target.release_before or 'the release of its image'}",
            created_at[target.instance_id],
        )
        for target in select(running_targets(fleet), selector)
        if created_at[target.instance_id] > last.created_at
        and target.release_before != last.release
        and target.instance_id not in fleet.busy
    )


def updatable(outdated: Iterable[OutdatedInstance], fleet: Fleet) -> tuple[OutdatedInstance, ...]:
    """The outdated instances that run and that no unfinished rollout has."""
    running = {ordered.instance.id for ordered in fleet.ordered if ordered.instance.status is InstanceStatus.RUNNING}
    return tuple(instance for instance in outdated if instance.instance_id in running - fleet.busy)


def requests_for(outdated: Sequence[OutdatedInstance], reason: str, spec: Spec) -> tuple[RolloutRequest, ...]:
    """A rollout of each release or image to the instances that lack it, through the usual gates."""
    requests = []
    for action, release in sorted({(instance.action, instance.release) for instance in outdated}):
        where = ",".join(
            f"user={instance.user}" for instance in outdated if (instance.action, instance.release) == (action, release)
        )
        requests.append(RolloutRequest(release, where, all_running=False, spec=spec, action=action, reason=reason))
    return tuple(requests)
