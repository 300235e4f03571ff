"""What operators say to a rollout, and what becomes of it."""

from dataclasses import replace
from datetime import UTC, timedelta
from datetime import time as clock_time

import pytest

from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.operators.commands import OperatorCommand
from hermesops.agents.rollout.plan.specs import blast_radius
from hermesops.agents.rollout.ports import AlertState, ApprovalState, Records
from hermesops.agents.rollout.records.events import Notified, Recorded, StateChanged, TargetsUpdated, WaitBegun
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.alert import Alert, Severity
from hermesops.model.fleet.instance import QuietHours
from hermesops.model.fleet.vitals import Liveness
from hermesops.model.operation import LeaseLostError
from hermesops.model.rollout.records import Freeze, GateResult, Rollout, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import DrillPolicy, FailureGate, HaltRollback, HookGate, Spec
from tests.support.crash.death import KilledError
from tests.support.fakes.virtual_time import BEGAN
from tests.support.rollouts.world import NEW, OLD, QUICK, World, fleet


def said(world: World, who: str = "bob") -> OperatorCommand:
    return OperatorCommand(who, "looked at it", world.now)


def targets(world: World) -> tuple[RolloutTarget, ...]:
    return tuple(world.placed.values())


def until(world: World, state: RolloutState) -> None:
    for _ in range(1000):
        if world.rollout.state is state:
            return
        world.run(for_s=120)
    raise AssertionError(f"{world.rollout.state} and never {state}")


def test_a_halted_rollout_is_tried_again_with_those_that_failed() -> None:
    world = World(fleet(40))
    for position in (0, 1):
        world.machine_of(position).breaks = True
    assert world.run().startswith("halted: 2 of 2")
    for machine in world.machines.values():
        machine.breaks = False
    world.say(commands.retry(Records(world.rollout, targets(world)), said(world)))
    assert world.run() == f"done: 40 of 40 agents on {NEW}"
    assert world.machine_of(0).begun == 2


def test_a_promoted_halt_forgives_what_failed_but_not_what_fails_next() -> None:
    world = World(fleet(200))
    for position in (0, 1, 12, 13):
        world.machine_of(position).breaks = True
    assert world.run().startswith("halted")
    world.say(commands.promote(Records(world.rollout, targets(world)), said(world)))
    assert world.run().startswith("halted: 2 of")
    assert world.count(TargetState.FAILED) == 4


def test_a_forgiven_failure_that_cannot_be_put_back_is_not_blamed_anew() -> None:
    world = World(fleet(40), replace(QUICK, gates=replace(QUICK.gates, failures=_strict())))
    while not world.nth(0).progress.on_release:
        world.run(for_s=5)
    world.machine_of(0).keeps = True
    world.liveness_of[world.nth(0).id] = Liveness(answers=True, exercised=True, failed="the agent takes no turn")
    notify = world.notify

    async def killed(rollout: Rollout, event: Recorded[StateChanged]) -> None:
        raise KilledError(rollout.id, event.id)

    world.notify = killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        world.run()
    assert world.rollout.state is RolloutState.HALTED
    world.notify = notify  # type: ignore[method-assign]
    world.say(commands.promote(Records(world.rollout, targets(world)), said(world)))
    world.clock.seconds += 60
    assert world.run() == f"done: 39 of 40 agents on {NEW}, 1 failed"
    assert "3 rows" in world.nth(0).detail


def test_a_rollback_names_the_settings_that_are_not_in_force_any_more() -> None:
    world = World(fleet(4))
    world.run()
    world.machine_of(1).settings_lost = ("providers.mine", "agent.max_turns")
    world.say(commands.roll_back(Records(world.rollout, targets(world)), said(world)))
    until(world, RolloutState.ROLLED_BACK)
    assert world.rollout.reason.endswith("; 1 agent with settings that are not in force any more")
    assert world.nth(1).progress.settings_lost == ("providers.mine", "agent.max_turns")
    assert world.nth(1).detail == "settings not in force any more: providers.mine, agent.max_turns"
    assert world.nth(0).detail == ""


def test_promote_full_skips_every_soak() -> None:
    world = World(fleet(40), replace(QUICK, soak_s=7200))
    world.run(for_s=60)
    world.say(commands.promote(Records(world.rollout, targets(world)), said(world), full=True))
    assert world.run().startswith("done: 40 of 40")
    assert world.clock.seconds < 600


