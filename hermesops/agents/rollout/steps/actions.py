"""The steps that a rollout can take next. Data only: ``decide`` returns one, the runner does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.agents.rollout.records.events import Recorded, StateChanged
from hermesops.model.rollout.records import RolloutState, RolloutTarget
from hermesops.model.rollout.spec import HookGate


@dataclass(frozen=True)
class Change:
    """Change the state of the rollout."""

    state: RolloutState


@dataclass(frozen=True)
class Notify:
    """Tell the webhook of a change of state."""

    event: Recorded[StateChanged]


@dataclass(frozen=True)
class DeployTargets:
    """Deploy the release to targets, or finish the change of those that are in flight."""

    targets: tuple[RolloutTarget, ...]


@dataclass(frozen=True)
class RollBackTargets:
    """Roll targets back, at most ``at_once`` at the same time."""

    targets: tuple[RolloutTarget, ...]
    at_once: int


@dataclass(frozen=True)
class UpdateTargets:
    """Write these targets as they are given here; no machine is changed."""

    targets: tuple[RolloutTarget, ...]


@dataclass(frozen=True)
class Drill:
    """Rehearse upgrade and rollback on a warm-pool machine, from the release ``before``."""

    before: str


@dataclass(frozen=True)
class AskHook:
    """Ask a hook whether a stage may begin; the number of stages means the end of the rollout."""

    hook: HookGate
    stage: int


@dataclass(frozen=True)
class Wait:
    """Wait some seconds, or until an operator gives a command.

    Attributes:
        is_held: Whether something outside of the rollout holds it.
    """

    seconds: float
    is_held: bool = False


Step = Change | Notify | DeployTargets | RollBackTargets | UpdateTargets | Drill | AskHook | Wait


@dataclass(frozen=True)
class Decision:
    """A step with its reason and its evidence."""

    step: Step
    why: str
    evidence: Mapping[str, object] = field(default_factory=dict)
