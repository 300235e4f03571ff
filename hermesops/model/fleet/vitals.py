"""Health figures of instances, by which releases are judged.

A figure that could not be measured is absent, never zero: it proves nothing.
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
    """Seconds that the oldest due job has waited."""


class Source(StrEnum):
    """Sources of figures: hermes-node or Prometheus."""

    NODE = "node"
    PROMETHEUS = "prometheus"


class TurnOutcome(StrEnum):
    """The result of an agent's turn that a probe asked for."""

    ANSWERED = "answered"
    FAILED = "failed"
    NOT_TAKEN = "not_taken"


@dataclass(frozen=True)
class Vitals:
    """One instance's figures over one span of time.

    Attributes:
        lasting: Each figure without the sample in which it was worst; absent where one sample alone shows it.
        until: The end of the span, and when it was measured.
    """

    instance_id: InstanceId
    since: datetime
    until: datetime
    source: Source
    figures: Mapping[Vital, float] = field(default_factory=dict)
    turn: TurnOutcome = TurnOutcome.NOT_TAKEN
    missing: Mapping[Vital, str] = field(default_factory=dict)
    lasting: Mapping[Vital, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangeSpan:
    """The time in which one instance was changed: neither before the change nor after it.

    Attributes:
        began: When its machine was first touched.
        ended: When its soak began.
    """

    began: datetime
    ended: datetime


@dataclass(frozen=True)
class Liveness:
    """Whether one changed instance works.

    Attributes:
        answers: Whether its gateway does; ``None`` when the machine itself gives no answer.
        exercised: Whether a turn ended since the change, of its user or of a probe.
        failed: Why it counts as failed whatever its figures, such as failed turns of a probe; empty otherwise.
    """

    answers: bool | None
    exercised: bool
    failed: str = ""
