"""What is next for one target, from every state in which a runner may find it."""

from dataclasses import replace
from datetime import timedelta

from hermesops.agents.health.samples.sample import question
from hermesops.agents.rollout.target.decision import (
    PATIENCE_S,
    Settle,
    TargetDecision,
    TargetObservation,
    TargetStep,
    decide_target,
)
from hermesops.model.rollout.records import Progress, ReleaseStatus, RolloutTarget, TargetState
from hermesops.model.rollout.spec import Spec
from tests.support.fakes.virtual_time import BEGAN
from tests.support.rollouts.world import NEW, OLD, fleet
from tests.support.suite.cases import each_case

NEVER = RolloutTarget(fleet(1)[0], 0, 0, 0)
TOLD = replace(
    NEVER, state=TargetState.ACTIVATING, touched_at=BEGAN, progress=Progress(last_before="1 other confirmed")
)
STILL = ReleaseStatus(OLD, last="1 other confirmed", last_to="other")
SWITCHING, READY = (
    replace(STILL, activation=NEW, phase="switching"),
    ReleaseStatus(NEW, activation=NEW, phase="unconfirmed"),
)
FAILED = ReleaseStatus(OLD, last="2 new failed", last_to=NEW, last_failed=True, why="no turn")
TIMED_OUT = replace(FAILED, confirm_timed_out=True)
TWICE = Settle(TargetState.TIMED_OUT, "rolled back twice because no process confirmed it in time")
BUSY = replace(STILL, busy="2 runs")
THERE = ReleaseStatus(NEW, last="2 new confirmed", last_to=NEW)
SPEC = Spec()


def observation(target: RolloutTarget, status: ReleaseStatus | None, **changes: object) -> TargetObservation:
    values: dict[str, object] = {
        "silent_s": 0.0,
        "tried_s": 0.0,
        "unwell": "",
        "fetched": False,
        "confirm_error": "",
        "ending": False,
        "now": BEGAN,
    }
    return TargetObservation(target, status, **(values | changes))  # type: ignore[arg-type]