@pytest.mark.parametrize("verb", [commands.pause, commands.resume, commands.abort])
def test_nothing_can_be_said_to_what_is_over(verb: object) -> None:
    world = World(fleet(3))
    world.run()
    assert callable(verb)
    with pytest.raises(RefusedError, match="rollout r1 is done and cannot be"):
        verb(Records(world.rollout, ()), said(world))


def test_what_is_paused_before_it_starts_touches_nobody() -> None:
    world = World(fleet(10))
    world.say(commands.pause(Records(world.rollout, ()), said(world)))
    world.run(for_s=600)
    assert world.begun() == 0
    with pytest.raises(RefusedError, match="no target of rollout r1 failed"):
        commands.retry(Records(world.rollout, targets(world)), said(world))


def test_a_stage_of_many_waits_for_a_second_operator() -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=20))
    until(world, RolloutState.PAUSED)
    assert world.begun() == 10
    assert world.rollout.reason == "stage 3 needs a second operator's approval: blast radius 31.9 (limit 20)"
    world.say(commands.approve(world.rollout, 3, said(world, "carol"), "signed"))
    assert world.run().startswith("done: 40 of 40")


@pytest.mark.parametrize(("stage", "begun"), [(1, 0), (2, 2), (3, 10)])
def test_each_stage_above_the_limit_waits_for_its_own_approval(stage: int, begun: int) -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=1))
    until(world, RolloutState.PAUSED)
    if stage > 1:
        world.say(commands.approve(world.rollout, stage - 1, said(world, "carol"), "signed"))
        until(world, RolloutState.PAUSED)
    assert world.rollout.reason.startswith(f"stage {stage} needs a second operator's approval: blast radius")
    assert world.begun() == begun


def test_an_approval_of_a_stage_covers_those_before_it() -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=1))
    until(world, RolloutState.PAUSED)
    world.say(commands.approve(world.rollout, 3, said(world, "carol"), "signed"))
    assert world.run().startswith("done: 40 of 40")


def test_an_approved_stage_keeps_its_targets_although_one_has_not_answered_yet() -> None:
    world = World(fleet(20), replace(QUICK, two_person_above=1))
    world.machine_of(0).hangs = frozenset({"look"})
    first = world.nth(0)
    world.say(commands.approve(world.rollout, 3, said(world, "carol"), "signed"))
    world.run(for_s=15)
    assert (world.nth(0).stage, world.nth(0).position) == (first.stage, first.position)


def test_an_approval_that_is_not_what_was_signed_halts_at_the_door_and_within_a_stage() -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=1))
    world.approval = ApprovalState(objection="the approval is about another stage 3 of rollout r1")
    assert world.run() == (
        "halted: the approval of stage 1 is not valid: the approval is about another stage 3 of rollout r1"
    )
    assert world.begun() == 0

    world = World(fleet(200), replace(QUICK, two_person_above=1))
    world.approval = ApprovalState(stages=3)
    while world.begun() < 60:
        world.run(for_s=5)
    world.approval = replace(world.approval, objection="it was altered")
    assert world.run() == "halted: the approval of stage 3 is not valid: it was altered"
    assert world.begun() < 200


def test_an_approval_that_lapsed_is_waited_for_anew() -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=1))
    world.approval = ApprovalState(expired="the approval is of yesterday")
    until(world, RolloutState.PAUSED)
    assert world.rollout.reason.endswith("(limit 1); the approval is of yesterday")
    world.approval = None
    world.say(commands.approve(world.rollout, 3, said(world, "carol"), "signed"))
    assert world.run().startswith("done: 40 of 40")


def test_the_environments_limit_counts_where_a_row_says_more() -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=1e12))
    world.approval = ApprovalState(limit=20)
    until(world, RolloutState.PAUSED)
    assert world.begun() == 10
    assert world.rollout.reason.startswith("stage 3 needs a second operator's approval: blast radius 31.9 (limit 20)")


def test_a_rollout_that_was_halted_is_approved_anew_and_promoted() -> None:
    world = World(fleet(40), replace(QUICK, two_person_above=1))
    world.approval = ApprovalState(objection="it was altered")
    assert world.run().startswith("halted")
    world.say(commands.approve(world.rollout, 3, said(world, "carol"), "signed"))
    assert world.rollout.state is RolloutState.HALTED
    world.approval = None
    world.say(commands.promote(Records(world.rollout, targets(world)), said(world)))
    assert world.run().startswith("done: 40 of 40")


