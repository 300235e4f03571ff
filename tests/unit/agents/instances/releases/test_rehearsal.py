"""To a release and back on a machine without an instance: what passes, and what is said of what does not."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hermesops.agents.instances.releases.rehearsal import NoRollbackError, walk
from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.slot import Activation, SlotsState
from hermesops.model.ids import MachineId
from hermesops.model.recovery.state import Part, State
from hermesops.model.rollout.release import ReleaseId
from tests.support.fakes.parts import part

MACHINE = MachineId("m")


OLD, NEW = (HandedOut(ReleaseId(name), part()) for name in ("1.0-a", "2.0-b"))


@dataclass
class World:
    """One machine.

    Attributes:
        problem: Why the new release does not run on it.
        stays: Whether it stays on the new one when it is told to go back.
        forgets: Whether the way back costs what was remembered.
        refusal: What it answers instead of going back.
    """

    current: ReleaseId = OLD.id
    problem: str = ""
    stays: bool = False
    forgets: bool = False
    refusal: str = ""
    remembers: State = field(default_factory=lambda: State({"sessions": Part(2, "two")}))
    done: list[str] = field(default_factory=list)
    is_silent: bool = False

    async def observe(self, machine_id: MachineId) -> SlotsState | None:
        assert machine_id == MACHINE
        return None if self.is_silent else SlotsState(self.current)

    async def deploy(self, machine_id: MachineId, bundle: HandedOut, *, python: str) -> Activation:
        del machine_id, python
        if self.problem:
            return Activation(bundle.id, problem=self.problem, stage="trial")
        self.done.append(f"bring {bundle.id}")
        self.current = bundle.id
        return Activation(bundle.id, rollback_method="in_place")

    async def roll_back(self, machine_id: MachineId, *, to: ReleaseId | None = None) -> object:
        del machine_id
        if self.refusal:
            raise RefusedError(self.refusal)
        if to and not self.stays:
            self.current = to
        if self.forgets:
            self.remembers = replace(self.remembers, parts={"sessions": Part(1, "one")})
        return None

    async def state(self, machine_id: MachineId) -> State | None:
        assert machine_id == MACHINE
        return self.remembers


async def test_there_and_back_with_all_that_was_remembered() -> None:
    world: Any = World()
    path = await walk(world, world, MACHINE, NEW, before=OLD)
    assert (world.current, world.done) == (OLD.id, [f"bring {NEW.id}"])
    assert "in_place" in path
    assert "2 sessions" in path


async def test_a_machine_on_something_else_makes_its_state_with_the_release_before_first() -> None:
    world: Any = World(current=ReleaseId("0.9-c"))
    await walk(world, world, MACHINE, NEW, before=OLD)
    assert world.done == [f"bring {OLD.id}", f"bring {NEW.id}"]


@pytest.mark.parametrize(("world", "words"), [
    (World(problem="no turn"), "trial: no turn"),
    (World(stays=True), "runs 2.0-b and not 1.0-a"),
    (World(forgets=True), "sessions: 2"),
    (World(refusal="3 rows would be lost"), "3 rows would be lost"),
], ids=("does not run", "stays", "forgets", "refuses"))  # fmt: skip
async def test_a_way_that_leads_nowhere_is_said_to(world: World, words: str) -> None:
    machine: Any = world
    with pytest.raises(NoRollbackError, match=words):
        await walk(machine, machine, MACHINE, NEW, before=OLD)


async def test_a_machine_that_does_not_answer_proves_nothing() -> None:
    world: Any = World(is_silent=True)
    with pytest.raises(UnavailableError, match="gives no answer"):
        await walk(world, world, MACHINE, NEW, before=OLD)
