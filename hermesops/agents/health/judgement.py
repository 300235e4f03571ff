"""One judgement of an instance that should run, from recorded facts with their ages. Pure: no clock is read here.

Unknown is never taken for good: facts that are old, or whose age is impossible, do not make an instance
healthy, and neither does a machine that runs while nobody asked the agent on it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from hermesops.agents.health.samples.sample import HealthSample, restarts_during
from hermesops.errors import UnavailableError
from hermesops.model.fleet.health import HEARTBEAT_S, SILENT_S, Condition, GatewayHealth, Judgement
from hermesops.model.fleet.overview import GONE, READY
from hermesops.model.fleet.vitals import TurnOutcome

ANSWER_S = SILENT_S
"""Seconds for which an answer of a gateway counts."""

LISTING_S = 600.0
"""Seconds for which the vendor's listing of machines counts."""

_CLOCK_S = 5.0
"""Seconds by which clocks of our computers may differ: an age down to minus this is zero."""

_UNDECIDED = frozenset({READY, "unknown", ""})
"""Statuses of machines that do not show that a machine is down."""

_PROBLEM = {
    GatewayHealth.REFUSED: "the gateway rejects its API key",
    GatewayHealth.SILENT: "the gateway does not answer",
    GatewayHealth.DEGRADED: "the gateway calls itself degraded",
    GatewayHealth.DRAINING: "the gateway is draining and takes no new work",
}
_UNANSWERED = "hermes-node did not answer through the toolbox"
_DOWN = frozenset({GatewayHealth.REFUSED, GatewayHealth.SILENT})
_MACHINE_GONE, _NO_HEARTBEAT, _GATEWAY_DOWN, _GATEWAY_LOOPS = (
    "machine-gone",
    "heartbeat-missed",
    "gateway-down",
    "gateway-looping",
)
"""Runbooks of faults that one fact shows."""

_WORST_FIRST = (*_PROBLEM, GatewayHealth.OK)


@dataclass(frozen=True, slots=True)
class MachineFact:
    """A machine in the vendor's listing.

    Attributes:
        status: The vendor's, or ``model.fleet.GONE``; empty when that listing does not have the machine yet.
    """

    status: str
    age_s: float


@dataclass(frozen=True, slots=True)
class AgentFact:
    """One answer of, or about, a gateway.

    Attributes:
        restarts: How often systemd had restarted it since somebody last started it.
    """

    gateway: GatewayHealth
    age_s: float
    restarts: int = 0
    turn: TurnOutcome = TurnOutcome.NOT_TAKEN


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """The facts about one instance that should run. Ages are in seconds before now; any order, duplicates allowed.

    Attributes:
        machine: ``None`` when the vendor was never asked.
        heartbeat_age_s: Of the last heartbeat; ``None`` where none ever came.
        node_problem: Why hermes-node, asked just now, is not this instance's; empty when it is, or was not asked.
        is_unanswered: Whether hermes-node was asked just now and did not answer.
        unread_s: Seconds for which nobody has read heartbeats, infinite for ever: those missed since count for nothing.
    """

    machine: MachineFact | None = None
    agent: tuple[AgentFact, ...] = ()
    heartbeat_age_s: float | None = None
    node_problem: str = ""
    is_unanswered: bool = False
    unread_s: float = 0.0

    def is_missed(self, beat: float) -> bool:
        """Whether heartbeats were missed while somebody read them."""
        return beat - self.unread_s > SILENT_S


def judge(facts: HealthFacts) -> Judgement:
    """Judge one instance.

    A machine that the vendor lists as not running is down, unless something came from it after that. Then the newest
    answer of its gateway counts, then its heartbeats. Nothing recent is ``unknown``.
    """
    doubts = _doubts(facts)
    answers = sorted((fact for fact in facts.agent if _is_recent(fact.age_s, ANSWER_S)), key=_newest_and_worst_first)
    beat = facts.heartbeat_age_s if facts.heartbeat_age_s is not None and _is_possible(facts.heartbeat_age_s) else None
    signs_of_life = [*(fact.age_s for fact in answers), *([] if beat is None else [beat])]
    judgement = (
        _of_machine(facts.machine, min(signs_of_life, default=math.inf))
        or (Judgement(Condition.DOWN, (facts.node_problem,)) if facts.node_problem else None)
        or (_of_agent(facts, answers, beat) if answers else _of_silence(facts, beat))
        or Judgement(Condition.UNKNOWN, _why_unknown(facts, beat))
    )
    if judgement.condition is Condition.HEALTHY and doubts:
        return Judgement(Condition.UNKNOWN, (*doubts, *judgement.reasons))
    return replace(judgement, reasons=(*judgement.reasons, *doubts)) if doubts else judgement


def _of_machine(machine: MachineFact | None, life_s: float) -> Judgement | None:
    """Judge by the vendor's listing alone; ``life_s`` is the age of what came last from the machine."""
    if machine is None or machine.status in _UNDECIDED or not _is_recent(machine.age_s, LISTING_S):
        return None
    if max(life_s, 0.0) < machine.age_s:
        return None
    return Judgement(
        Condition.DOWN,
        (f"its machine was {machine.status} when JustAVPS was asked {ago(machine.age_s)}",),
        since_s=max(life_s, 0.0) if math.isfinite(life_s) else machine.age_s,
        runbook=_MACHINE_GONE if machine.status == GONE else _NO_HEARTBEAT,
    )