def test_promote_does_not_get_past_a_hook_that_fails() -> None:
    gates = replace(QUICK.gates, hooks=(HookGate("billing"),))
    world = World(fleet(40), replace(QUICK, gates=gates))
    world.hooked = GateResult.INCONCLUSIVE
    until(world, RolloutState.PAUSED)
    world.hooked = GateResult.FAIL
    world.say(commands.promote(Records(world.rollout, targets(world)), said(world), full=True))
    assert world.run() == "halted: hook billing failed: billing"
    assert world.begun() == 2


def test_a_hook_that_fails_halts() -> None:
    gates = replace(QUICK.gates, hooks=(HookGate("billing"),))
    world = World(fleet(40), replace(QUICK, gates=gates))
    world.hooked = GateResult.FAIL
    assert world.run() == "halted: hook billing failed: billing"
    assert world.begun() == 2


@pytest.mark.parametrize(
    ("then", "ends"),
    [(GateResult.PASS, f"done: 4 of 4 agents on {NEW}"), (GateResult.FAIL, "halted: hook billing failed: billing")],
)
def test_a_hook_is_asked_about_the_last_stage_too(then: GateResult, ends: str) -> None:
    gates = replace(QUICK.gates, hooks=(HookGate("billing"),))
    world = World(fleet(4), replace(QUICK, stages=(1.0,), gates=gates))
    world.hooked = GateResult.INCONCLUSIVE
    until(world, RolloutState.PAUSED)
    assert world.count(TargetState.HEALTHY) == world.begun() == 4
    assert world.rollout.reason == "hook billing gave no verdict: billing"
    world.hooked = then
    world.say(commands.resume(Records(world.rollout, ()), said(world)))
    assert world.run() == ends


@pytest.mark.parametrize("care", HaltRollback)
def test_whom_a_halt_puts_back_was_chosen_before(care: HaltRollback) -> None:
    spec = replace(QUICK, on_halt=care, gates=replace(QUICK.gates, failures=_strict()))
    world = World(fleet(200), spec)
    while not (world.count(TargetState.HEALTHY) and world.count(TargetState.SOAKING)):
        world.run(for_s=5)
    healthy, soaking = world.count(TargetState.HEALTHY), world.count(TargetState.SOAKING)
    hurt = next(target.id for target in targets(world) if target.state is TargetState.SOAKING)
    world.liveness_of[hurt] = Liveness(answers=True, exercised=True, failed="the agent takes no turn")
    assert world.run().startswith("halted")
    left = {HaltRollback.FAILED: healthy, HaltRollback.ALL: 0, HaltRollback.NONE: healthy + soaking}
    assert world.on(NEW) == left[care]
    world.say(commands.roll_back(Records(world.rollout, targets(world)), said(world)))
    assert world.run() == f"rolled back: {healthy + soaking} agents rolled back to the previous release"


def test_those_put_back_although_well_are_brought_again_once_somebody_answers_for_it() -> None:
    world = World(fleet(40), replace(QUICK, soak_s=600))
    for position in (2, 3):
        world.machine_of(position).breaks = True
    assert world.run().startswith("halted")
    assert world.count(TargetState.ROLLED_BACK) > 0
    world.say(commands.promote(Records(world.rollout, targets(world)), said(world)))
    assert world.run() == f"done: 38 of 40 agents on {NEW}, 2 failed"


def _strict() -> FailureGate:
    return replace(QUICK.gates.failures, early_failures=1, early_rate=0.0)


def test_an_emergency_minds_no_freeze_window_quiet_hour_or_busy_user() -> None:
    quiet = QuietHours(clock_time(0), clock_time(23, 59))
    world = World(
        [replace(target, quiet=quiet) for target in fleet(6)],
        replace(QUICK, windows=("Sun 01:00-02:00 UTC",), emergency="a hole in the agent"),
    )
    world.frozen = [Freeze("f1", BEGAN, None, "incident", "ada")]
    for machine in world.machines.values():
        machine.busy = "1 run"
    assert world.run().startswith("done: 6 of 6")


def test_who_is_always_busy_gets_it_at_the_deadline() -> None:
    world = World(fleet(6), replace(QUICK, defer_s=3600))
    world.machine_of(2).busy = "1 run"
    assert world.run().startswith("done: 6 of 6")
    assert 3600 <= world.clock.seconds < 2 * 3600


