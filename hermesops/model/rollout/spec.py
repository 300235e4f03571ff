"""The settings of one rollout: stages, limits, times, gates. An operator chooses them before the start; they stay.

Defaults are what a fleet of hundreds needs; every figure of a gate is stated here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hermesops.model.fleet.vitals import Vital


class Action(StrEnum):
    """Objects that a rollout changes on each target."""

    SLOT = "slot"
    """The release in a slot of the machine that the instance has."""

    MACHINE = "machine"
    """The machine itself: image, kernel, server type."""

    TOKENS = "tokens"
    """The agent's token for the model router; nothing that runs is changed."""


class HaltRollback(StrEnum):
    """Targets that are rolled back when a gate halts a rollout."""

    FAILED = "failed"
    """Failed ones, and those that have not run the release long enough to be known as well."""

    ALL = "all"
    NONE = "none"


class DrillPolicy(StrEnum):
    """Whether upgrade and rollback are rehearsed on a warm-pool machine before the second stage."""

    REQUIRED = "required"
    IF_POSSIBLE = "if_possible"
    NO = "no"


@dataclass(frozen=True)
class FailureGate:
    """Counts failed, silent and timed out targets alike: a sequential probability ratio test, and a rule.

    A target that gave no proper answer before its change is no evidence against the release; another limit counts it.

    Attributes:
        base_rate: Share of targets that fail whatever the release (vendor, network).
        bad_rate: Share from which on a release counts as bad.
        alpha: Probability of taking a good one for a bad one, of the test over all targets; a stage has as much again.
        beta: Probability of the opposite.
        early_failures: The rule halts from this many failures on …
        early_rate: … once more than this share of those touched failed.
        unseen_rate: Share of all targets that may give no proper answer before they are touched. One of several always
            may.
    """

    base_rate: float = 0.02
    bad_rate: float = 0.20
    alpha: float = 0.01
    beta: float = 0.05
    early_failures: int = 2
    early_rate: float = 0.12
    unseen_rate: float = 0.30


@dataclass(frozen=True)
class Tolerance:
    """Limits for the deterioration of a vital.

    Attributes:
        relative: Whether the limits are factors of the figure before, else amounts in its own unit.
        allowed: By how much those changed may be worse together, against those not changed.
        critical: By how much one alone may be worse before it has failed; far outside noise.
    """

    relative: bool
    allowed: float
    critical: float


TOLERANCES = {
    Vital.GATEWAY_ERRORS: Tolerance(relative=False, allowed=2.0, critical=60.0),
    Vital.RESTARTS: Tolerance(relative=False, allowed=0.5, critical=6.0),
    Vital.TURN_LATENCY: Tolerance(relative=True, allowed=1.25, critical=4.0),
    Vital.MEMORY: Tolerance(relative=True, allowed=1.25, critical=3.0),
    Vital.QUEUE_AGE: Tolerance(relative=False, allowed=60.0, critical=900.0),
}


@dataclass(frozen=True)
class HealthGate:
    """Compares each canary with itself before, and with untouched instances at the same time.

    Attributes:
        vitals: Names of vitals; empty switches the gate off.
        alpha: Probability of taking noise for harm, over all vitals and observations of one stage together.
        floor: Instances with data that either side needs.
        share: Of those touched that must have data.
    """

    vitals: tuple[str, ...] = tuple(Vital)
    alpha: float = 0.05
    floor: int = 5
    share: float = 0.5

    def can_compare(self, canaries: int, controls: int) -> bool:
        """Whether so many are enough, data aside, for it to say anything."""
        return bool(self.vitals) and min(canaries, controls) >= self.floor


@dataclass(frozen=True)
class ProbeGate:
    """Wants each touched instance exercised: by its user, or by a probe's turn where the user is idle.

    Attributes:
        share: Of those touched that must have been; 0 switches the gate off.
    """

    share: float = 0.5


