"""One release deployed to a set of instances: the rollout, its targets, its events, and freezes. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from hermesops.model.fleet.instance import QuietHours
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.plan import Plan
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, Spec

RolloutId = NewType("RolloutId", str)
"""Of a row of ``rollouts``; short enough to type."""


def rollout_subject(rollout_id: RolloutId) -> str:
    """The subject of a rollout's lease, and of its audit entries."""
    return f"rollout/{rollout_id}"


def salted(*words: str) -> float:
    """A number from 0 up to 1 that follows from the words alone: the same on every computer, evenly distributed."""
    return int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest()[:8]) / 2**64


class RolloutState(StrEnum):
    """The state of a rollout.

    ``halted``: a gate stopped it. ``aborting``/``rolling_back``: no more targets begin, some still have to go back.
    """

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    HALTED = "halted"
    ABORTING = "aborting"
    ABORTED = "aborted"
    ROLLING_BACK = "rolling_back"
    DONE = "done"
    ROLLED_BACK = "rolled_back"

    @property
    def has_ended(self) -> bool:
        """Whether its instances are free for another rollout."""
        return self in {RolloutState.ABORTED, RolloutState.DONE, RolloutState.ROLLED_BACK}

    @property
    def has_runner(self) -> bool:
        """Whether a runner should be working on it."""
        return not self.has_ended and self is not RolloutState.HALTED


class TargetState(StrEnum):
    """The state of one instance in a rollout."""

    WAITING = "waiting"
    DEFERRED = "deferred"
    """Busy, or in its user's quiet hours: it is changed later, at the latest at a deadline."""
    OUTDATED = "outdated"
    """The rollout has ended and it did not get the release."""
    FETCHING = "fetching"
    ACTIVATING = "activating"
    UNCONFIRMED = "unconfirmed"
    SOAKING = "soaking"
    HEALTHY = "healthy"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """Its machine or its agent gave no proper answer before it was touched; it was left as it was."""
    SILENT = "silent"
    """Its machine has not answered since its change began."""
    TIMED_OUT = "timed_out"
    ROLLED_BACK = "rolled_back"
    """Was well, and was rolled back with the others."""
    KEPT = "kept"
    """Was to be rolled back, but would have lost rows written since; it stays on the new release."""

    @property
    def is_in_flight(self) -> bool:
        """Whether its machine is changing, as far as is known."""
        return self in {TargetState.FETCHING, TargetState.ACTIVATING, TargetState.UNCONFIRMED}

    @property
    def has_failed(self) -> bool:
        """Whether the target counts against the release; untouched targets do not."""
        return self in {TargetState.FAILED, TargetState.SILENT, TargetState.TIMED_OUT}

    @property
    def is_well(self) -> bool:
        """Whether the target counts for the release."""
        return self in {TargetState.SOAKING, TargetState.HEALTHY}