def test_where_nobody_is_left_for_later_neither_hours_nor_work_count() -> None:
    quiet = QuietHours(clock_time(0), clock_time(23, 59))
    world = World([replace(target, quiet=quiet) for target in fleet(6)], replace(QUICK, defer_s=0))
    world.machine_of(2).busy = "1 run"
    assert world.run().startswith("done: 6 of 6")
    assert not [why for why in world.reasons(TargetsUpdated) if "quiet hours" in why]


def test_an_instance_that_sleeps_is_owed_and_no_failure() -> None:
    world = World(fleet(20))
    for position in (0, 1, 2):
        world.machine_of(position).absent = "suspended"
    assert world.run() == f"done: 17 of 20 agents on {NEW}, 3 outdated"
    assert world.nth(0).detail == "suspended"


def test_a_web_hook_that_is_down_keeps_nothing_from_halting() -> None:
    world = World(fleet(200))
    for machine in world.machines.values():
        machine.breaks = True

    async def down(rollout: Rollout, event: Recorded[StateChanged]) -> None:
        raise UnavailableError(f"nobody listens to {rollout.id} {event.id}")

    world.notify = down  # type: ignore[method-assign]
    assert world.run().startswith("halted")
    notified = [recorded.event for recorded in world.events if isinstance(recorded.event, Notified)]
    assert len(notified) == 2
    assert all("nobody listens" in notification.problem for notification in notified)


def test_no_more_are_down_at_once_than_may_be() -> None:
    world = World(fleet(40), replace(QUICK, gates=replace(QUICK.gates, failures=replace(_strict(), early_failures=99))))
    assert world.rollout.spec.at_once(40) == 4
    for position in (6, 14, 22, 30):
        world.machine_of(position).mute_once_touched = True
    until(world, RolloutState.PAUSED)
    assert world.rollout.reason.startswith("4 agents down, the limit is 4: ")
    assert world.count(TargetState.SILENT) == 4


def test_a_soak_that_nobody_sees_never_ends() -> None:
    world = World(fleet(40))

    async def blind(*arguments: object) -> object:
        raise UnavailableError(f"Prometheus gives no answer {len(arguments)}")

    world.watch = blind  # type: ignore[assignment, method-assign]
    world.run(for_s=3600)
    assert world.rollout.state is RolloutState.RUNNING
    assert world.begun() == 2
    assert world.reasons(WaitBegun)[-1] == "stage 1 has soaked, but 2 agents of it cannot be observed"


def test_a_drill_can_be_left_out_only_by_choice() -> None:
    for request, paused in ((DrillPolicy.REQUIRED, True), (DrillPolicy.IF_POSSIBLE, False), (DrillPolicy.NO, False)):
        world = World(fleet(10), replace(QUICK, drill=request))
        world.drilled = GateResult.NOT_EXERCISED
        world.run(for_s=7200)
        assert (world.rollout.state is RolloutState.PAUSED) == paused
        assert (world.on(OLD) == 9) == paused


def test_a_drill_that_fails_halts_although_it_could_be_left_out() -> None:
    world = World(fleet(10), replace(QUICK, drill=DrillPolicy.IF_POSSIBLE))
    world.drilled = GateResult.FAIL
    assert world.run() == "halted: the rollback rehearsal failed: on a machine of the pool"
    assert world.begun() == 1


def test_a_drill_whose_machine_is_taken_away_says_nothing_of_the_rollouts_own_lease() -> None:
    world = World(fleet(10))

    async def taken(release: ReleaseId, before: str) -> tuple[GateResult, str]:
        raise LeaseLostError(f"the machine that went from {before} to {release} is somebody else's")

    world.drill = taken  # type: ignore[method-assign]
    until(world, RolloutState.PAUSED)
    assert world.rollout.reason.startswith("the rollback was not rehearsed: the machine that went from")


def test_a_rollback_may_be_told_to_lose() -> None:
    world = World(fleet(4))
    world.run()
    world.machine_of(1).keeps = True
    world.say(commands.roll_back(Records(world.rollout, targets(world)), said(world)))
    world.run()
    assert world.on(NEW) == 1
    world.rollout = replace(world.rollout, state=RolloutState.HALTED)
    world.say(commands.roll_back(Records(world.rollout, targets(world)), said(world), lose=True))
    world.run()
    assert world.on(OLD) == 4


def test_the_events_are_in_the_order_of_time() -> None:
    world = World(fleet(20), Spec(soak_s=30))
    world.run()
    times = [event.at for event in world.events]
    assert times == sorted(times)
    assert times[0] - BEGAN < timedelta(seconds=1)
    assert all(at.tzinfo is UTC for at in times)


