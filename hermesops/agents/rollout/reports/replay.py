"""How other gates would have judged a recorded rollout. Pure.

The record ends where its own gates ended it; what would have followed is unknown.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.rollout.gates.failure import Tally, weigh
from hermesops.agents.rollout.gates.health import has_power, named
from hermesops.agents.rollout.gates.judgement import share_of_alpha
from hermesops.agents.rollout.gates.messages import is_harm
from hermesops.agents.rollout.records.events import (
    BatchBegun,
    BatchEnded,
    Event,
    Recorded,
    StateChanged,
    TargetsUpdated,
)
from hermesops.model.rollout.records import GateResult, RolloutTarget
from hermesops.model.rollout.spec import Gates, HealthGate, MessageGate


@dataclass(frozen=True)
class Verdict:
    """The verdict of the other gates at the end of one batch.

    Attributes:
        stage: From 1.
        touched: How many targets had an outcome by then; ``failed`` of them failed.
    """

    at: datetime
    stage: int
    touched: int
    failed: int
    result: GateResult
    why: str


@dataclass(frozen=True)
class Replayed:
    """A rollout under other gates.

    Attributes:
        halted: Whether the last one does.
        touched: How many targets would have been touched by then; ``failed`` of them failed.
        recorded_touched: How many were touched; ``recorded_failed`` of them failed.
    """

    verdicts: tuple[Verdict, ...]
    halted: bool
    touched: int
    failed: int
    recorded_touched: int
    recorded_failed: int


def replay(events: Sequence[Recorded[Event]], targets: Sequence[RolloutTarget], gates: Gates) -> Replayed:
    """Run gates over a record; ``events`` are all of one rollout, oldest first."""
    every = tuple(_verdicts(events, Counter(target.stage for target in targets), gates))
    verdicts: list[Verdict] = []
    for verdict in every:
        verdicts.append(verdict)
        if verdict.result is GateResult.FAIL:
            break
    touched, failed = _last(verdicts)
    recorded = _last(every)
    halted = bool(verdicts) and verdicts[-1].result is GateResult.FAIL
    return Replayed(tuple(verdicts), halted, touched, failed, *recorded)


def _last(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    return (verdicts[-1].touched, verdicts[-1].failed) if verdicts else (0, 0)


def _verdicts(events: Sequence[Recorded[Event]], sizes: Mapping[int, int], gates: Gates) -> Iterator[Verdict]:
    outcomes: dict[str, tuple[int, bool]] = {}
    for recorded in events:
        ended = recorded.event.outcomes if isinstance(recorded.event, BatchEnded) else ()
        # Targets that were only deferred have no outcome.
        settled = [target for target in ended if target.state.has_failed or target.state.is_well]
        outcomes |= {target.instance: (target.stage, target.state.has_failed) for target in settled}
        if not outcomes or not isinstance(recorded.event, BatchEnded | BatchBegun | TargetsUpdated | StateChanged):
            continue
        harm = _harm(recorded, gates.health, len(sizes)) or _silence(recorded, gates.messages)
        if not isinstance(recorded.event, BatchEnded) and not harm:
            continue
        stage = max(stage for stage, _ in outcomes.values())
        overall = _tally(list(outcomes.values()))
        of_stage = _tally([each for each in outcomes.values() if each[0] == stage])
        weighed = weigh(overall, of_stage, gates.failures, is_over=of_stage.touched == sizes[stage])
        result, why = (GateResult.FAIL, harm) if harm else (weighed.result, weighed.why)
        yield Verdict(recorded.at, stage + 1, overall.touched, overall.failed, result, why)


def _silence(event: Recorded[Event], gate: MessageGate) -> str:
    """The words of the messages gate where it would have halted; empty where not."""
    recorded = event.evidence.get("messages")
    if not isinstance(recorded, Mapping) or not recorded.get("control_agents"):
        return ""
    is_mute = is_harm(gate, float(recorded["chance"]), int(recorded["mute"]))
    return str(recorded["why"]) if is_mute else ""


def _tally(outcomes: Sequence[tuple[int, bool]]) -> Tally:
    return Tally(len(outcomes), sum(failed for _, failed in outcomes))


def _harm(event: Recorded[Event], gate: HealthGate, stages: int) -> str:
    """The vital for which the other gate would have halted; empty for none."""
    compared = event.evidence.get("compared")
    if not gate.vitals or not isinstance(compared, list):
        return ""
    alpha = share_of_alpha(gate, stages, at_end=True)
    for each in compared:
        if each["vital"] not in gate.vitals or float(each["chance"]) >= alpha:
            continue
        if has_power(int(each["canaries"]), int(each["controls"]), alpha=alpha, floor=gate.floor):
            name, chance = named(each["vital"]), float(each["chance"])
            return f"{name} got worse beside unchanged agents (p {chance:.2g}, limit {alpha:.2g})"
    return ""