class GateResult(StrEnum):
    """Results of a gate. Only ``pass`` is a pass: missing data proves nothing."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_EXERCISED = "not_exercised"


@dataclass(frozen=True)
class Target:
    """One instance as it was when the rollout started.

    Attributes:
        release_before: What it ran; empty where that is unknown.
        opted_in: Gets releases first, however often.
        protected: Gets them last.
        exposures: How many releases it was among the first to get, of those that count.
    """

    instance_id: InstanceId
    user: str
    plan: Plan
    cell: CellName
    region: str
    release_before: str = ""
    agent_version: str = ""
    opted_in: bool = False
    protected: bool = False
    exposures: int = 0
    quiet: QuietHours | None = None


@dataclass(frozen=True)
class Progress:
    """Stored data of a target beside its state.

    Attributes:
        last_before: What its machine reported of its last change before we touched it, so that an old failure is not
            taken for a new one. No clocks are compared.
        confirmed_at: When its soak began.
        on_release: Whether it runs the new release and confirmed it, as far as is known; or stopped on its way to it,
            where its machine does not go back by itself.
        deferred_until: When it is changed at the latest; set when it is first deferred.
        unwell_since: First observation without a gateway's answer after the last answer.
        stuck: Why it could not be rolled back; empty while that was not tried, or succeeded.
        confirm_timeouts: How often it rolled back because no runner confirmed it in time.
        settings_lost: Names of the user's settings that are not in force since it was rolled back.
    """

    last_before: str = ""
    confirmed_at: datetime | None = None
    on_release: bool = False
    deferred_until: datetime | None = None
    unwell_since: datetime | None = None
    stuck: str = ""
    confirm_timeouts: int = 0
    settings_lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class RolloutTarget:
    """A row of ``rollout_targets``.

    Attributes:
        stage: Number of its stage, from 0.
        batch: Number of its batch within the stage, from 0.
        position: Its place among all targets, from 0.
        detail: Why it is in this state, one line.
        touched_at: When the first change of its machine began; ``None`` before.
    """

    facts: Target
    stage: int
    batch: int
    position: int
    state: TargetState = TargetState.WAITING
    detail: str = ""
    touched_at: datetime | None = None
    updated_at: datetime | None = None
    progress: Progress = field(default_factory=Progress)

    @property
    def id(self) -> InstanceId:
        """Id of the instance that is the target."""
        return self.facts.instance_id


@dataclass(frozen=True)
class OperatorDecisions:
    """Decisions of operators after the start.

    Attributes:
        promoted: How many stages may end without soak and without the gates that need a person or more data.
        approved: How many stages a second operator has approved.
        forgiven_at: Earlier failures do not count: an operator promoted the rollout then, after a halt.
        may_lose: Whether instances are rolled back although rows written since are lost.
        even_revoked: Whether they are rolled back also to a release that was revoked.
        approval: What the second operator signed, with the signature; empty for none. It is checked again before each
            stage that needs it.
        despite_alerts: Why open alerts do not hold it any more, as in ``Spec``; empty when they do.
    """

    promoted: int = 0
    approved: int = 0
    forgiven_at: datetime | None = None
    may_lose: bool = False
    even_revoked: bool = False
    approval: str = ""
    despite_alerts: str = ""

    def forgive(self, target: RolloutTarget) -> bool:
        """Whether a target was in its state already when the failures were forgiven."""
        at = target.updated_at
        return self.forgiven_at is not None and at is not None and at <= self.forgiven_at


@dataclass(frozen=True)
class Rollout:
    """A row of ``rollouts``.

    Attributes:
        reason: Why it is in this state, one line.
        who: The operator, or ``hermesops``, that changed the state last.
    """

    id: RolloutId
    release: ReleaseId
    action: Action
    spec: Spec
    state: RolloutState
    reason: str
    who: str
    created_at: datetime
    updated_at: datetime
    decisions: OperatorDecisions = field(default_factory=OperatorDecisions)

    @property
    def title(self) -> str:
        """Its name in messages, and the reason of its changes in the audit log."""
        return f"rollout {self.id}"


@dataclass(frozen=True)
class RolloutEvent:
    """A row of ``rollout_events``, as stored. Never changed.

    Attributes:
        id: Rises within a rollout; 0 before it is written.
        kind: The stored name of its type; ``hermesops.agents.rollout.records.events`` has both.
        decision: The fields of that type.
        evidence: The figures that it followed from.
    """

    at: datetime
    kind: str
    decision: Mapping[str, object]
    evidence: Mapping[str, object]
    id: int = 0


@dataclass(frozen=True)
class ReleaseStatus:
    """A machine's report of its releases.

    Attributes:
        activation: The release that it is changing to, until that is confirmed; empty when it is not changing.
        phase: Of that; ``unconfirmed`` once it waits to be confirmed.
        step: Its last step, with the machine's name; empty where only the machine itself knows it.
        last: Identifies its last change, as its node reports it; empty when there was none.
        last_failed: Whether that ended on the old release.
        confirm_timed_out: Whether only because it was not confirmed in time, which says nothing of the release.
        why: Why it did.
        reverts: Whether the machine itself ends a change that nobody confirms, on the old release.
        busy: What the agent is doing; empty when a change would interrupt nothing.
        absent: Why there is no running agent, as ``suspended``; empty when there is one.
    """

    current: str
    activation: str = ""
    phase: str = ""
    last: str = ""
    last_to: str = ""
    last_failed: bool = False
    confirm_timed_out: bool = False
    why: str = ""
    reverts: bool = True
    busy: str = ""
    absent: str = ""
    step: str = ""


@dataclass(frozen=True)
class Freeze:
    """A row of ``freezes``: a span of time in which nothing is rolled out.

    Attributes:
        ends_at: ``None`` while only lifting it ends it.
        reason: Shown to those that it stops.
    """

    id: str
    begins_at: datetime
    ends_at: datetime | None
    reason: str
    who: str
    lifted_at: datetime | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether the freeze forbids rollouts at that moment."""
        return self.lifted_at is None and self.begins_at <= now and (self.ends_at is None or now < self.ends_at)

    def is_past(self, now: datetime) -> bool:
        """Whether the freeze was lifted or has ended by then."""
        return self.lifted_at is not None or (self.ends_at is not None and self.ends_at <= now)