def _alert(name: str, **labels: str) -> Alert:
    return Alert(name, {"alertname": name, "scope": "fleet", **labels}, BEGAN, Severity.PAGE)


def test_an_open_alert_holds_the_next_batch_until_it_is_over() -> None:
    world = World(fleet(6))
    world.alerts = AlertState((_alert("FleetGap"),))
    world.run(for_s=300)
    assert (world.begun(), world.rollout.state) == (0, RolloutState.RUNNING)
    assert "held by 1 open alert: FleetGap" in world.reasons(WaitBegun)
    world.alerts = AlertState()
    assert world.run().startswith("done: 6 of 6")


def test_the_same_alert_that_holds_it_again_is_recorded_again() -> None:
    world = World(fleet(6), replace(QUICK, stages=(0.5, 1.0)))
    gap, held = AlertState((_alert("FleetGap"),)), "held by 1 open alert: FleetGap"
    world.alerts = gap
    world.run(for_s=100)
    assert world.reasons(WaitBegun) == [held]

    def fires_again() -> bool:
        world.alerts = gap if world.begun() == 3 else AlertState()
        return world.begun() == 3

    world.run(for_s=900, word=fires_again)
    assert isinstance(world.events[-1].event, WaitBegun)
    assert world.reasons(WaitBegun)[-1] == held


def test_an_alert_that_fires_between_two_batches_holds_the_second() -> None:
    world = World(fleet(6), replace(QUICK, stages=(0.5, 1.0)))

    def fires_once_three_are_changed() -> bool:
        if world.begun() < 3:
            return False
        world.alerts = AlertState((_alert("CellLost", cell=world.nth(0).facts.cell),))
        return True

    world.run(for_s=900, word=fires_once_three_are_changed)
    assert world.begun() == 3
    assert world.count(TargetState.HEALTHY) == 3, "what was begun is finished"


@pytest.mark.parametrize("unknown", ["", "monitoring gives no answer"])
@pytest.mark.parametrize(
    "spec", [replace(QUICK, despite_alerts="it is the cure"), replace(QUICK, emergency="a hole in the agent")]
)
def test_an_operator_may_go_on_despite_alerts(spec: Spec, unknown: str) -> None:
    world = World(fleet(6), spec)
    world.alerts = AlertState((_alert("FleetGap"),), unknown)
    assert world.run().startswith("done: 6 of 6")


@pytest.mark.parametrize("pauses", [False, True])
def test_one_that_is_held_goes_on_once_an_operator_says_why(pauses: bool) -> None:  # noqa: FBT001 - a parameter
    world = World(fleet(6))
    world.alerts = AlertState((_alert("FleetGap"),))
    world.run(for_s=300)
    assert world.begun() == 0
    if pauses:
        world.say(commands.pause(Records(world.rollout, ()), said(world)))
    world.say(commands.resume(Records(world.rollout, ()), said(world), despite_alerts=True))
    assert world.rollout.decisions.despite_alerts == said(world).why
    assert world.rollout.spec.despite_alerts == ""
    assert world.run().startswith("done: 6 of 6")


def test_to_go_on_despite_alerts_may_need_a_second_operator() -> None:
    world = World(fleet(6), replace(QUICK, two_person_above=blast_radius(targets(World(fleet(6))), QUICK)))
    world.alerts = AlertState((_alert("FleetGap"),))
    world.run(for_s=300)
    world.say(commands.resume(Records(world.rollout, ()), said(world), despite_alerts=True))
    world.run(for_s=900)
    assert any("second operator" in reason for reason in world.reasons(WaitBegun)), world.reasons(WaitBegun)


@pytest.mark.parametrize("state", [RolloutState.HALTED, RolloutState.ABORTING, RolloutState.DONE])
def test_alerts_are_nothing_to_one_that_does_not_go_on(state: RolloutState) -> None:
    world = World(fleet(6))
    ended = replace(world.rollout, state=state)
    with pytest.raises(RefusedError, match="cannot be resumed"):
        commands.resume(Records(ended, ()), said(world), despite_alerts=True)


def test_that_alerts_are_not_known_holds_it_too() -> None:
    world = World(fleet(6))
    world.alerts = AlertState(unknown="monitoring gives no answer")
    world.run(for_s=300)
    assert world.begun() == 0
    assert "open alerts are unknown: monitoring gives no answer" in world.reasons(WaitBegun)
