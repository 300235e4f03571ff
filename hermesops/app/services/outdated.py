"""Who runs something else than what was brought to the others: missed by a rollout, or here since."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_store import asked_of
from hermesops.app.adapters.rollout_targets import FIELDS, candidates, selected
from hermesops.app.services.rollout_requests import RolloutRequest
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Rollout, RolloutId, RolloutState
from hermesops.model.rollout_spec import Action, Spec
from hermesops.model.selector import Selector

if TYPE_CHECKING:
    from hermesops.registry import Registry
    from hermesops.settings import Settings


@dataclass(frozen=True)
class OutdatedInstance:
    """An instance that shall get a release, or a machine of an image.

    Attributes:
        why: It has not got it.
        since: From when on it is outdated.
    """

    instance_id: InstanceId
    user: str
    release: ReleaseId
    rollout: RolloutId
    action: Action
    why: str
    since: datetime | None


def outdated(registry: "Registry") -> tuple[OutdatedInstance, ...]:
    """Everybody, those that were missed first."""
    rows = registry.rollout_targets.outdated()
    actions = {rollout: registry.rollouts.get(rollout).action for rollout in {row[0] for row in rows}}
    missed = tuple(
        OutdatedInstance(
            target.id,
            target.facts.user,
            release,
            rollout,
            actions[rollout],
            target.detail or "not brought",
            target.updated_at,
        )
        for rollout, release, target in rows
    )
    known = {one.instance_id for one in missed}
    return (*missed, *(one for one in _late(registry) if one.instance_id not in known))


def can_be_updated(registry: "Registry", found: Sequence[OutdatedInstance]) -> tuple[OutdatedInstance, ...]:
    """Those whose agents run, and whom no rollout has."""
    held = _held(registry)
    awake = {one.instance.id for one in registry.fleet.list_ordered() if one.instance.status is InstanceStatus.RUNNING}
    return tuple(one for one in found if one.instance_id in awake - held)


def requests(found: Sequence[OutdatedInstance], reason: str, spec: Spec) -> tuple[RolloutRequest, ...]:
    """A rollout of each release or image to outdated instances, through the usual gates. Pure."""
    asked = []
    for action, release in sorted({(one.action, one.release) for one in found}):
        where = ",".join(f"user={one.user}" for one in found if (one.action, one.release) == (action, release))
        asked.append(RolloutRequest(release, where, everybody=False, spec=spec, action=action, reason=reason))
    return tuple(asked)


def usual_spec(settings: "Settings") -> Spec:
    """How a rollout goes for which nobody chose anything else."""
    return Spec(two_person_above=settings.two_person_above)


def _held(registry: "Registry") -> set[InstanceId]:
    return {
        target.id for row in registry.rollouts.list(unfinished=True) for target in registry.rollout_targets.list(row.id)
    }


def _late(registry: "Registry") -> tuple[OutdatedInstance, ...]:
    """Those that came after the targets of the last rollout that is done were frozen, and run something else."""
    done = (one for one in registry.rollouts.list() if one.state is RolloutState.DONE and one.action is Action.SLOT)
    last = next(done, None)
    if last is None:
        return ()
    meant = selected(candidates(registry), _selector(registry, last))
    came = {one.instance.id: one.instance.created_at for one in registry.fleet.list_ordered()}
    held = _held(registry)
    return tuple(
        OutdatedInstance(
            target.instance_id,
            target.user,
            last.release,
            last.id,
            last.action,
            f"came after it, and runs {target.release_before or 'what its image brought'}",
            came[target.instance_id],
        )
        for target in meant
        if came[target.instance_id] > last.created_at
        and target.release_before != last.release
        and target.instance_id not in held
    )


def _selector(registry: "Registry", rollout: Rollout) -> Selector:
    """Whom it was meant for; what they ran before says nothing of those that come later."""
    where = str(asked_of(registry, rollout.id).get("where") or "")
    conditions = Selector.parse(where, fields=FIELDS).conditions
    return Selector({name: values for name, values in conditions.items() if name != "release"})
