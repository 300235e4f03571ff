"""Rollouts whose runner dies at one write, and what must be true of them once another has gone on."""

import contextlib
from collections import Counter
from collections.abc import Callable

from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.operators.commands import OperatorCommand
from hermesops.agents.rollout.ports import Records
from tests.support.crash.death import Death, KilledError
from tests.support.rollouts.world import NEW, OLD, World, fleet

SIZE = 20


def good() -> World:
    """Reaches everybody but one that it breaks and one that gives no answer."""
    world = World(fleet(SIZE))
    world.machine_of(5).breaks = True
    world.machine_of(18).mute = True
    return world


def bad() -> World:
    """Breaks everybody from the third on."""
    world = World(fleet(SIZE))
    for position in range(2, SIZE):
        world.machine_of(position).breaks = True
    return world


def taken_back() -> World:
    """Reached everybody, and somebody wants it back."""
    world = World(fleet(SIZE))
    world.run()
    world.say(
        commands.roll_back(
            Records(world.rollout, tuple(world.placed.values())), OperatorCommand("bob", "no good", world.now)
        )
    )
    return world


SCENES: dict[str, Callable[[], World]] = {"good": good, "bad": bad, "taken_back": taken_back}


def points(scene: str) -> int:
    """How many writes there are at which a runner can die."""
    world = SCENES[scene]()
    world.death = Death()
    world.run()
    return world.death.count


AWAY_S = 300.0
"""Long enough for machines to go back by themselves."""


def die_and_come_back_late(scene: str, at: int) -> None:
    """Let a runner die at a write and another come minutes later: who went back alone is brought again, unblamed."""
    calm, world = SCENES[scene](), SCENES[scene]()
    calm.run()
    world.death = Death(at)
    with contextlib.suppress(KilledError):
        world.run()
    assert world.death.count >= at
    world.death = Death()
    world.clock.seconds += AWAY_S
    world.run()
    where = f"{scene}, died at write {at}, came back late"
    assert world.rollout.state is calm.rollout.state, f"{where}: {world.rollout.reason}"
    assert world.rollout.reason == calm.rollout.reason, where
    assert _failed(world) == _failed(calm), where
    again = [target for target in world.placed.values() if target.progress.confirm_timeouts]
    assert len(again) <= 2, where
    for instance_id, machine in world.machines.items():
        assert (
            machine.begun <= calm.machines[instance_id].begun + world.placed[instance_id].progress.confirm_timeouts
        ), where
        assert machine.began_at is None, f"{where}: left under way"


def die_and_go_on(scene: str, at: int) -> None:
    """Let a runner die at a write and another go on, and compare with a run in which nobody died."""
    calm, world = SCENES[scene](), SCENES[scene]()
    calm.run()
    world.death = Death(at)
    try:
        world.run()
    except KilledError:
        pass
    else:
        raise AssertionError(f"{scene}: nobody died at write {at}")
    world.death = Death()
    world.run()
    where = f"{scene}, died at write {at}"
    assert world.rollout.state is calm.rollout.state, where
    assert world.rollout.reason == calm.rollout.reason, where
    assert _states(world) == _states(calm), where
    for instance_id, machine in world.machines.items():
        assert machine.begun == calm.machines[instance_id].begun <= 1, f"{where}: begun twice"
        assert machine.current == calm.machines[instance_id].current in {OLD, NEW}, where
        assert machine.began_at is None, f"{where}: left under way"
        assert len(machine.history) == len(calm.machines[instance_id].history), f"{where}: {machine.history}"
    assert sorted(world.exposed) == sorted(calm.exposed), where
    assert list(dict.fromkeys(world.told)) == list(dict.fromkeys(calm.told)), where
    assert sum((Counter(world.told) - Counter(calm.told)).values()) <= 1, f"{where}: told {world.told}"
    assert world.most_changing <= calm.most_changing, where


def _failed(world: World) -> set[str]:
    """Who was ever blamed. Whether the others came through their soak before a halt is a matter of time."""
    return {target.id for target in world.placed.values() if target.state.has_failed}


def _states(world: World) -> list[tuple[str, str]]:
    """Where everybody stands; how long somebody has been well is a matter of time alone."""
    return [("well" if target.state.is_well else target.state, target.id) for target in world.placed.values()]
