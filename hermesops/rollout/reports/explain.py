"""A rollout's decisions in words, each with what it followed from. Pure; told from what was recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from hermesops.model.rollout import RolloutEvent


@dataclass(frozen=True)
class Explained:
    """One decision.

    Attributes:
        what: In a few words.
        why: The reason that was recorded.
        evidence: The figures behind it, a line each.
    """

    at: datetime
    kind: str
    what: str
    why: str
    evidence: tuple[str, ...]


def explain(events: Iterable[RolloutEvent]) -> tuple[Explained, ...]:
    """Each recorded decision, in the order in which they were taken."""
    return tuple(_explained(event) for event in events)


def _explained(event: RolloutEvent) -> Explained:
    why = str(event.decision.get("why") or "")
    return Explained(event.at, event.kind, _what(event), why, tuple(_evidence(event)))


def _what(event: RolloutEvent) -> str:
    decision = event.decision
    match event.kind:
        case "state" | "said":
            who = decision.get("who") or "hermesops"
            verb = f" ({decision['verb']})" if decision.get("verb") else ""
            return f"{decision.get('from', '')} → {decision.get('to', '')} by {who}{verb}".replace("_", " ").strip()
        case "deployed":
            return f"came to an end: {_counted(decision.get('targets'))}"
        case "deploy_targets" | "roll_back_targets" | "update_targets":
            told = decision.get("targets")
            return f"{event.kind.replace('_', ' ')} {len(told) if isinstance(told, list) else 0}"
        case "drill":
            return f"rehearsal: {_words(decision.get('result'))}, {decision.get('detail', '')}"
        case "notify":
            problem = decision.get("problem")
            return f"told those who want to know{f', in vain: {problem}' if problem else ''}"
        case kind if kind.startswith("hook:"):
            name = kind.partition(":")[2]
            return f"gate {name}: {_words(decision.get('result'))}, {decision.get('detail', '')}"
        case _:
            return event.kind


def _evidence(event: RolloutEvent) -> Iterable[str]:
    for gate in ("failures", "health", "probe"):
        said = event.evidence.get(gate)
        if isinstance(said, Mapping):
            yield f"{gate}: {_words(said.get('result'))} - {said.get('why', '')}"
    told = event.decision.get("targets")
    if event.kind == "deployed" and isinstance(told, list):
        for each in told:
            if isinstance(each, Mapping) and each.get("detail"):
                yield f"{each.get('instance')}: {_words(each.get('state'))}, {each.get('detail')}"
    named = event.evidence.get("targets")
    if isinstance(named, Mapping):
        yield from (f"{name.replace('_', ' ')}: {value}" for name, value in named.items())


def _counted(told: object) -> str:
    states = [str(each.get("state")) for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    return ", ".join(f"{states.count(state)} {_words(state)}" for state in dict.fromkeys(states)) or "nobody"


def _words(value: object) -> str:
    return str(value or "").replace("_", " ")
