"""What is said before a rollout starts and after it ended: previews, refusals, replays."""

from dataclasses import replace

import pytest

from hermesops.agents.rollout.plan.batches import batches_of
from hermesops.agents.rollout.plan.preview import preview
from hermesops.agents.rollout.plan.specs import refuse_raised, refuse_spec
from hermesops.agents.rollout.ports import Comparison
from hermesops.agents.rollout.reports.replay import replay
from hermesops.errors import UsageError
from hermesops.model.fleet.vitals import Vital
from hermesops.model.rollout.spec import FailureGate, Gates, HealthGate, HookGate, ProbeGate, Spec
from tests.support.rollouts.world import NEW, QUICK, World, fleet
from tests.support.suite.cases import each_case


def test_a_preview_shows_the_course_that_will_run_and_what_its_gates_see() -> None:
    ahead = preview(NEW, fleet(200), Spec())
    assert ahead.targets == batches_of(NEW, fleet(200), Spec())
    assert [stage.after for stage in ahead.stages] == [10, 50, 200]
    assert [stage.compares for stage in ahead.stages] == [True, True, False]
    assert (ahead.worst_failed, ahead.seen_machines, ahead.seen_in) == (3, 22, 2)
    assert ahead.false_halt == pytest.approx(0.0294, abs=0.0005)
    third = next(power for power in ahead.powers if power.rate == 0.30)
    assert third.halted > 0.9999
    assert third.touched == pytest.approx(8.4, abs=0.1)
    assert len(ahead.canaries) == 10


def test_a_preview_of_eight_says_how_little_it_can_see() -> None:
    ahead = preview(NEW, fleet(8), Spec())
    assert (ahead.worst_failed, ahead.seen_in, ahead.at_once) == (1, 0, 1)
    assert not any(stage.compares for stage in ahead.stages)


@each_case(
    ("spec", "words"),
    [
        (Spec(stages=()), "stages must rise"),
        (Spec(stages=(0.5, 0.25, 1.0)), "stages must rise"),
        (Spec(stages=(0.5,)), "stages must rise"),
        (Spec(max_unavailable=0), "may be unavailable"),
        (Spec(soak_s=-1), "soak_s cannot be below 0"),
        (Spec(confirm_s=0), "confirm_s and unreachable_after_s"),
        (Spec(attempt_s=60), "attempt_s must leave room"),
        (Spec(windows=("whenever",)), "no maintenance window"),
        (Spec(gates=Gates(failures=FailureGate(base_rate=0.3))), "base rate < bad rate"),
        (Spec(gates=Gates(failures=FailureGate(alpha=0.7))), "error rates"),
        (Spec(gates=Gates(health=HealthGate(vitals=("mood",)))), "there is no vital 'mood'"),
        (Spec(gates=Gates(probe=ProbeGate(share=2))), "shares and error rates"),
        (Spec(gates=Gates(hooks=(HookGate("x", timeout_s=0),))), "gate 'x' needs a name"),
        (Spec(gates=Gates(hooks=(HookGate("x", url="u"), HookGate("x", url="u")))), "same name"),
        (Spec(gates=Gates(hooks=(HookGate("x" * 27 + "1", url="u"), HookGate("x" * 27 + "2", url="u")))), "same name"),
        (Spec(gates=Gates(manual_before=(4,))), "there is no stage 4"),
    ],
)
def test_what_cannot_work_is_refused(spec: Spec, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        refuse_spec(spec)


def refusal(spec: Spec) -> str:
    """Why a spec is refused; empty where it is not."""
    try:
        refuse_spec(spec)
    except UsageError as error:
        return error.message
    return ""


@each_case(
    "spec",
    [
        Spec(),
        Spec(stages=(1.0,), max_unavailable=1, most_unavailable=1),
        Spec(settle_s=0, soak_s=0, data_s=0, drain_s=0, defer_s=0),
        Spec(attempt_s=210, drain_s=90, confirm_s=120),
        Spec(gates=Gates(manual_before=(1, 3))),
        Spec(gates=Gates(failures=FailureGate(early_failures=1, early_rate=0.0))),
        Spec(gates=Gates(health=HealthGate(vitals=(), floor=1, share=1), probe=ProbeGate(share=0))),
        Spec(gates=Gates(hooks=(HookGate("x", url="u"), HookGate("y")))),
    ],
)
def test_what_can_work_is_not(spec: Spec) -> None:
    assert refusal(spec) == ""


def test_a_replay_with_the_same_gates_ends_where_the_rollout_did() -> None:
    world = World(fleet(200))
    for position in range(5, 200, 6):
        world.machine_of(position).breaks = True
    assert world.run().startswith("halted")
    again = replay(world.events, tuple(world.placed.values()), QUICK.gates)
    assert again.halted
    assert (again.recorded_touched, again.failed) == (world.begun(), again.recorded_failed)
    assert again.recorded_touched - again.touched in {0, 1}  # one ended at the very moment of the halt
    assert again.verdicts[-1].why == world.rollout.reason


def test_other_gates_would_have_halted_earlier() -> None:
    world = World(fleet(200))
    for position in (4, 60):
        world.machine_of(position).breaks = True
    assert world.run().startswith("done")
    gates = replace(QUICK.gates, failures=FailureGate(early_failures=1, early_rate=0.0))
    again = replay(world.events, tuple(world.placed.values()), gates)
    assert again.halted
    assert (again.touched, again.failed, again.recorded_touched, again.recorded_failed) == (7, 1, 200, 2)
    assert not replay(world.events, tuple(world.placed.values()), QUICK.gates).halted


def test_figures_are_judged_anew_too() -> None:
    world = World(fleet(200), replace(QUICK, gates=replace(QUICK.gates, health=HealthGate(alpha=1e-9))))
    slower = {target.id: (1.0, 1.5 + position / 1000) for position, target in enumerate(world.placed.values())}
    usual = {target.id: (1.0, 1.0 + position / 1000) for position, target in enumerate(world.placed.values())}
    first, rest = list(slower)[:10], list(usual)[10:74]
    world.comparisons = tuple(
        Comparison(
            vital,
            {instance_id: slower[instance_id] for instance_id in first},
            {instance_id: usual[instance_id] for instance_id in rest},
        )
        for vital in Vital
    )
    world.run(for_s=900)
    assert world.rollout.reason.startswith("health: no verdict yet: turn latency is 1.4")
    again = replay(world.events, tuple(world.placed.values()), replace(QUICK.gates, health=HealthGate(alpha=0.05)))
    assert again.halted
    assert again.verdicts[-1].why.startswith("turn latency got worse beside unchanged agents (p ")


def test_whoever_starts_a_rollout_can_only_lower_what_needs_two_people() -> None:
    refuse_raised(replace(QUICK, two_person_above=20), 20)
    with pytest.raises(
        UsageError, match="above 20 need a second operator's approval: this request raises the limit to 21"
    ):
        refuse_raised(replace(QUICK, two_person_above=21), 20)
