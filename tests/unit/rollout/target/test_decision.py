"""What is next for one target, from every state in which a runner may find it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.model.rollout import Progress, RolloutTarget, Standing, TargetState
from hermesops.model.rollout_spec import Spec
from hermesops.rollout.target.decision import (
    Act,
    Activate,
    Await,
    BeginAnew,
    Confirm,
    Fetch,
    GoBack,
    ObserveAgent,
    Scene,
    Settle,
    next_act,
)
from tests.support.rollout_world import NEW, OLD, fleet
from tests.support.virtual_time import BEGAN

NEVER = RolloutTarget(fleet(1)[0], 0, 0, 0)
TOLD = replace(
    NEVER, state=TargetState.ACTIVATING, touched_at=BEGAN, progress=Progress(said_before="1 other confirmed")
)
STILL = Standing(OLD, last="1 other confirmed", last_to="other")
SWITCHING, READY = replace(STILL, activation=NEW, phase="switching"), Standing(NEW, activation=NEW, phase="unconfirmed")
FAILED = Standing(OLD, last="2 new failed", last_to=NEW, last_failed=True, why="no turn")
LAPSED = replace(FAILED, lapsed=True)
TWICE = Settle(TargetState.TIMED_OUT, "it went back twice before anybody confirmed it")
THERE = Standing(NEW, last="2 new confirmed", last_to=NEW)
SPEC = Spec()


def scene(target: RolloutTarget, standing: Standing | None, **changes: object) -> Scene:
    values: dict[str, object] = {
        "silent_s": 0.0,
        "tried_s": 0.0,
        "unwell": "",
        "fetched": False,
        "unheard": "",
        "ending": False,
        "now": BEGAN,
    }
    return Scene(target, standing, **(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "act"),
    [
        (scene(NEVER, STILL), Fetch()),
        (scene(NEVER, STILL, fetched=True), Activate()),
        (scene(NEVER, STILL, ending=True), Settle(TargetState.WAITING)),
        (scene(NEVER, STILL, fetched=True, ending=True), Settle(TargetState.WAITING)),
        (scene(NEVER, THERE), Settle(TargetState.HEALTHY, "ran it already")),
        (scene(NEVER, replace(STILL, busy="2 runs")), Settle(TargetState.DEFERRED, "busy: 2 runs")),
        (scene(NEVER, replace(STILL, absent="suspended")), Settle(TargetState.OWED, "suspended")),
        (scene(NEVER, replace(STILL, activation="third", phase="x")), Await()),
        (scene(NEVER, READY), Await()),
        (scene(NEVER, FAILED), Fetch()),
        (scene(NEVER, None, silent_s=44.0), Await()),
        (scene(NEVER, None, silent_s=45.0), Settle(TargetState.UNREACHABLE, "no answer for 45 s")),
        (scene(NEVER, STILL, tried_s=600.0), Settle(TargetState.UNREACHABLE, "not begun after 600 s")),
        (scene(NEVER, STILL, unwell=None), ObserveAgent()),
        (scene(NEVER, STILL, unwell="silent"), Settle(TargetState.UNREACHABLE, "before anything was changed, silent")),
        (scene(NEVER, THERE, unwell=None), Settle(TargetState.HEALTHY, "ran it already")),
        (scene(TOLD, STILL), Activate()),
        (scene(TOLD, SWITCHING), Await()),
        (scene(TOLD, READY), Confirm()),
        (scene(TOLD, READY, ending=True), GoBack()),
        (scene(TOLD, THERE), Settle(TargetState.SOAKING, on_release=True)),
        (scene(TOLD, FAILED), Settle(TargetState.FAILED, "no turn")),
        (scene(TOLD, LAPSED), BeginAnew()),
        (scene(replace(TOLD, progress=replace(TOLD.progress, lapses=1)), LAPSED), TWICE),
        (scene(TOLD, LAPSED, unheard="no proxy"), Settle(TargetState.FAILED, "no proxy")),
        (scene(TOLD, LAPSED, ending=True), Settle(TargetState.ROLLED_BACK, "no turn")),
        (scene(TOLD, FAILED, ending=True), Settle(TargetState.ROLLED_BACK, "no turn")),
        (scene(TOLD, STILL, ending=True), Settle(TargetState.WAITING)),
        (
            scene(TOLD, SWITCHING, tried_s=600.0),
            Settle(TargetState.TIMED_OUT, "not done after 600 s in switching; it goes back by itself"),
        ),
        (
            scene(TOLD, None, silent_s=50.0),
            Settle(TargetState.SILENT, "no answer for 50 s since it was told to change"),
        ),
    ],
)
def test_each_sight_has_one_next_act(found: Scene, act: Act) -> None:
    assert next_act(found, NEW, SPEC) == act


def test_an_old_failure_is_not_taken_for_a_new_one() -> None:
    again = replace(TOLD, progress=Progress(said_before=FAILED.last))
    assert next_act(scene(again, FAILED), NEW, SPEC) == Activate()


def test_who_was_deferred_long_enough_is_not_asked_whether_it_is_busy() -> None:
    waited = replace(NEVER, progress=Progress(deferred_until=BEGAN))
    busy = replace(STILL, busy="2 runs")
    assert next_act(scene(waited, busy), NEW, SPEC) == Fetch()
    assert (
        next_act(scene(NEVER, busy, now=BEGAN + timedelta(days=9)), NEW, replace(SPEC, emergency="a hole")) == Fetch()
    )
