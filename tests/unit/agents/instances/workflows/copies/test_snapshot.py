"""A snapshot is taken of a gateway at rest, once, wherever it is killed, and the agent lives afterwards."""

from dataclasses import dataclass, field, replace
from typing import Any

from hermesops.agents.instances.workflows.copies.snapshot import Snapshot
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, MachineId
from hermesops.vendor.justavps.wire import Image, ImageStatus, MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import SmallWorld

NAME = "hermes-local-snapshot-1"
WHOLE = ["Fence", "Save", "AwaitImage", "Release", "AwaitGateway"]


@dataclass
class Photographed(SmallWorld):
    """A world whose vendor saves disks, and refuses to do so of a gateway that writes."""

    saved: list[Image] = field(default_factory=list)
    fails: bool = False

    async def named(self, name: str) -> Image | None:
        return next((image for image in self.saved if image.name == name), None)

    async def save(self, machine_id: MachineId, name: str) -> None:
        assert machine_id == self.here().id
        assert (self.here().fenced, self.here().runs) == (True, False), "a disk saved while it was written to"
        self.saved.append(Image(id=f"image{len(self.saved)}", name=name, status=ImageStatus.CREATING))

    async def await_end(self, image_id: str) -> None:
        assert self.here().fenced, "a gateway started before the vendor had it all"
        end = {"status": ImageStatus.FAILED} if self.fails else {"status": ImageStatus.READY, "provider_image_id": "p"}
        self.saved = [image.model_copy(update=end) if image.id == image_id else image for image in self.saved]

    def work(self) -> Snapshot:
        snapshots: Any = self
        return Snapshot(InstanceId(self.instance.id), NAME, self.client, snapshots)


def lively(**changes: object) -> Photographed:
    world = Photographed.lively()
    assert isinstance(world, Photographed)
    for name, value in changes.items():
        setattr(world, name, value)
    return world


@each_case("after", [False, True], ids=["before", "after"])
@each_case("step", range(len(WHOLE)))
async def test_it_is_taken_once_wherever_it_is_killed(step: int, *, after: bool) -> None:
    world = lively()
    *_, outcome = await walk(world.work, killed_at=step, after=after)
    assert outcome == f"snapshot image0 of {world.instance.title}"
    assert len(world.saved) == 1
    assert (world.here().runs, world.here().fenced) == (True, False)


async def test_an_agent_that_has_not_lived_is_refused_as_that() -> None:
    world = lively()
    world.here().owner = None
    world.instance = replace(world.instance, status=InstanceStatus.PROVISIONING)
    assert await walk(world.work) == ["RefusedError: the agent of ada has not started yet"]


async def test_killed_between_taking_the_fence_away_and_starting_the_gateway_lives_again() -> None:
    world = lively()
    await walk(world.work)
    world.here().runs = False
    *_, outcome = await walk(world.work)
    assert outcome == f"snapshot image0 of {world.instance.title}"
    assert (world.here().runs, world.here().fenced) == (True, False)


async def test_one_that_the_vendor_cannot_take_leaves_a_living_agent() -> None:
    world = lively(fails=True)
    *_, outcome = await walk(world.work)
    assert outcome.startswith("RefusedError: JustAVPS could not save the disk")
    assert (world.here().runs, world.here().fenced) == (True, False)


async def test_who_sleeps_or_does_not_answer_is_left_alone() -> None:
    for status, words in ((InstanceStatus.SUSPENDED, "suspended"), (InstanceStatus.TERMINATED, "terminated")):
        world = lively()
        world.instance = replace(world.instance, status=status)
        [outcome] = await walk(world.work)
        assert words in outcome
    world = lively()
    world.here().status = MachineStatus.STOPPED
    [outcome] = await walk(world.work)
    assert "does not answer" in outcome
    assert world.saved == []
