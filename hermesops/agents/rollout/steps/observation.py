"""A rollout as observed at one moment, and the questions that several decisions ask of it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hermesops.agents.rollout.gates.judgement import soaked_at
from hermesops.agents.rollout.ports import AlertState, ApprovalState, HealthObservation, Records
from hermesops.agents.rollout.target.decision import BUSY_AGAIN_S, is_overdue
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Rollout, RolloutTarget, TargetState
from hermesops.model.rollout.spec import Spec


@dataclass(frozen=True)
class PreflightAnswers:
    """The answers of untouched targets before their turn.

    Attributes:
        unwell: Those that gave no proper answer for ``unreachable_after_s``, with the problem.
    """

    unanswered: frozenset[InstanceId] = frozenset()
    answered: frozenset[InstanceId] = frozenset()
    unwell: Mapping[InstanceId, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RolloutObservation:
    """A rollout at one moment: everything that decisions follow from."""

    now: datetime
    records: Records
    health: HealthObservation = field(default_factory=HealthObservation)
    approval: ApprovalState = field(default_factory=ApprovalState)
    answers: PreflightAnswers = field(default_factory=PreflightAnswers)
    alerts: AlertState = field(default_factory=AlertState)

    @property
    def rollout(self) -> Rollout:
        """The row of the observed rollout."""
        return self.records.rollout

    @property
    def spec(self) -> Spec:
        """The spec of its start, with an operator's later decision about open alerts."""
        rollout = self.records.rollout
        why = rollout.decisions.despite_alerts
        return replace(rollout.spec, despite_alerts=why) if why else rollout.spec

    @property
    def targets(self) -> tuple[RolloutTarget, ...]:
        """All targets of the rollout, ordered by position."""
        return self.records.targets

    @property
    def at_once(self) -> int:
        """How many targets may be changing at the same time."""
        return self.spec.at_once(len(self.targets))

    def in_state(self, *states: TargetState) -> tuple[RolloutTarget, ...]:
        """Targets in one of these states."""
        return tuple(target for target in self.targets if target.state in states)

    def in_flight(self) -> tuple[RolloutTarget, ...]:
        """Targets whose machines are changing, as far as is known."""
        return tuple(target for target in self.targets if target.state.is_in_flight)

    def entered(self) -> int:
        """The last stage in which a target was tried, from 0; -1 before the first."""
        return entered_stage(self.targets)

    def pending(self) -> tuple[RolloutTarget, ...]:
        """Waiting targets, and deferred ones that are due again; by position."""
        return tuple(target for target in self.targets if target.state is TargetState.WAITING or self._is_due(target))

    def is_quiet(self, target: RolloutTarget) -> bool:
        """Whether its user's quiet hours forbid to change a target now."""
        if self.spec.emergency or target.facts.quiet is None or is_overdue(target, self.now, self.spec):
            return False
        return target.facts.quiet.hold_at(self.now)

    def soak_ends(self) -> datetime | None:
        """When the last soak ends; ``None`` when no target soaks."""
        ends = (soaked_at(target, self.spec) for target in self.in_state(TargetState.SOAKING))
        return max((end for end in ends if end), default=None)

    def settled_at(self) -> datetime | None:
        """When the next batch may follow the last one."""
        times = [
            target.progress.confirmed_at or target.updated_at
            for target in self.targets
            if target.touched_at is not None or target.state.has_failed
        ]
        known = [timestamp for timestamp in times if timestamp is not None]
        return max(known) + timedelta(seconds=self.spec.settle_s) if known else None

    def marked(self, target: RolloutTarget, state: TargetState, detail: str = "") -> RolloutTarget:
        """The target in another state, from now on."""
        return replace(target, state=state, detail=detail, updated_at=self.now)

    def _is_due(self, target: RolloutTarget) -> bool:
        if target.state is not TargetState.DEFERRED or self.is_quiet(target):
            return False
        waited = self.now - (target.updated_at or self.now)
        again = target.facts.quiet is not None or waited >= timedelta(seconds=BUSY_AGAIN_S)
        return again or is_overdue(target, self.now, self.spec) or bool(self.spec.emergency)


def entered_stage(targets: Iterable[RolloutTarget]) -> int:
    """The last stage in which a target was tried, from 0; -1 before the first."""
    return max((target.stage for target in targets if was_tried(target)), default=-1)


def was_tried(target: RolloutTarget) -> bool:
    """Whether a target was changed, or turned out not to be changeable."""
    return target.touched_at is not None or target.state not in {TargetState.WAITING, TargetState.DEFERRED}


def count_states(targets: Iterable[RolloutTarget]) -> Mapping[TargetState, int]:
    """How many targets are in each state; states of none are left out."""
    states = [target.state for target in targets]
    return {state: states.count(state) for state in TargetState if state in states}
