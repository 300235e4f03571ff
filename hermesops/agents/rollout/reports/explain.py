"""A rollout's events in words, each with the figures that it followed from. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.rollout.records.events import (
    BatchBegun,
    BatchEnded,
    CommandGiven,
    DrillEnded,
    Event,
    GateAnswered,
    Notified,
    Recorded,
    RollbackBegun,
    RolloutStarted,
    StateChanged,
    TargetsUpdated,
    WaitBegun,
    WorldPurged,
    kind_of,
)


@dataclass(frozen=True)
class Explained:
    """One event.

    Attributes:
        why: The reason that was recorded; may be empty.
        evidence: The figures behind it, a line each.
    """

    at: datetime
    what: str
    why: str
    evidence: tuple[str, ...]


def explain(recorded: Recorded[Event]) -> Explained:
    """Explain a recorded event: its time, decision, reason and evidence."""
    why = getattr(recorded.event, "why", "")
    return Explained(recorded.at, _what(recorded.event), why, tuple(_evidence(recorded)))


def _what(event: Event) -> str:
    match event:
        case StateChanged(before, after):
            verb = f" ({_words(event.verb)})" if event.verb else ""
            return f"{_words(before)} → {_words(after)} by {event.who or 'hermesops'}{verb}"
        case CommandGiven(state):
            return f"{_words(state)}: {_words(event.verb)} by {event.who}"
        case TargetsUpdated() | BatchBegun() | RollbackBegun():
            return f"{_words(kind_of(event))} {len(event.targets)}"
        case BatchEnded(outcomes):
            states = [outcome.state for outcome in outcomes]
            counts = (f"{states.count(state)} {_words(state)}" for state in dict.fromkeys(states))
            return f"batch ended: {', '.join(counts) or 'no target'}"
        case DrillEnded(result, detail=detail):
            return f"rehearsal: {_words(result)}, {detail}"
        case GateAnswered(gate, result, detail=detail):
            return f"hook {gate}: {_words(result)}, {detail}"
        case Notified(problem=problem) if problem:
            return f"notify: not delivered: {problem}"
        case RolloutStarted() | WaitBegun() | Notified() | WorldPurged():
            return kind_of(event)


def _evidence(recorded: Recorded[Event]) -> Iterable[str]:
    for gate in ("failures", "health", "probe", "messages"):
        answer = recorded.evidence.get(gate)
        if isinstance(answer, Mapping):
            yield f"{gate}: {_words(str(answer.get('result')))} - {answer.get('why', '')}"
    yield from _statistics(recorded.evidence)
    if isinstance(recorded.event, BatchEnded):
        for target in recorded.event.outcomes:
            if target.detail:
                yield f"{target.instance}: {_words(target.state)}, {target.detail}"
    named = recorded.evidence.get("targets")
    if isinstance(named, Mapping):
        yield from (f"{_words(name)}: {value}" for name, value in named.items())


def _statistics(evidence: Mapping[str, object]) -> Iterable[str]:
    """The figures of the tests behind the verdicts: the likelihood ratio of failures, the ranks of each vital."""
    failures, vitals = evidence.get("failures"), evidence.get("compared")
    if isinstance(failures, Mapping) and failures.get("touched"):
        yield (
            f"log ratio of failures: {failures['log_ratio']:+.2f}, in the stage {failures['stage_log_ratio']:+.2f} "
            f"(bad from {failures['bad_from']:.2f}, good below {failures['good_below']:.2f})"
        )
    for each in vitals if isinstance(vitals, list) else ():
        if each["canaries"] and each["controls"]:
            yield (
                f"{_words(each['vital'])}: {each['worse']:g} beside unchanged agents, p {each['chance']:.2g} "
                f"({each['canaries']} changed, {each['controls']} unchanged)"
            )
    messages = evidence.get("messages")
    if isinstance(messages, Mapping) and messages.get("control_agents"):
        yield f"messages: p {messages['chance']:.2g} that so many changed agents answer none by chance"


def _words(name: str) -> str:
    return name.replace("_", " ")
