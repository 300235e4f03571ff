"""Whole rollouts told in text, for people to read when decisions change.

Run ``python -m tests.support.rollouts.transcripts``.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path

from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.operators.commands import OperatorCommand
from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.reports.explain import explain
from hermesops.model.fleet.instance import QuietHours
from hermesops.model.fleet.vitals import Liveness
from hermesops.model.rollout.records import Freeze, GateResult, RolloutState, TargetState
from hermesops.model.rollout.spec import HookGate
from tests.support.fakes.virtual_time import BEGAN
from tests.support.rollouts.world import QUICK, World, fleet

FOLDER = Path(__file__).parents[2] / "data" / "rollouts"


def good() -> World:
    """Twenty instances, one of which the release breaks, and one that is off."""
    world = World(fleet(20))
    world.machine_of(7).breaks = True
    world.machine_of(18).mute = True
    world.run()
    return world


def bad_for_all() -> World:
    """Two hundred, and none can run it."""
    world = World(fleet(200))
    for machine in world.machines.values():
        machine.breaks = True
    world.run()
    return world


def hurt_later() -> World:
    """Canaries that run it and then stop answering, one after the other."""
    world = World(fleet(40), replace(QUICK, soak_s=600))
    while not world.placed[world.nth(1).id].progress.on_release:
        world.run(for_s=5)
    for position in (0, 1):
        world.liveness_of[world.nth(position).id] = Liveness(answers=False, exercised=True)
    world.run()
    return world


def steered() -> World:
    """A hook that cannot tell, a stage that waits for a person, an operator who pauses, promotes and rolls back."""
    gates = replace(QUICK.gates, hooks=(HookGate("billing"),), manual_before=(3,))
    world = World(fleet(12), replace(QUICK, gates=gates))
    world.hooked = GateResult.INCONCLUSIVE
    _until(world, RolloutState.PAUSED)
    world.hooked = GateResult.PASS
    world.say(commands.resume(Records(world.rollout, ()), _said(world, "billing was restarted")))
    _until(world, RolloutState.PAUSED)
    world.say(commands.promote(Records(world.rollout, tuple(world.placed.values())), _said(world, "looks fine")))
    world.run(for_s=60)
    world.say(
        commands.roll_back(Records(world.rollout, tuple(world.placed.values())), _said(world, "it costs too much"))
    )
    world.run()
    return world


def hours() -> World:
    """A freeze, a window that closes, users at night and one who is busy."""
    targets = [
        replace(target, quiet=QuietHours(time(11), time(14)) if number % 5 == 2 else None)
        for number, target in enumerate(fleet(10))
    ]
    world = World(targets, replace(QUICK, windows=("Mon 12:00-13:00 UTC", "Mon 15:00-20:00 UTC")))
    world.frozen = [Freeze("f1", BEGAN, BEGAN + timedelta(minutes=50), "an incident", "ada")]
    world.machine_of(4).busy = "2 runs"
    world.run(for_s=4 * 3600)
    world.machine_of(4).busy = ""
    world.run()
    return world


TALES: dict[str, Callable[[], World]] = {
    "good": good,
    "bad_for_all": bad_for_all,
    "hurt_later": hurt_later,
    "steered": steered,
    "hours": hours,
}


def tell(world: World) -> str:
    """What was decided, when, and why."""
    lines: list[str] = []
    users = {target.id: target.facts.user for target in world.placed.values()}
    for explained in map(explain, world.events):
        passed = int((explained.at - BEGAN).total_seconds())
        clock = f"{passed // 3600:02}:{passed // 60 % 60:02}:{passed % 60:02}"
        lines.append(f"{clock} {explained.what}{f' | {explained.why}' if explained.why else ''}")
        lines += [f"           {line}" for line in explained.evidence]
    tried = [target for target in world.placed.values() if target.state is not TargetState.WAITING]
    lines += ["", *(f"{target.facts.user}: {target.state} {target.detail}".strip() for target in tried)]
    text = "\n".join(lines) + "\n"
    for instance_id, user in users.items():
        text = text.replace(instance_id, user)
    return text


def _until(world: World, state: RolloutState) -> None:
    while world.rollout.state is not state:
        world.run(for_s=30)


def _said(world: World, why: str) -> OperatorCommand:
    return OperatorCommand("bob", why, world.now)


def write() -> None:
    """Write them down anew; the difference is what is reviewed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in TALES.items():
        (FOLDER / f"{name}.txt").write_text(tell(make()))


if __name__ == "__main__":
    write()
