"""A rollout as it is seen at one moment, and the questions that several decisions ask of it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hermesops.model.freeze import Freeze
from hermesops.model.ids import InstanceId
from hermesops.model.rollout import Rollout, RolloutTarget, TargetState
from hermesops.model.rollout_spec import Spec
from hermesops.rollout.gates.judgement import soaked_at
from hermesops.rollout.ports import ApprovalState, Records, Watched
from hermesops.rollout.target.decision import BUSY_AGAIN_S, is_overdue


@dataclass(frozen=True)
class RolloutObservation:
    """What is decided by.

    Attributes:
        unanswered: Untouched targets that were asked and have not answered yet.
        answered: Untouched targets that answered as they should.
        unwell: Untouched targets that gave no proper answer for as long as one is patient, with what is wrong.
    """

    now: datetime
    records: Records
    watched: Watched = field(default_factory=Watched)
    freezes: tuple[Freeze, ...] = ()
    approval: ApprovalState = field(default_factory=ApprovalState)
    unanswered: frozenset[InstanceId] = frozenset()
    answered: frozenset[InstanceId] = frozenset()
    unwell: Mapping[InstanceId, str] = field(default_factory=dict)

    @property
    def rollout(self) -> Rollout:
        """Its row."""
        return self.records.rollout

    @property
    def spec(self) -> Spec:
        """What was chosen before it started."""
        return self.records.rollout.spec

    @property
    def targets(self) -> tuple[RolloutTarget, ...]:
        """All of them, in the order of the course."""
        return self.records.targets

    @property
    def at_once(self) -> int:
        """How many may be changing at the same time."""
        return self.spec.at_once(len(self.targets))

    def in_state(self, *states: TargetState) -> tuple[RolloutTarget, ...]:
        """Targets in one of these states."""
        return tuple(target for target in self.targets if target.state in states)

    def in_flight(self) -> tuple[RolloutTarget, ...]:
        """Whose machines are changing, as far as we know."""
        return tuple(target for target in self.targets if target.state.is_in_flight)

    def entered(self) -> int:
        """The last stage in which anybody was tried; -1 before the first."""
        return entered_stage(self.targets)

    def pending(self) -> tuple[RolloutTarget, ...]:
        """Whose turn has not come, or comes again now, in the order of the course."""
        return tuple(target for target in self.targets if target.state is TargetState.WAITING or self._is_due(target))

    def is_quiet(self, target: RolloutTarget) -> bool:
        """Whether a target is to be left alone because of the hour."""
        if self.spec.emergency or target.facts.quiet is None or self._is_overdue(target):
            return False
        return target.facts.quiet.hold_at(self.now)

    def soak_ends(self) -> datetime | None:
        """When the last target that soaks will have done so; ``None`` when none does."""
        ends = (soaked_at(target, self.spec) for target in self.in_state(TargetState.SOAKING))
        return max((end for end in ends if end), default=None)

    def settled_at(self) -> datetime | None:
        """When the next batch may follow the last one."""
        times = [
            target.progress.confirmed_at or target.updated_at
            for target in self.targets
            if target.touched_at is not None or target.state.has_failed
        ]
        known = [moment for moment in times if moment is not None]
        return max(known) + timedelta(seconds=self.spec.settle_s) if known else None

    def since(self, moment: datetime) -> timedelta:
        """The time that has passed since then."""
        return self.now - moment

    def marked(self, target: RolloutTarget, state: TargetState, detail: str = "") -> RolloutTarget:
        """The target in another state, from now on."""
        return replace(target, state=state, detail=detail, updated_at=self.now)

    def _is_due(self, target: RolloutTarget) -> bool:
        if target.state is not TargetState.DEFERRED or self.is_quiet(target):
            return False
        asked_at = target.updated_at or self.now
        again = target.facts.quiet is not None or self.since(asked_at) >= timedelta(seconds=BUSY_AGAIN_S)
        return again or self._is_overdue(target) or bool(self.spec.emergency)

    def _is_overdue(self, target: RolloutTarget) -> bool:
        return is_overdue(target, self.now, self.spec)


def entered_stage(targets: Iterable[RolloutTarget]) -> int:
    """The last stage in which anybody was tried; -1 before the first."""
    return max((target.stage for target in targets if was_tried(target)), default=-1)


def was_tried(target: RolloutTarget) -> bool:
    """Whether its turn has come: it was changed, or it turned out that it could not be."""
    return target.touched_at is not None or target.state not in {TargetState.WAITING, TargetState.DEFERRED}


def count_states(targets: Iterable[RolloutTarget]) -> Mapping[TargetState, int]:
    """How many are in which state; states in which none is are left out."""
    states = [target.state for target in targets]
    return {state: states.count(state) for state in TargetState if state in states}
