"""Events of a rollout: one type each, and the form in which the registry keeps it. Pure.

Stored names and keys are spelled out in this module alone: renaming a class or a field changes no stored row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, TypeVar

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult, RolloutEvent, RolloutState, TargetState

_LONGEST_KIND = 32
"""Characters that the registry's column ``kind`` holds."""


@dataclass(frozen=True)
class RolloutStarted:
    """An operator or a job started the rollout; its evidence counts the targets and their releases.

    Attributes:
        where: The selector that chose the targets; empty for all running instances.
        action: A value of ``Action``.
    """

    why: str = ""
    who: str = ""
    release: str = ""
    where: str = ""
    action: str = ""


@dataclass(frozen=True)
class StateChanged:
    """The rollout changed its state, by its own decision or by an operator's command.

    Attributes:
        who: The operator; empty if the rollout decided.
        verb: The operator's command, as ``promote``; empty likewise.
        promoted: How many stages are promoted since; 0 for other commands.
        approved: How many stages are approved since; likewise.
        targets: Targets that the command gave another try.
    """

    before: RolloutState
    after: RolloutState
    why: str = ""
    who: str = ""
    verb: str = ""
    promoted: int = 0
    approved: int = 0
    targets: tuple[InstanceId, ...] = ()


@dataclass(frozen=True)
class CommandGiven:
    """An operator's command left the state as it was; attributes as those of ``StateChanged``."""

    state: RolloutState
    why: str = ""
    who: str = ""
    verb: str = ""
    promoted: int = 0
    approved: int = 0
    targets: tuple[InstanceId, ...] = ()


@dataclass(frozen=True)
class AboutTargets:
    """An event about some targets, with its reason."""

    why: str = ""
    targets: tuple[InstanceId, ...] = ()


class TargetsUpdated(AboutTargets):
    """The state of some targets was written; no machine was changed."""


class BatchBegun(AboutTargets):
    """Some targets begin to get the release, or those that a dead runner left are finished."""


@dataclass(frozen=True)
class TargetOutcome:
    """How one target of a batch ended."""

    instance: InstanceId
    stage: int
    batch: int
    state: TargetState
    detail: str


@dataclass(frozen=True)
class BatchEnded:
    """Each target of a batch has an outcome, or a gate failed before all had one."""

    outcomes: tuple[TargetOutcome, ...] = ()


class RollbackBegun(AboutTargets):
    """Some targets begin to go back to their release before."""


@dataclass(frozen=True)
class DrillEnded:
    """Upgrade and rollback were rehearsed on a warm-pool machine."""

    result: GateResult
    why: str = ""
    detail: str = ""


@dataclass(frozen=True)
class GateAnswered:
    """A hook was asked.

    Attributes:
        stage: The stage that it let begin or not, counted from 0; the number of stages for the rollout's end.
    """

    gate: str
    result: GateResult
    stage: int
    why: str = ""
    detail: str = ""


@dataclass(frozen=True)
class WaitBegun:
    """There is nothing to do for a while; stored once per reason."""

    why: str = ""


@dataclass(frozen=True)
class Notified:
    """The webhook was called for a change of state.

    Attributes:
        of: Id of the ``StateChanged``.
        problem: Why it was not delivered; empty when it was.
    """

    of: int
    problem: str = ""


@dataclass(frozen=True)
class WorldPurged:
    """The environment was purged, which aborted the rollout."""

    why: str = ""


Event = (
    RolloutStarted
    | StateChanged
    | CommandGiven
    | TargetsUpdated
    | BatchBegun
    | BatchEnded
    | RollbackBegun
    | DrillEnded
    | GateAnswered
    | WaitBegun
    | Notified
    | WorldPurged
)

E_co = TypeVar("E_co", bound=Event, covariant=True)


@dataclass(frozen=True)
class Recorded(Generic[E_co]):
    """An event with its time and its evidence.

    Attributes:
        id: Rises within a rollout; 0 before it is written.
    """

    at: datetime
    event: E_co
    evidence: Mapping[str, object] = field(default_factory=dict)
    id: int = 0


_HOOK = "hook"

STORED_NAMES: Mapping[type[Event], str] = {
    RolloutStarted: "start",
    StateChanged: "state",
    CommandGiven: "command",
    TargetsUpdated: "update_targets",
    BatchBegun: "deploy_targets",
    BatchEnded: "deployed",
    RollbackBegun: "roll_back_targets",
    DrillEnded: "drill",
    GateAnswered: _HOOK,
    WaitBegun: "wait",
    Notified: "notify",
    WorldPurged: "abort",
}
"""The column ``kind``. A hook's answer is stored as ``hook:NAME``, so that the newest of each hook can be read."""

_TYPES = {name: kind for kind, name in STORED_NAMES.items()}

_STORED_KEYS = {"before": "from", "after": "to", "outcomes": "targets"}
"""Keys of the column ``decision`` that differ from the name of the field."""

_FROM_JSON: Mapping[str, Callable[[Any], object]] = {
    "before": RolloutState,
    "after": RolloutState,
    "state": RolloutState,
    "result": GateResult,
    "targets": tuple,
    "outcomes": lambda stored: tuple(
        TargetOutcome(**{**target, "state": TargetState(target["state"])}) for target in stored
    ),
}
"""How the value of a field is read; the others are as JSON has them."""


def hook_kind(name: str) -> str:
    """The stored name of a hook's answers, cut to what the registry's column holds."""
    return f"{_HOOK}:{name}"[:_LONGEST_KIND]


def kind_of(event: Event) -> str:
    """The stored name of an event."""
    return hook_kind(event.gate) if isinstance(event, GateAnswered) else STORED_NAMES[type(event)]


def to_row(recorded: Recorded[Event]) -> RolloutEvent:
    """The row of an event; fields that have their default are left out."""
    event = recorded.event
    decision = {
        _STORED_KEYS.get(field.name, field.name): _plain(value)
        for field in fields(event)
        if (value := getattr(event, field.name)) != field.default
    }
    return RolloutEvent(recorded.at, kind_of(event), decision, recorded.evidence, recorded.id)


def from_row(row: RolloutEvent) -> Recorded[Event]:
    """The event of a row.

    Raises:
        BrokenInvariantError: The row is malformed.
    """
    try:
        kind: Any = _TYPES[row.kind.partition(":")[0]]
        stored: dict[str, Any] = {
            field.name: _FROM_JSON.get(field.name, _as_is)(row.decision[key])
            for field in fields(kind)
            if (key := _STORED_KEYS.get(field.name, field.name)) in row.decision
        }
        return Recorded(row.at, kind(**stored), row.evidence, row.id)
    except (LookupError, TypeError, ValueError) as error:
        raise BrokenInvariantError(
            f"event {row.id} of a rollout, {row.kind}, cannot be read ({type(error).__name__}: {error})",
            hint=Hint(("registry", "check")),
        ) from error


def instances_of(event: Event) -> frozenset[InstanceId]:
    """The instances that an event is about; none for those about the rollout as a whole."""
    if isinstance(event, BatchEnded):
        return frozenset(target.instance for target in event.outcomes)
    if isinstance(event, StateChanged | CommandGiven | AboutTargets):
        return frozenset(event.targets)
    return frozenset()


def _as_is(value: object) -> object:
    return value


def _plain(value: Any) -> object:  # noqa: ANN401 - any value of a field
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, TargetOutcome):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return getattr(value, "value", value)
