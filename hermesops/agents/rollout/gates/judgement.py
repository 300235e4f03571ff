"""The verdicts of the gates on one observation, each with its figures. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import ceil

from hermesops.agents.rollout.gates.failure import FailureGateAnswer, Tally, weigh
from hermesops.agents.rollout.gates.health import Compared, compare, named
from hermesops.agents.rollout.gates.messages import MessageGateAnswer, weigh_messages
from hermesops.agents.rollout.ports import HealthObservation
from hermesops.base.narration import counted
from hermesops.model.rollout.records import GateResult, Rollout, RolloutTarget, TargetState
from hermesops.model.rollout.spec import HealthGate, Spec

_BETWEEN = 0.2
"""Share of a stage's alpha that may be spent on observations before its end; they are alike, and there may be many …"""

_ATTEMPTS = 20
"""… so each of them gets one twentieth of that share."""

_WAITING = TargetState.WAITING


@dataclass(frozen=True)
class GateAnswer:
    """The result of one gate, with its figures in words."""

    result: GateResult
    why: str


@dataclass(frozen=True)
class Judgement:
    """The results of all gates at one time.

    Attributes:
        stage: The last stage of which a target counts, from 0; -1 before.
        answers: Whether enough of all targets answered before anything was changed.
        can_compare: Whether there are canaries and controls enough, data aside, for health to say anything.
        stops_at: Failures, of all targets, at which the rollout halts: by the failure gate, or as its stage is lost.
    """

    stage: int
    answers: GateAnswer
    failures: FailureGateAnswer
    health: GateAnswer
    compared: tuple[Compared, ...]
    probe: GateAnswer
    can_compare: bool
    stops_at: int
    messages: MessageGateAnswer


def judge(rollout: Rollout, targets: Sequence[RolloutTarget], health: HealthObservation, *, at_end: bool) -> Judgement:
    """Ask every gate that needs no other program.

    Args:
        at_end: Whether a stage is about to end: only then is the health gate given its full share of alpha.
    """
    spec = rollout.spec
    judged = [target for target in targets if counts(target, rollout)]
    stage = max((target.stage for target in judged), default=-1)
    in_stage = tally([each for each in judged if each.stage == stage])
    left = sum(each.stage == max(stage, 0) and _is_ahead(each) for each in targets)
    failures = weigh(tally(judged), in_stage, spec.gates.failures, is_over=not left)
    running = [target for target in targets if target.state.is_well and target.progress.on_release]
    untouched = sum(target.state is _WAITING for target in targets)
    gate = spec.gates.health
    alpha = share_of_alpha(gate, len(spec.stages), at_end=at_end)
    compared = tuple(compare(comparison, alpha=alpha, floor=gate.floor) for comparison in health.comparisons)
    can_compare = gate.can_compare(len(running), untouched)
    return Judgement(
        stage,
        _answers_of(rollout, targets),
        failures,
        _health(spec, compared, len(running)),
        compared,
        _probe(spec, targets, running, health),
        can_compare,
        _stops_at(failures, left),
        weigh_messages(health.messages, spec.gates.messages),
    )


def _is_ahead(target: RolloutTarget) -> bool:
    return target.state.is_in_flight or target.state is _WAITING


def _stops_at(failures: FailureGateAnswer, left: int) -> int:
    """A stage in which all agents fail halts the rollout, also where the test needs more of them."""
    is_lost_so_far = failures.stage.failed == failures.stage.touched
    return min(failures.stops_at, failures.all.failed + left) if is_lost_so_far and left else failures.stops_at


def evidence_of(judgement: Judgement) -> Mapping[str, object]:
    """The verdicts of the gates, as an event stores them."""
    failures = judgement.failures
    return {
        "stage": judgement.stage + 1,
        "answers": {"result": judgement.answers.result.value, "why": judgement.answers.why},
        "failures": {
            "result": failures.result.value,
            "why": failures.why,
            "touched": failures.all.touched,
            "failed": failures.all.failed,
            "stage_touched": failures.stage.touched,
            "stage_failed": failures.stage.failed,
            "log_ratio": round(failures.ratio, 3),
            "stage_log_ratio": round(failures.stage_ratio, 3),
            "bad_from": round(failures.bounds.bad, 3),
            "good_below": round(failures.bounds.good, 3),
            "stops_at": judgement.stops_at,
        },
        "health": {"result": judgement.health.result.value, "why": judgement.health.why},
        "probe": {"result": judgement.probe.result.value, "why": judgement.probe.why},
        "compared": [{**asdict(each), "result": each.result.value} for each in judgement.compared],
        **_evidence_of_messages(judgement.messages),
    }


