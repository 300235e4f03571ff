"""What can be next in a rollout. Data only: deciding returns it, doing carries it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.model.rollout import RolloutState, RolloutTarget
from hermesops.model.rollout_spec import HookGate
from hermesops.rollout.events import Recorded, StateChanged


@dataclass(frozen=True)
class Change:
    """The rollout gets another state."""

    state: RolloutState


@dataclass(frozen=True)
class Notify:
    """Somebody wants to know of a change of state."""

    event: Recorded[StateChanged]


@dataclass(frozen=True)
class DeployTargets:
    """These get the release, or are brought to a known end if they were under way."""

    targets: tuple[RolloutTarget, ...]


@dataclass(frozen=True)
class RollBackTargets:
    """These are put back, at most so many at once."""

    targets: tuple[RolloutTarget, ...]
    at_once: int


@dataclass(frozen=True)
class UpdateTargets:
    """These are as given here now; nothing is done to a machine."""

    targets: tuple[RolloutTarget, ...]


@dataclass(frozen=True)
class Drill:
    """The way back is tried on a machine of the pool."""

    before: str


@dataclass(frozen=True)
class AskHook:
    """A gate that others keep is asked whether a stage may begin, or, behind the last one, whether all is well."""

    hook: HookGate
    stage: int


@dataclass(frozen=True)
class Wait:
    """Nothing is to be done for so many seconds, unless somebody says something."""

    seconds: float


Step = Change | Notify | DeployTargets | RollBackTargets | UpdateTargets | Drill | AskHook | Wait


@dataclass(frozen=True)
class Decision:
    """A step, and what it followed from.

    Attributes:
        why: One line.
        evidence: Figures, as JSON knows them.
    """

    step: Step
    why: str
    evidence: Mapping[str, object] = field(default_factory=dict)