def _of_agent(facts: HealthFacts, answers: Sequence[AgentFact], beat: float | None) -> Judgement:
    """Judge by a gateway's recent answers, the newest first."""
    newest = answers[0]
    if newest.gateway in _DOWN:
        down_s = _held_s(answers, lambda answer: answer.gateway in _DOWN)
        return Judgement(Condition.DOWN, (f"{_PROBLEM[newest.gateway]}, {ago(newest.age_s)}",), down_s, _GATEWAY_DOWN)
    problems = [f"{_PROBLEM[newest.gateway]}, {ago(newest.age_s)}"] if newest.gateway in _PROBLEM else []
    restarts = restarts_during([fact.restarts for fact in reversed(answers)])
    if restarts:
        times = "once" if restarts == 1 else f"{restarts} times"
        problems.append(f"the gateway restarted {times} within {answers[-1].age_s - newest.age_s:.0f} s")
    turns = [fact for fact in answers if fact.turn is not TurnOutcome.NOT_TAKEN]
    if turns and turns[0].turn is TurnOutcome.FAILED:
        problems.append(f"its last turn failed, {ago(turns[0].age_s)}")
    if beat is not None and facts.is_missed(beat):
        problems.append(f"{_missed(beat)}, though it answered {ago(newest.age_s)}")
    if facts.is_unanswered:
        problems.append(f"{_UNANSWERED}, though its gateway answered {ago(newest.age_s)}")
    if problems:
        runbook = _GATEWAY_LOOPS if restarts and len(problems) == 1 else ""
        return Judgement(Condition.DEGRADED, tuple(problems), _held_s(answers, lambda _: True), runbook)
    return Judgement(Condition.HEALTHY, (f"the gateway answered {ago(newest.age_s)}",))


def _of_silence(facts: HealthFacts, beat: float | None) -> Judgement | None:
    """Judge without a recent answer of a gateway."""
    if beat is not None and facts.is_missed(beat):
        reasons = (_missed(beat), *([_UNANSWERED] if facts.is_unanswered else []))
        return Judgement(Condition.SILENT, reasons, beat, _NO_HEARTBEAT)
    if not facts.is_unanswered:
        return None
    if beat is not None and beat <= SILENT_S:
        return Judgement(Condition.DEGRADED, (f"{_UNANSWERED}, though a heartbeat came {ago(beat)}",))
    return Judgement(Condition.SILENT, (_UNANSWERED,), runbook=_NO_HEARTBEAT)


def _held_s(answers: Sequence[AgentFact], is_so: Callable[[AgentFact], bool]) -> float:
    """Seconds since the first of the newest answers that all say so; they are in order, the newest first."""
    return max(max(answer.age_s, 0.0) for answer in takewhile(is_so, answers))


def _why_unknown(facts: HealthFacts, beat: float | None) -> tuple[str, ...]:
    machine = facts.machine
    reasons = [f"no answer of its gateway in the last {ANSWER_S:.0f} s is recorded"]
    if beat is not None and beat > SILENT_S:
        looked = f"looked {ago(facts.unread_s)}" if math.isfinite(facts.unread_s) else "is not known to have looked"
        reasons.append(f"heartbeats are read by no monitor: the last one {looked}, its last heartbeat came {ago(beat)}")
    elif beat is not None:
        reasons.append(f"a heartbeat came {ago(beat)} without a word on its gateway: runbook metrics-incomplete")
    if machine is None:
        reasons.append("JustAVPS was never asked")
    elif not _is_possible(machine.age_s):
        pass
    elif not machine.status:
        reasons.append(f"its machine is newer than what JustAVPS listed {ago(machine.age_s)}")
    else:
        reasons.append(f"its machine was {machine.status} when JustAVPS was asked {ago(machine.age_s)}")
    return tuple(reasons)


def _doubts(facts: HealthFacts) -> tuple[str, ...]:
    """Doubts about the facts themselves: an impossible age proves nothing."""
    ages = {
        "the listing of its machine": [facts.machine.age_s] if facts.machine else [],
        "an answer of its gateway": [fact.age_s for fact in facts.agent],
        "its last heartbeat": [] if facts.heartbeat_age_s is None else [facts.heartbeat_age_s],
    }
    return tuple(
        f"{what} does not count: it is dated {f'{-worst:.0f} s in the future' if math.isfinite(worst) else 'never'}"
        for what, some in ages.items()
        if (wrong := [age for age in some if not _is_possible(age)])
        for worst in wrong[:1]
    )


def _is_possible(age_s: float) -> bool:
    return math.isfinite(age_s) and age_s >= -_CLOCK_S


def _is_recent(age_s: float, limit_s: float) -> bool:
    return -_CLOCK_S <= age_s <= limit_s


def _newest_and_worst_first(fact: AgentFact) -> tuple[float, int, int, bool]:
    return fact.age_s, _WORST_FIRST.index(fact.gateway), -fact.restarts, fact.turn is not TurnOutcome.FAILED


def _missed(beat: float) -> str:
    return f"no heartbeat for {beat:.0f} s: {int(beat // HEARTBEAT_S)} missed, one is due every {HEARTBEAT_S:.0f} s"


def ago(age_s: float) -> str:
    """An age in words, as ``12 s ago`` or ``3 h ago``."""
    seconds = max(age_s, 0.0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def age_of(at: datetime, now: datetime) -> float:
    """Seconds from a recorded moment to now; negative for one in the future."""
    return (now - at).total_seconds()


def agent_facts(samples: Iterable[str], now: datetime) -> tuple[AgentFact, ...]:
    """Stored samples as facts; one that cannot be read is no fact."""
    facts = []
    for text in samples:
        try:
            sample = HealthSample.from_json(text)
        except UnavailableError:
            continue
        taken = sample.outcome if sample.turn_s is not None else TurnOutcome.NOT_TAKEN
        facts.append(AgentFact(sample.gateway, age_of(sample.at, now), sample.restarts, taken))
    return tuple(facts)