def _evidence_of_messages(answer: MessageGateAnswer) -> Mapping[str, object]:
    """Nothing where no changed agent had a message: most rollouts are of such a time."""
    if answer.result is GateResult.NOT_EXERCISED or not answer.agents:
        return {}
    return {"messages": {**asdict(answer), "result": answer.result.value}}


def counts(target: RolloutTarget, rollout: Rollout) -> bool:
    """Whether a target says anything of the release: it was changed or could not be, and no operator forgave it."""
    if not target.state.has_failed:
        return target.touched_at is not None and (target.state.is_well or target.state is TargetState.KEPT)
    return not rollout.decisions.forgive(target)


def tally(targets: Sequence[RolloutTarget]) -> Tally:
    """How many targets there are, and how many of them failed."""
    return Tally(len(targets), sum(target.state.has_failed for target in targets))


def soaked_at(target: RolloutTarget, spec: Spec) -> datetime | None:
    """When a target has run the release long enough; ``None`` when it does not run it."""
    confirmed_at = target.progress.confirmed_at
    return confirmed_at + timedelta(seconds=spec.soak_s) if confirmed_at else None


def _answers_of(rollout: Rollout, targets: Sequence[RolloutTarget]) -> GateAnswer:
    unseen = [target for target in targets if is_unseen(target) and not rollout.decisions.forgive(target)]
    rate = rollout.spec.gates.failures.unseen_rate
    # One alone is no share: of two agents it would be half, and hold up the other.
    if len(unseen) > max(1, rate * len(targets)) or (targets and len(unseen) == len(targets)):
        words = f"{len(unseen)} of {len(targets)} agents did not answer before their change"
        return GateAnswer(GateResult.FAIL, f"{words} (limit {rate:.0%})")
    return GateAnswer(GateResult.PASS, f"{len(unseen)} of {counted(len(targets), 'agent')} without an answer")


def is_unseen(target: RolloutTarget) -> bool:
    """Whether a target was left as it was because it gave no proper answer, also once the rollout is over."""
    state = target.state
    return state is TargetState.UNREACHABLE or (
        state is TargetState.OUTDATED and target.detail.startswith(TargetState.UNREACHABLE.value)
    )


def share_of_alpha(gate: HealthGate, stages: int, *, at_end: bool) -> float:
    """The part of the false alarm probability that one observation of one vital may use."""
    share = (1 - _BETWEEN) if at_end else _BETWEEN / _ATTEMPTS
    return gate.alpha * share / (stages * max(1, len(gate.vitals)))


def _health(spec: Spec, compared: Sequence[Compared], running: int) -> GateAnswer:
    gate = spec.gates.health
    if not gate.vitals:
        return GateAnswer(GateResult.PASS, "switched off")
    measured = {each.vital for each in compared}
    missing = [vital for vital in gate.vitals if vital not in measured]
    for each in compared:
        if each.result is GateResult.FAIL:
            return GateAnswer(GateResult.FAIL, each.why)
    thin = [each for each in compared if each.canaries < gate.share * running]
    if missing or not compared:
        return GateAnswer(GateResult.NOT_EXERCISED, f"no figures of {', '.join(map(named, missing))} yet")
    if thin:
        words = ", ".join(f"{named(each.vital)} of {each.canaries}" for each in thin)
        least = ceil(gate.share * running)
        return GateAnswer(GateResult.NOT_EXERCISED, f"too few figures: {words} (needs {least} of {running} agents)")
    for each in compared:
        if each.result is not GateResult.PASS:
            return GateAnswer(each.result, each.why)
    return GateAnswer(GateResult.PASS, "; ".join(each.why for each in compared))


def _probe(
    spec: Spec, targets: Sequence[RolloutTarget], running: Sequence[RolloutTarget], health: HealthObservation
) -> GateAnswer:
    share = spec.gates.probe.share
    if not share:
        return GateAnswer(GateResult.PASS, "switched off")
    exercised = sum(target.id in health.liveness_of and health.liveness_of[target.id].exercised for target in running)
    if not running:
        is_changed = any(target.touched_at for target in targets)
        why = "no changed agent runs the release" if is_changed else "no agent was changed yet"
        return GateAnswer(GateResult.NOT_EXERCISED, why)
    words = f"{exercised} of {counted(len(running), 'agent')} answered a turn since the change"
    if exercised < share * len(running):
        return GateAnswer(GateResult.NOT_EXERCISED, f"{words} (needs {ceil(share * len(running))})")
    return GateAnswer(GateResult.PASS, words)
