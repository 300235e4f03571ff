"""A rollout from its first target to its last, in a fleet that lives in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.operators.commands import OperatorCommand
from hermesops.agents.rollout.ports import HealthObservation, Records
from hermesops.agents.rollout.records.events import StateChanged
from hermesops.model.fleet.vitals import ChangeSpan, Liveness, Vital
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult, RolloutState, TargetState
from hermesops.model.rollout.spec import Action, FailureGate, Spec
from tests.support.fakes.virtual_time import BEGAN
from tests.support.rollouts.world import NEW, OLD, QUICK, World, fleet


def said(world: World, why: str = "looked at it") -> OperatorCommand:
    return OperatorCommand("bob", why, world.now)


def test_a_good_release_reaches_everybody() -> None:
    world = World(fleet(200))
    assert world.run() == f"done: 200 of 200 agents on {NEW}"
    assert world.on(NEW) == 200
    assert world.told == ["running", "done"]
    assert len(world.exposed) == 10
    assert world.most_changing == 20
    assert all(machine.begun == 1 for machine in world.machines.values())


def test_a_release_that_breaks_everybody_hurts_three_of_two_hundred() -> None:
    world = World(fleet(200))
    for machine in world.machines.values():
        machine.breaks = True
    assert world.run().startswith("halted: 3 of 3 failed")
    assert world.begun() == 3
    assert world.on(OLD) == 200
    assert world.told == ["running", "halted"]


@pytest.mark.parametrize("fault", ["breaks", "mute_once_touched"])
def test_failed_and_silent_count_alike(fault: str) -> None:
    world = World(fleet(200))
    for machine in world.machines.values():
        setattr(machine, fault, True)
    assert world.run().startswith("halted: 3 of 3 failed")


@pytest.mark.parametrize("fault", ["mute", "unwell"])
def test_a_fleet_out_of_sight_halts_before_anybody_is_touched(fault: str) -> None:
    world = World(fleet(200))
    for machine in world.machines.values():
        setattr(machine, fault, fault == "mute" or "its agent was silent")
    assert world.run().startswith("halted: 6")
    assert world.begun() == 0


@pytest.mark.parametrize("fault", ["mute", "unwell"])
def test_who_misbehaves_before_being_touched_is_left_out_and_halts_nothing(fault: str) -> None:
    world = World(fleet(20))
    for position in (0, 3, 4, 9, 19):
        setattr(world.machine_of(position), fault, fault == "mute" or "its agent was silent")
    assert world.run() == f"done: 15 of 20 agents on {NEW}, 5 outdated"
    assert world.begun() == 15
    reason = "no answer" if fault == "mute" else "its agent was silent"
    details = {target.detail for target in world.placed.values() if target.detail}
    assert details == {f"unreachable: left unchanged: {reason}"}


def test_who_is_moved_meanwhile_gets_it_once_the_move_is_over() -> None:
    world = World(fleet(20))
    for position in (0, 9, 19):
        world.machine_of(position).worked_on_s = 300
    assert world.run() == f"done: 20 of 20 agents on {NEW}"


def test_who_is_worked_on_for_ever_is_owed_and_halts_nothing() -> None:
    world = World(fleet(20))
    for position in (0, 9, 19):
        world.machine_of(position).worked_on_s = 1e6
    assert world.run() == f"done: 17 of 20 agents on {NEW}, 3 outdated"
    assert "did not begin within" in world.nth(0).detail


@pytest.mark.parametrize(
    "trouble", [{"unwell": "its agent was silent"}, {"hangs": frozenset({"fetch"})}], ids=["at once", "once asked"]
)
def test_others_take_the_places_of_a_first_stage_that_gives_no_answer(trouble: dict[str, Any]) -> None:
    world = World(fleet(200))
    for position in range(10):
        vars(world.machine_of(position)).update(trouble)
    for machine in world.machines.values():
        machine.breaks = True
    assert world.run().startswith("halted: 3 of 3 failed"), "a larger stage was begun without anybody's word"
    assert world.begun() == 3
    assert {target.stage for target in world.placed.values() if target.touched_at} == {0}


def test_who_gives_no_answer_delays_nobody_else() -> None:
    took: list[float] = []
    for silent in ((), (0, 3, 4, 9, 15)):
        world = World(fleet(20), replace(QUICK, soak_s=60))
        for position in silent:
            world.machine_of(position).mute = True
        world.run()
        well = [target.progress.confirmed_at for target in world.placed.values() if target.progress.confirmed_at]
        took.append((max(well) - BEGAN).total_seconds())
    assert took[1] <= 1.2 * took[0], took


def test_in_an_emergency_who_misbehaves_is_changed_all_the_same() -> None:
    world = World(fleet(20), replace(QUICK, emergency="a hole in the agent"))
    world.machine_of(5).unwell = "its agent was silent"
    assert world.run() == f"done: 20 of 20 agents on {NEW}"


def test_who_fails_in_the_background_stops_nothing() -> None:
    world = World(fleet(200))
    world.machine_of(20).breaks = True
    world.machine_of(120).mute = True
    assert world.run() == f"done: 198 of 200 agents on {NEW}, 1 outdated, 1 failed"
    assert world.nth(120).state is TargetState.OUTDATED
    assert world.nth(120).detail == "unreachable: left unchanged: no answer"


def test_a_lost_answer_is_looked_after_and_nothing_done_twice() -> None:
    world = World(fleet(8))
    for machine in world.machines.values():
        machine.loses = 1
    world.run()
    assert [machine.begun for machine in world.machines.values()] == [1] * 8
    assert world.on(NEW) == 8


def test_an_older_failure_of_the_same_release_is_not_blamed_on_this_attempt() -> None:
    world = World(fleet(8))
    for machine in world.machines.values():
        machine.history, machine.last_to, machine.last_failed = [f"0 {NEW} failed"], NEW, True
        machine.misses = 1
    assert world.run() == f"done: 8 of 8 agents on {NEW}"


def test_an_abort_touches_nobody_new_and_lets_those_under_way_go_back() -> None:
    world = World(fleet(200))
    instants = []

    def word() -> bool:
        changing = [machine for machine in world.machines.values() if machine.began_at]
        if world.begun() < 12 or not changing:
            return False
        world.say(commands.abort(Records(world.rollout, ()), OperatorCommand("bob", "looked at it", world.clock.now())))
        instants.append((world.begun(), world.clock.now(), changing))
        return True

    assert world.run(word=word) == "aborted: looked at it"
    begun, at, changing = instants[0]
    assert world.begun() == begun
    assert {machine.current for machine in changing} == {OLD}
    assert all(machine.cancelled for machine in changing), "who has not begun to switch need not end that first"
    assert (world.now - at).total_seconds() <= 60


def test_a_pause_finishes_those_under_way_and_a_resume_goes_on() -> None:
    world = World(fleet(200))
    world.run(for_s=120)
    world.say(commands.pause(Records(world.rollout, ()), said(world)))
    world.run(for_s=60)
    begun = world.begun()
    world.run(for_s=3600)
    assert world.begun() == begun
    assert world.count(TargetState.ACTIVATING, TargetState.UNCONFIRMED) == 0
    world.say(commands.resume(Records(world.rollout, ()), said(world)))
    assert world.run().startswith("done")


def test_once_a_gate_has_failed_nobody_else_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    first_failure = replace(QUICK.gates, failures=FailureGate(early_failures=1, early_rate=0.0))
    world = World(fleet(200), replace(QUICK, gates=first_failure))
    broken, late = world.machine_of(1), world.machine_of(2)
    broken.breaks, late.worked_on_s = True, 26
    watch = world.watch

    async def slow(
        changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> HealthObservation:
        await world.clock.pause(10 if broken.last_failed else 0)
        return await watch(changed, untouched, vitals)

    monkeypatch.setattr(world, "watch", slow)
    assert world.run().startswith("halted: 1 of ")
    assert (broken.begun, late.begun, world.begun()) == (1, 0, 2)


def test_gates_are_heard_while_it_is_paused() -> None:
    world = World(fleet(200), replace(QUICK, soak_s=7200))
    world.run(for_s=120)
    world.say(commands.pause(Records(world.rollout, ()), said(world)))
    world.run(for_s=30)
    touched = [target.id for target in world.placed.values() if target.state is TargetState.SOAKING]
    assert len(touched) >= 3
    for instance_id in touched:
        world.liveness_of[instance_id] = Liveness(answers=False, exercised=True)
    assert world.run().startswith("halted")
    assert world.on(OLD) == 200


def test_the_health_gate_halts_a_rollout_whose_canaries_get_slower() -> None:
    world = World(fleet(200))
    world.worse = {Vital.TURN_LATENCY: 2.0}
    world.run(for_s=3600)
    assert world.rollout.state is RolloutState.HALTED
    assert world.rollout.reason.startswith(
        "turn latency is 2.00 times what it was before, relative to unchanged agents (limit 1.25)"
    )
    [halt] = (
        recorded
        for recorded in world.events
        if isinstance(recorded.event, StateChanged) and recorded.event.after is RolloutState.HALTED
    )
    assert halt.evidence["health"] == {"result": "fail", "why": world.rollout.reason}
    assert 5 <= world.begun() <= 10
    assert world.on(OLD) == 200
    assert world.told == ["running", "halted"]


def test_the_health_gate_halts_while_it_is_paused() -> None:
    world = World(fleet(200), replace(QUICK, soak_s=7200))
    while world.count(TargetState.SOAKING) < 7:
        world.run(for_s=5)
    world.say(commands.pause(Records(world.rollout, ()), said(world)))
    world.run(for_s=60)
    assert world.told[-1] == "paused"
    world.worse = {Vital.MEMORY: 2.0}
    world.run(for_s=600)
    assert world.rollout.state is RolloutState.HALTED
    assert world.rollout.reason.startswith("memory is 2.00 times")
    assert world.on(OLD) == 200


def test_a_vital_that_gets_worse_by_less_than_is_allowed_halts_nothing() -> None:
    world = World(fleet(200))
    world.worse = {Vital.TURN_LATENCY: 1.2}
    assert world.run() == f"done: 200 of 200 agents on {NEW}"


def test_a_new_runner_does_not_start_the_time_of_a_target_anew() -> None:
    world = World(fleet(200))
    while world.nth(0).touched_at is None:
        world.run(for_s=5)
    world.machine_of(0).began_at = BEGAN + timedelta(days=1)  # it hangs: it never comes to wait for a word
    world.run(for_s=400)
    world.clock.seconds += 250  # nobody looks at it
    world.run(for_s=5)
    assert world.nth(0).state is TargetState.TIMED_OUT
    assert "in switching; it rolls back by itself" in world.nth(0).detail


def test_a_machine_that_stops_on_its_way_and_does_not_go_back_by_itself_is_brought_back() -> None:
    world = World(fleet(8))
    world.rollout = replace(world.rollout, action=Action.MACHINE)
    world.machine_of(0).stalls = True
    assert world.run() == "halted: every agent of this stage failed (1 of 1)"
    assert (world.nth(0).state, world.nth(0).detail) == (TargetState.TIMED_OUT, "not done after 600 s; rolled back")
    assert (world.nth(0).progress.on_release, world.machine_of(0).phase) == (False, "")
    assert world.machine_of(0).backs == 1


def test_a_new_machine_that_the_vendor_does_not_make_whole_halts_the_rollout_and_ends_no_runner() -> None:
    world = World(fleet(8))
    world.rollout = replace(world.rollout, action=Action.MACHINE)
    world.machine_of(0).stalls = world.machine_of(0).halfway = True
    assert world.run() == "halted: every agent of this stage failed (1 of 1)"
    assert world.nth(0).state is TargetState.TIMED_OUT
    assert (world.nth(0).progress.on_release, world.machine_of(0).backs) == (False, 1)


def test_a_machine_that_cannot_be_brought_back_says_which_command_finishes_it() -> None:
    world = World(fleet(8))
    world.rollout = replace(world.rollout, action=Action.MACHINE)
    world.machine_of(0).stalls, world.machine_of(0).hangs = True, frozenset({"roll_back"})
    began = world.clock.seconds
    assert world.run().startswith("halted")
    assert world.clock.seconds - began < 1300, "as long back as forth"
    assert world.nth(0).detail == (
        "not rolled back: its machine did not roll back within 600 s; "
        "hermesops operation list shows the relocation that is left"
    )


def test_a_rollback_of_all_skips_stages_and_keeps_to_the_limit() -> None:
    world = World(fleet(200))
    world.run()
    world.say(commands.roll_back(Records(world.rollout, tuple(world.placed.values())), said(world)))
    began = world.clock.seconds
    assert world.run() == "rolled back: 200 agents rolled back to the previous release"
    assert world.on(OLD) == 200
    assert world.clock.seconds - began < 120
    assert world.most_going_back == 20


def test_what_would_lose_data_is_kept_and_said() -> None:
    world = World(fleet(8))
    world.run()
    world.machine_of(3).keeps = True
    world.say(commands.roll_back(Records(world.rollout, tuple(world.placed.values())), said(world)))
    assert world.run() == "rolled back: 7 agents rolled back to the previous release, 1 not"
    assert world.nth(3).state is TargetState.KEPT
    assert "3 rows" in world.nth(3).detail


def test_a_release_whose_way_back_fails_never_reaches_the_second_stage() -> None:
    world = World(fleet(200))
    world.drilled = GateResult.FAIL
    assert world.run() == "halted: the rollback rehearsal failed: on a machine of the pool"
    assert world.begun() == 10


def test_a_way_back_that_was_not_tried_needs_a_person() -> None:
    world = World(fleet(200), Spec(soak_s=60))
    world.drilled = GateResult.NOT_EXERCISED
    world.run(for_s=3600)
    assert world.rollout.state is RolloutState.PAUSED
    assert world.begun() == 10
    world.say(commands.promote(Records(world.rollout, tuple(world.placed.values())), said(world)))
    assert world.run().startswith("done")


def test_a_gateway_that_is_not_heard_through_the_proxy_is_the_releases_fault() -> None:
    world = World(fleet(200))
    for machine in world.machines.values():
        machine.confirm_error = True
    assert world.run().startswith("halted: 3 of 3 failed")
    assert world.nth(0).detail == "its gateway gives no answer through the proxy"
    assert world.on(OLD) == 200