@each_case(
    ("target_observation", "step"),
    [
        (observation(NEVER, STILL), TargetStep.FETCH),
        (observation(NEVER, STILL, fetched=True), TargetStep.ACTIVATE),
        (observation(NEVER, STILL, ending=True), Settle(TargetState.WAITING)),
        (observation(NEVER, STILL, fetched=True, ending=True), Settle(TargetState.WAITING)),
        (observation(NEVER, THERE), Settle(TargetState.HEALTHY, "already on this release")),
        (observation(NEVER, BUSY, tried_s=PATIENCE_S), Settle(TargetState.DEFERRED, "busy: 2 runs")),
        (observation(NEVER, replace(STILL, absent="suspended")), Settle(TargetState.OUTDATED, "suspended")),
        (observation(NEVER, replace(STILL, activation="third", phase="x")), TargetStep.AWAIT),
        (observation(NEVER, READY), TargetStep.AWAIT),
        (observation(NEVER, FAILED), TargetStep.FETCH),
        (observation(NEVER, None, silent_s=44.0), TargetStep.AWAIT),
        (
            observation(NEVER, None, silent_s=45.0),
            Settle(TargetState.UNREACHABLE, "left unchanged: no answer for 45 s"),
        ),
        (
            observation(NEVER, STILL, tried_s=600.0),
            Settle(TargetState.UNREACHABLE, "left unchanged: its change did not begin within 600 s"),
        ),
        (observation(NEVER, STILL, unwell=None), TargetStep.OBSERVE_AGENT),
        (observation(NEVER, STILL, unwell="silent", unwell_s=44.0), TargetStep.OBSERVE_AGENT),
        (
            observation(NEVER, STILL, unwell="silent", unwell_s=45.0),
            Settle(TargetState.UNREACHABLE, "left unchanged: silent"),
        ),
        (observation(NEVER, THERE, unwell=None), Settle(TargetState.HEALTHY, "already on this release")),
        (observation(TOLD, STILL), TargetStep.ACTIVATE),
        (observation(TOLD, SWITCHING), TargetStep.AWAIT),
        (observation(TOLD, READY), TargetStep.CONFIRM),
        (observation(TOLD, READY, ending=True), TargetStep.ROLL_BACK),
        (observation(TOLD, THERE), Settle(TargetState.SOAKING, on_release=True)),
        (observation(TOLD, FAILED), Settle(TargetState.FAILED, "no turn")),
        (observation(TOLD, TIMED_OUT), TargetStep.RETRY),
        (observation(replace(TOLD, progress=replace(TOLD.progress, confirm_timeouts=1)), TIMED_OUT), TWICE),
        (observation(TOLD, TIMED_OUT, confirm_error="no proxy"), Settle(TargetState.FAILED, "no proxy")),
        (observation(TOLD, TIMED_OUT, ending=True), Settle(TargetState.ROLLED_BACK, "no turn")),
        (observation(TOLD, FAILED, ending=True), Settle(TargetState.ROLLED_BACK, "no turn")),
        (observation(TOLD, STILL, ending=True), Settle(TargetState.WAITING)),
        (
            observation(TOLD, SWITCHING, tried_s=600.0),
            Settle(TargetState.TIMED_OUT, "not done after 600 s in switching; it rolls back by itself"),
        ),
        (
            observation(TOLD, replace(SWITCHING, reverts=False), tried_s=600.0),
            Settle(TargetState.TIMED_OUT, "not done after 600 s", on_release=True),
        ),
        (
            observation(TOLD, replace(READY, reverts=False, step="waiting for machine m-2"), tried_s=600.0),
            Settle(TargetState.TIMED_OUT, "not done after 600 s: waiting for machine m-2", on_release=True),
        ),
        (observation(TOLD, STILL, tried_s=600.0), Settle(TargetState.TIMED_OUT, "not done after 600 s")),
        (
            observation(TOLD, None, silent_s=50.0),
            Settle(TargetState.SILENT, "no answer for 50 s since its change began"),
        ),
    ],
)
def test_each_observation_has_one_next_step(target_observation: TargetObservation, step: TargetDecision) -> None:
    assert decide_target(target_observation, NEW, SPEC) == step


def test_an_old_failure_is_not_taken_for_a_new_one() -> None:
    again = replace(TOLD, progress=Progress(last_before=FAILED.last))
    assert decide_target(observation(again, FAILED), NEW, SPEC) == TargetStep.ACTIVATE


def test_a_turn_by_which_health_is_probed_defers_nobody() -> None:
    longest_s = question([], None, BEGAN).turn_s
    assert 0 < longest_s < PATIENCE_S
    assert decide_target(observation(NEVER, BUSY, tried_s=longest_s), NEW, SPEC) == TargetStep.AWAIT
    assert decide_target(observation(NEVER, STILL, tried_s=longest_s), NEW, SPEC) == TargetStep.FETCH


def test_who_is_busy_is_observed_no_longer_than_it_may_be_deferred_or_tried() -> None:
    for spec in (replace(SPEC, defer_s=15), replace(SPEC, attempt_s=30)):
        assert decide_target(observation(NEVER, BUSY, tried_s=14), NEW, spec) == TargetStep.AWAIT
        decision = decide_target(observation(NEVER, BUSY, tried_s=15), NEW, spec)
        assert decision == Settle(TargetState.DEFERRED, "busy: 2 runs")


def test_who_was_deferred_long_enough_is_not_asked_whether_it_is_busy() -> None:
    waited = replace(NEVER, progress=Progress(deferred_until=BEGAN))
    assert decide_target(observation(waited, BUSY), NEW, SPEC) == TargetStep.FETCH
    assert (
        decide_target(observation(NEVER, BUSY, now=BEGAN + timedelta(days=9)), NEW, replace(SPEC, emergency="a hole"))
        == TargetStep.FETCH
    )