@dataclass(frozen=True)
class MessageGate:
    """Compares how many changed and untouched agents answer nothing of what their users write in messengers.

    It halts, and holds no stage: most agents have no message within a soak.

    Attributes:
        alpha: Probability of taking chance for harm at one observation; 0 switches the gate off.
        floor: Mute agents that it needs.
    """

    alpha: float = 0.005
    floor: int = 3


HOOK_FACTS: Mapping[str, str] = {
    "HERMESOPS_ROLLOUT_ID": "rollout",
    "HERMESOPS_ROLLOUT_ENVIRONMENT": "environment",
    "HERMESOPS_ROLLOUT_RELEASE": "release",
    "HERMESOPS_ROLLOUT_ACTION": "action",
    "HERMESOPS_ROLLOUT_STATE": "state",
}
"""Variables that a hook's command is given, by the field of a rollout's message that each holds."""


@dataclass(frozen=True)
class HookGate:
    """Asks another program at the end of each stage: a command's exit code or a web service's answer.

    A command is only named here: its line is in the settings of the computer that runs it.

    Attributes:
        name: Of the command in the setting ``rollout.hooks`` where there is no ``url``; else of the gate alone.
        url: Gets the rollout as JSON and answers ``{"result": "pass" | "fail" | "inconclusive", "detail": …}``.
        timeout_s: Seconds after which no answer is none.
    """

    name: str
    url: str = ""
    timeout_s: float = 60.0


@dataclass(frozen=True)
class Gates:
    """Conditions for touching more targets.

    Attributes:
        manual_before: Numbers of stages, from 1, before which an operator must say ``promote``.
    """

    failures: FailureGate = FailureGate()
    health: HealthGate = HealthGate()
    probe: ProbeGate = ProbeGate()
    messages: MessageGate = MessageGate()
    hooks: tuple[HookGate, ...] = ()
    manual_before: tuple[int, ...] = ()


@dataclass(frozen=True)
class Spec:
    """Parameters of a rollout.

    Attributes:
        stages: Shares of the targets that shall have the release at the end of each stage; the last is 1.
        max_unavailable: Share of the targets that may be changing at once, at least one …
        most_unavailable: … and never more than so many.
        settle_s: Seconds between two batches of a stage.
        soak_s: Seconds that every target of a stage must have run before the stage can end.
        data_s: Seconds beyond the soak for which figures are waited for that health lacks; then a person must look.
        confirm_s: Seconds after which a machine goes back by itself, unless confirmed.
        drain_s: Seconds that running turns are given.
        attempt_s: Seconds for one target, download to confirmation; then it timed out.
        unreachable_after_s: Seconds for which a machine may give no answer before it is unreachable or silent.
        defer_s: Seconds for which a busy or quiet target is deferred; then its turn comes whatever it does.
        windows: Maintenance windows as ``Mon-Fri 09:00-17:00 Europe/Berlin``; empty is always.
        two_person_above: Blast radius from which on a second operator must approve the next stage.
        emergency: Why windows, freezes, open alerts and quiet hours do not count; empty when they do.
        despite_alerts: Why open alerts alone do not count; empty when they do.
    """

    stages: tuple[float, ...] = (0.05, 0.25, 1.0)
    max_unavailable: float = 0.10
    most_unavailable: int = 50
    settle_s: float = 10.0
    soak_s: float = 600.0
    data_s: float = 360.0
    confirm_s: float = 60.0
    drain_s: float = 60.0
    attempt_s: float = 600.0
    unreachable_after_s: float = 45.0
    defer_s: float = 24 * 3600.0
    windows: tuple[str, ...] = ()
    gates: Gates = field(default_factory=Gates)
    on_halt: HaltRollback = HaltRollback.FAILED
    drill: DrillPolicy = DrillPolicy.REQUIRED
    two_person_above: float = 60.0
    emergency: str = ""
    despite_alerts: str = ""

    def at_once(self, targets: int) -> int:
        """The number of targets that may be changing at the same time, of so many."""
        return max(1, min(self.most_unavailable, int(self.max_unavailable * targets)))
