import pytest

from hermesops.errors import RefusedError
from hermesops.machines.image.machine_facts import survey
from hermesops.machines.image.machines import borrowed, remove
from hermesops.model.ids import MachineId
from hermesops.vendor.justavps import Machine, MachineOrder, MachineStatus
from hermesops.vendor.justavps.errors import LostChangeError, NotFoundError
from tests.support.images.build_world import World

ORDER = MachineOrder(name="hermes-local-build-0123456789ab", server_type="starter", region="hel1")


class SlowWorld(World):
    """A vendor that does not list a new machine at first, and then says it boots."""

    looks = 0

    async def get_machine(self, machine_id: str) -> Machine:
        self.looks += 1
        if self.looks == 1:
            raise NotFoundError("GET /machines", "no such machine", status=404)
        machine = await super().get_machine(machine_id)
        if self.looks == 2:
            return machine.model_copy(update={"status": MachineStatus.PROVISIONING, "provisioning_stage": "booting"})
        return machine


class HopelessWorld(World):
    async def get_machine(self, machine_id: str) -> Machine:
        return (await super().get_machine(machine_id)).model_copy(update={"status": MachineStatus.ERROR})


class DeafWorld(World):
    """A vendor whose first answer to a delete is lost, and the delete with it."""

    deaf = True

    async def delete_machine(self, machine_id: str) -> None:
        if self.deaf:
            self.deaf = False
            raise LostChangeError("DELETE /machines", "no answer")
        await super().delete_machine(machine_id)


async def test_a_machine_that_is_late_is_waited_for_and_told_of() -> None:
    world, reports = SlowWorld(), list[str]()
    async with borrowed(world, world.channel_to, ORDER, report=reports.append) as machine_id:
        assert machine_id in world.machines
    assert world.machines == {}
    assert [part for line in reports for part in ("not listed yet", "booting") if part in line] == [
        "not listed yet",
        "booting",
    ]


async def test_a_machine_the_vendor_gave_up_is_removed_at_once() -> None:
    world = HopelessWorld()
    with pytest.raises(RefusedError, match="gave machine"):
        async with borrowed(world, world.channel_to, ORDER, report=lambda _: None):
            pytest.fail("it must not be used")
    assert world.machines == {}


async def test_what_fails_on_a_machine_is_what_is_reported_and_the_machine_goes() -> None:
    world = World()
    with pytest.raises(RefusedError, match="no room"):
        async with borrowed(world, world.channel_to, ORDER, report=lambda _: None):
            raise RefusedError("no room")
    assert world.machines == {}


async def test_a_lost_answer_to_a_delete_is_asked_again() -> None:
    world = DeafWorld(machines={"m": Machine(id="m", name=ORDER.name, status=MachineStatus.READY)})
    await remove(world, {"m": ORDER.name})
    assert world.machines == {}


async def test_a_survey_names_base_and_packages_but_a_base_has_no_identity() -> None:
    world = World()
    surveyed = await survey(world.channel_to(MachineId("m")))
    assert (surveyed.machine_id, surveyed.debian["nftables"]) == ("m", "1.0.6")
    assert surveyed.base() == {"distribution": "debian", "version": "12", "architecture": "x86_64", "python": "3.11"}
