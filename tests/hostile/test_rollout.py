"""Machines that never come to an end with a step of a rollout: they cost themselves, and nobody else waits for them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.operators.commands import OperatorCommand
from hermesops.agents.rollout.ports import Records
from hermesops.model.fleet.vitals import Liveness
from hermesops.model.rollout.records import RolloutState, TargetState
from hermesops.model.rollout.spec import HaltRollback
from tests.support.rollouts.world import NEW, OLD, QUICK, World, fleet
from tests.support.suite.cases import each_case

HOSTILE = (3, 7, 11, 13, 17)
"""Five of twenty, none of them among the first stage's."""

STEPS = ("look", "agent", "fetch", "activate", "confirm")
UNTOUCHED = ("look", "agent", "fetch")
"""Steps before anything is changed: who hangs there says nothing of the release, and is left as it was."""


def _world(*hangs: str, provokes: Exception | None = None) -> World:
    world = World(fleet(20))
    for position in HOSTILE:
        world.machine_of(position).hangs = frozenset(hangs)
        world.machine_of(position).provokes = provokes
    return world


def _ended(world: World) -> dict[int, TargetState]:
    return {number: world.nth(number).state for number in range(20)}


@each_case("step", STEPS)
def test_a_rollout_ends_although_some_machines_never_do(step: str) -> None:
    world = _world(step)
    outcome = world.run(for_s=48 * 3600)
    assert outcome
    assert world.rollout.state in {RolloutState.DONE, RolloutState.HALTED}
    assert all(not _ended(world)[number].is_well for number in HOSTILE if world.nth(number).state.has_failed)
    assert not any(state.has_failed for number, state in _ended(world).items() if number not in HOSTILE)


@pytest.mark.parametrize("step", UNTOUCHED)
def test_machines_that_hang_before_anything_is_changed_halt_nothing(step: str) -> None:
    world = _world(step)
    assert world.run(for_s=48 * 3600) == f"done: 15 of 20 agents on {NEW}, 5 outdated"
    assert all(world.nth(number).detail.startswith("unreachable: ") for number in HOSTILE)


@pytest.mark.parametrize("step", ["look", "agent"])
def test_a_first_stage_does_not_wait_for_one_that_does_not_answer(step: str) -> None:
    world = World(fleet(20))
    world.machine_of(0).hangs = frozenset({step})
    first, second = world.nth(0), world.nth(1)
    world.run(for_s=15)
    assert world.on(NEW) + sum(target.state.is_in_flight for target in world.placed.values()) == 1
    assert (world.nth(1).stage, world.nth(1).batch, world.nth(1).position) == (first.stage, first.batch, first.position)
    assert (world.nth(0).stage, world.nth(0).batch, world.nth(0).position) == (
        second.stage,
        second.batch,
        second.position,
    )
    assert world.run(for_s=48 * 3600) == f"done: 19 of 20 agents on {NEW}, 1 outdated"


@each_case("step", STEPS)
def test_an_abort_is_obeyed_while_machines_hang(step: str) -> None:
    world = _world(step, "cancel")
    aborted_at: list[float] = []

    def abort() -> bool:
        hanging = [number for number in HOSTILE if world.nth(number).state is not TargetState.WAITING]
        since = world.nth(hanging[0]).updated_at if hanging else None
        if since is None or world.clock.now() < since + timedelta(seconds=5):
            return False
        aborted_at.append(world.clock.seconds)
        world.say(commands.abort(Records(world.rollout, ()), OperatorCommand("bob", "enough", world.clock.now())))
        return True

    assert world.run(for_s=48 * 3600, word=abort) == "aborted: enough"
    assert world.clock.seconds - aborted_at[0] < 600
    assert {machine.current for machine in world.machines.values() if not machine.hangs} <= {OLD, NEW}


def test_a_bug_that_one_machine_provokes_is_its_own_failure() -> None:
    world = _world(provokes=RecursionError("deep"))
    assert world.run(for_s=48 * 3600)
    failed = {number for number, state in _ended(world).items() if state.has_failed}
    assert failed
    assert failed <= set(HOSTILE)
    assert all(world.nth(number).detail == "a bug in hermesops: RecursionError" for number in failed)


def test_machines_that_do_not_go_back_keep_no_others_from_it() -> None:
    failures = replace(QUICK.gates.failures, early_failures=1, early_rate=0.0)
    world = World(fleet(20), replace(QUICK, on_halt=HaltRollback.ALL, gates=replace(QUICK.gates, failures=failures)))
    while world.on(NEW) < 10:
        world.run(for_s=5)
    changed = [target.id for target in world.placed.values() if target.progress.on_release]
    stuck = changed[: len(changed) // 2]
    for instance_id in stuck:
        world.machines[instance_id].hangs = frozenset({"roll_back"})
    world.liveness_of[changed[-1]] = Liveness(answers=True, exercised=True, failed="the agent takes no turn")
    halted_at = world.clock.seconds
    assert world.run(for_s=48 * 3600).startswith("halted")
    assert {world.machines[instance_id].current for instance_id in changed if instance_id not in stuck} == {OLD}
    assert all("not rolled back" in world.placed[instance_id].detail for instance_id in stuck)
    assert world.clock.seconds - halted_at < 3600
