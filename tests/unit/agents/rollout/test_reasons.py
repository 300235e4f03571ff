"""Every reason that a rollout prints for a halt, a pause or a wait: each is listed here with its text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.agents.rollout.gates.failure import Tally, weigh
from hermesops.agents.rollout.gates.health import compare, worse_than_controls
from hermesops.agents.rollout.gates.hooks import AllowedHooks
from hermesops.agents.rollout.gates.judgement import evidence_of, judge
from hermesops.agents.rollout.plan.batches import batches_of
from hermesops.agents.rollout.plan.open_alerts import held_by_alerts
from hermesops.agents.rollout.plan.windows import closed_at
from hermesops.agents.rollout.ports import AlertState, ApprovalState, Comparison, HealthObservation
from hermesops.agents.rollout.reports.explain import explain
from hermesops.model.fleet.vitals import Liveness, Vital
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Freeze, GateResult, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout.spec import DrillPolicy, FailureGate, HookGate, Spec
from tests.support.fakes.virtual_time import BEGAN
from tests.support.rollouts.world import NEW, QUICK, World, fleet

GATE = FailureGate()
STATISTICS = ("log ratio", "canar", "control", "probability", "strat")
"""Words of the tests behind the gates; only ``rollout explain`` and JSON have them."""


def test_failures() -> None:
    def why(touched: int, failed: int, stage: Tally | None = None, *, is_over: bool = False) -> str:
        overall = Tally(touched, failed)
        return weigh(overall, stage or overall, GATE, is_over=is_over).why

    assert why(0, 0) == "no agent was changed yet"
    assert why(1, 0) == "no verdict yet: 0 of 1 failed, needs about 14 more agents"
    assert why(14, 0) == "no verdict yet: 0 of 14 failed, needs about 1 more agent"
    assert why(1, 1) == "no verdict yet: 1 of 1 failed, needs about 27 more agents"
    assert why(15, 0) == "0 of 15 failed; the release counts as good"
    assert why(2, 2) == "2 of 2 failed; a release this bad is stopped after 2"
    assert why(30, 6) == "6 of 30 failed; a release this bad is stopped after 4"
    assert why(190, 6, Tally(8, 3)) == "3 of 8 failed in this stage; a release this bad is stopped after 3"
    assert why(1, 1, is_over=True) == "every agent of this stage failed (1 of 1)"


def test_failures_at_which_a_rollout_stops() -> None:
    """The figure beside the gate is the one at which it halts: with one failure less it would go on."""
    for touched in range(1, 60):
        stop = weigh(Tally(touched, 0), Tally(touched, 0), GATE).stops_at
        if stop <= touched:
            assert weigh(Tally(touched, stop), Tally(), GATE).result is GateResult.FAIL, touched
            assert weigh(Tally(touched, stop - 1), Tally(), GATE).result is not GateResult.FAIL, touched
        else:
            assert weigh(Tally(touched, touched), Tally(), GATE).result is not GateResult.FAIL, touched


@pytest.mark.parametrize(("stages", "stop"), [((0.05, 1.0), 1), ((0.5, 1.0), 2)])
def test_a_stage_of_one_stops_at_one_failure(stages: tuple[float, ...], stop: int) -> None:
    spec = replace(QUICK, stages=stages)
    world = World(fleet(8), spec)
    judgement = judge(world.rollout, batches_of(NEW, fleet(8), spec), HealthObservation(), at_end=False)
    assert judgement.stops_at == stop
    failures = evidence_of(judgement)["failures"]
    assert isinstance(failures, Mapping)
    assert failures["stops_at"] == stop


def test_health() -> None:
    def why(vital: Vital, canaries: Sequence[tuple[float, float]], controls: Sequence[tuple[float, float]]) -> str:
        return compare(Comparison(vital, _figures(canaries), _figures(controls)), alpha=0.003, floor=5).why

    same = [(1.0, 1.0)] * 10
    assert why(Vital.MEMORY, [], same) == "memory: no figures of changed agents yet"
    too_few = "queue age: too few agents, 4 changed and 10 unchanged (needs 5 of each)"
    assert why(Vital.QUEUE_AGE, [(0.0, 0.0)] * 4, same) == too_few
    assert why(Vital.MEMORY, same[:5], same[:5]) == "memory: too few agents, 5 changed and 5 unchanged"
    assert why(Vital.MEMORY, same, same) == "memory 1.00 times (limit 1.25)"
    assert why(Vital.RESTARTS, same, same) == "restarts +0.00 (limit 0.5)"
    slower = "turn latency is 2.00 times what it was before, relative to unchanged agents (limit 1.25)"
    assert why(Vital.TURN_LATENCY, [(1.0, 2.0)] * 10, same) == slower
    errors = "gateway errors rose by 9.00, relative to unchanged agents (limit 2)"
    assert why(Vital.GATEWAY_ERRORS, [(0.0, 9.0)] * 10, same) == errors
    mixed = [(0.0, 9.0), (0.0, 0.0), (0.0, 8.0), (0.0, 0.0), (0.0, 7.0), (0.0, 9.0), (0.0, 9.0)]
    unsure = "no verdict yet: gateway errors rose by 8.00, relative to unchanged agents (limit 2); it may be chance"
    assert why(Vital.GATEWAY_ERRORS, mixed, [(0.0, 0.0)] * 6) == unsure


def test_one_agent_that_got_worse() -> None:
    def why(vital: Vital, pair: tuple[float, float], others: tuple[float, float]) -> str:
        controls = {InstanceId(f"c{number}"): others for number in range(3)}
        pairs = _figures([pair])
        comparison = Comparison(vital, pairs, controls, {each: after for each, (_, after) in pairs.items()})
        return "".join(worse_than_controls([comparison]).values())

    assert why(Vital.MEMORY, (1.0, 4.18), (1.0, 1.0)) == "memory is 4.18 times what it was before (limit 3)"
    both = "memory is 4.00 times what it was before, relative to unchanged agents (limit 3)"
    assert why(Vital.MEMORY, (1.0, 8.0), (1.0, 2.0)) == both
    assert why(Vital.RESTARTS, (0.0, 7.0), (0.0, 0.0)) == "restarts rose by 7.00 (limit 6)"


def test_answers_and_turns() -> None:
    def whys(states: Sequence[TargetState], exercised: int, vitals: int = 0) -> tuple[str, str, str]:
        world = World(fleet(len(states)))
        placed = [
            _placed(target, state)
            for target, state in zip(batches_of(NEW, fleet(len(states)), QUICK), states, strict=True)
        ]
        of_id = {target.id: Liveness(answers=True, exercised=at < exercised) for at, target in enumerate(placed)}
        pairs = {target.id: (1.0, 1.0) for target in placed[:vitals]}
        compared = tuple(Comparison(vital, pairs, {}) for vital in Vital) if vitals else ()
        judgement = judge(world.rollout, placed, HealthObservation(of_id, compared), at_end=True)
        return judgement.answers.why, judgement.probe.why, judgement.health.why

    unreachable, healthy = TargetState.UNREACHABLE, TargetState.HEALTHY
    silent, no_turn, no_figures = whys([unreachable] * 3 + [TargetState.WAITING], 0)
    assert silent == "3 of 4 agents did not answer before their change (limit 30%)"
    assert no_turn == "no agent was changed yet"
    assert no_figures == "no figures of gateway errors, restarts, turn latency, memory, queue age yet"
    answered, turns, thin = whys([healthy] * 4, 1, vitals=1)
    assert answered == "0 of 4 agents without an answer"
    assert turns == "1 of 4 agents answered a turn since the change (needs 2)"
    assert thin.startswith("too few figures: gateway errors of 1, restarts of 1, ")
    assert thin.endswith(" (needs 2 of 4 agents)")
    assert whys([healthy] * 4, 4)[1] == "4 of 4 agents answered a turn since the change"


def test_times_at_which_nothing_is_changed() -> None:
    freeze = Freeze("f1", BEGAN, BEGAN + timedelta(hours=1), "quarter end", "ada")
    closed = [closed_at(BEGAN, (), [freeze]), closed_at(BEGAN, (), [replace(freeze, ends_at=None)])]
    closed.append(closed_at(BEGAN, ["Tue 09:00-10:00 UTC"], []))
    assert [closing.why for closing in closed if closing] == [
        "frozen by ada until 2026-01-05 13:00 UTC: quarter end",
        "frozen by ada until it is lifted: quarter end",
        "outside the maintenance windows; the next one opens at 2026-01-06 09:00 UTC",
    ]
    assert held_by_alerts(AlertState(unknown="no answer"), (), Spec()) == "open alerts are unknown: no answer"


def test_hooks_that_cannot_be_asked() -> None:
    allowed = AllowedHooks({"smoke": "'"}, hosts=["hooks.example.net"])
    hooks = (
        *(HookGate("none"), HookGate("smoke")),
        *(HookGate("a", url=f"{url}/key") for url in ("http://hooks.example.net", "https://other.example.net")),
    )
    assert [allowed.problem(hook) for hook in hooks] == [
        "hook none is not defined on this computer",
        "hook smoke is defined on this computer without a command",
        "hooks.example.net has no TLS",
        "other.example.net is not among the hosts of setting rollout.hook_hosts on this computer",
    ]


def _pool_fails(world: World) -> None:
    world.drilled = GateResult.FAIL


def _pool_is_empty(world: World) -> None:
    world.drilled = GateResult.INCONCLUSIVE


def _hook_fails(world: World) -> None:
    world.hooked = GateResult.FAIL


def _hook_is_silent(world: World) -> None:
    world.hooked = GateResult.INCONCLUSIVE


def _all_break(world: World) -> None:
    for machine in world.machines.values():
        machine.breaks = True


def _approval_was_altered(world: World) -> None:
    world.approval = ApprovalState(objection="it was altered")


def _approval_is_old(world: World) -> None:
    world.approval = ApprovalState(expired="the approval is of yesterday")


def _no_turns(world: World) -> None:
    world.liveness_of = {instance_id: Liveness(answers=True, exercised=False) for instance_id in world.machines}


HOOKED = replace(QUICK, gates=replace(QUICK.gates, hooks=(HookGate("smoke"),)))
BY_HAND = replace(QUICK, gates=replace(QUICK.gates, manual_before=(2,)))

STOPS: list[tuple[str, Spec, Callable[[World], None]]] = [
    ("halted: 3 of 3 failed; a release this bad is stopped after 2", replace(QUICK, stages=(0.5, 1.0)), _all_break),
    ("halted: every agent of this stage failed (1 of 1)", replace(QUICK, stages=(0.05, 1.0)), _all_break),
    ("halted: the rollback rehearsal failed: on a machine of the pool", QUICK, _pool_fails),
    ("paused: the rollback was not rehearsed: on a machine of the pool", QUICK, _pool_is_empty),
    ("halted: hook smoke failed: smoke", HOOKED, _hook_fails),
    ("paused: hook smoke gave no verdict: smoke", HOOKED, _hook_is_silent),
    ("halted: the approval of stage 2 is not valid: it was altered", replace(QUICK, two_person_above=1),
     _approval_was_altered),
    ("paused: stage 2 needs a second operator's approval: blast radius 13.9 (limit 1); the approval is of yesterday",
     replace(QUICK, two_person_above=1), _approval_is_old),
    ("paused: stage 2 needs a second operator's approval: blast radius 13.9 (limit 1)",
     replace(QUICK, two_person_above=1), lambda _: None),
    ("paused: stage 2 waits for an operator; hermesops rollout promote begins it", BY_HAND, lambda _: None),
    ("paused: probe: 0 of 1 agent answered a turn since the change (needs 1)", QUICK, _no_turns),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "spec", "prepare"), STOPS, ids=[reason for reason, *_ in STOPS])
def test_a_rollout_that_stops_says_why(reason: str, spec: Spec, prepare: Callable[[World], None]) -> None:
    world = World(fleet(20), replace(spec, drill=DrillPolicy.REQUIRED))
    prepare(world)
    for _ in range(200):
        if world.rollout.state in {RolloutState.HALTED, RolloutState.PAUSED}:
            break
        world.run(for_s=10)
    assert f"{world.rollout.state}: {world.rollout.reason}" == reason


def test_statistics_are_for_explain_alone() -> None:
    world = World(fleet(20))
    world.run()
    explained = [explain(recorded) for recorded in world.events]
    assert not any(word in explanation.why for explanation in explained for word in STATISTICS)
    figures = [line for explanation in explained for line in explanation.evidence]
    assert "log ratio of failures: -0.20, in the stage -0.20 (bad from 4.55, good below -2.99)" in figures
    assert any(line.startswith("memory: 1 beside unchanged agents, p ") for line in figures)


def _figures(pairs: Sequence[tuple[float, float]]) -> dict[InstanceId, tuple[float, float]]:
    return {InstanceId(str(number)): pair for number, pair in enumerate(pairs)}


def _placed(target: RolloutTarget, state: TargetState) -> RolloutTarget:
    is_well = state.is_well
    progress = replace(target.progress, on_release=is_well, confirmed_at=BEGAN if is_well else None)
    return replace(target, state=state, touched_at=BEGAN if is_well else None, updated_at=BEGAN, progress=progress)
