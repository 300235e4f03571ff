"""How an instance does, in figures: what a release is judged by.

A figure that nobody could take is absent, never zero: what is absent proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import InstanceId


class Vital(StrEnum):
    """A figure; of each, less is better."""

    GATEWAY_ERRORS = "gateway_errors"
    """Errors in the gateway's log, per hour."""

    RESTARTS = "restarts"
    """Times that systemd started the gateway again by itself, per hour."""

    TURN_LATENCY = "turn_latency"
    """Seconds that a turn takes."""

    MEMORY = "memory"
    """Bytes of memory that the gateway and its children hold, without what the kernel may take back."""

    QUEUE_AGE = "queue_age"
    """Seconds that the oldest job waits which is due."""


class Source(StrEnum):
    """Who took a figure."""

    NODE = "node"
    PROMETHEUS = "prometheus"


class TurnOutcome(StrEnum):
    """What came of a turn that a probe had the agent take."""

    ANSWERED = "answered"
    FAILED = "failed"
    NOT_TAKEN = "not_taken"


@dataclass(frozen=True)
class Vitals:
    """One instance over one stretch of time.

    Attributes:
        since: Where the stretch begins.
        until: Where it ends, and when it was looked at.
        figures: What could be taken of it.
        turn: What came of the probe's turn.
        missing: Why each figure is absent that is.
    """

    instance_id: InstanceId
    since: datetime
    until: datetime
    source: Source
    figures: Mapping[Vital, float] = field(default_factory=dict)
    turn: TurnOutcome = TurnOutcome.NOT_TAKEN
    missing: Mapping[Vital, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Liveness:
    """Whether one instance that was changed lives.

    Attributes:
        answers: Whether its gateway does; ``None`` when the machine itself gives no answer.
        exercised: Whether a turn was taken since the change, by its user or by a probe.
        failed: Why it counts as hurt whatever the figures say, as a probe's turns that came to nothing; empty
            otherwise.
    """

    answers: bool | None
    exercised: bool
    failed: str = ""
