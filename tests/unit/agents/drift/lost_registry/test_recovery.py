"""An orphan is adopted under the instance's lease, and removed only where no state is lost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hermesops.agents.drift.lost_registry.recovery import Orphans
from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.ids import InstanceId, MachineId, MachineName, instance_subject
from hermesops.model.recovery.recovered import Recovered
from hermesops.vendor.justavps.wire import Machine
from tests.support.fakes.parts import Leases, part
from tests.support.fleets.in_memory import machine_for, ordered, recovered

ORPHAN = machine_for(ordered(0))
TWIN = machine_for(ordered(0), id="m-9")


class World:
    """Machines that tell who they are, and a registry without rows of them."""

    def __init__(self, *claims: Recovered | Forgotten) -> None:
        self.told = {claim.machine_id: claim for claim in claims}
        self.asked: list[str] = []
        self.done: list[str] = []
        self.leases = Leases()
        self.is_store_away = False

    def orphans(self, *machines: Machine) -> Orphans:
        async def read(calls: Sequence[Machine]) -> list[Recovered | Forgotten]:
            self.asked += [machine.id for machine in calls]
            return [self.told[MachineId(machine.id)] for machine in calls]

        async def list_machines() -> list[Machine]:
            return list(machines)

        async def delete(machine_id: str) -> None:
            self.done.append(f"deleted {machine_id}")

        def recover(recovered: Recovered, **_: object) -> bool:
            self.done.append(f"recovered {recovered.id}")
            return True

        registry: Any = part(
            unassigned=part(list=list),
            fleet=part(list_ordered=list),
            instances=part(list=lambda **_: []),
            recovery=part(recover_instance=recover),
            audit=part(append=lambda action, *_, **__: self.done.append(action)),
        )
        client: Any = part(list_machines=list_machines, delete_machine=delete)

        async def take_back(instance_id: InstanceId) -> None:
            self.done.append(f"took back {instance_id}")
            if self.is_store_away:
                raise UnavailableError("the object store does not answer")

        return Orphans("local", registry, client, read, self.leases.hold, take_back)


async def test_an_orphan_is_found_by_its_name() -> None:
    orphans = World().orphans(ORPHAN)
    assert await orphans.find(ORPHAN.name) == ORPHAN
    with pytest.raises(UsageError, match="m-unknown"):
        await orphans.find("m-unknown")


async def test_an_instance_without_a_row_is_recovered_under_its_lease() -> None:
    world = World(recovered(0))
    assert (await world.orphans(ORPHAN).adopt(ORPHAN, reason="lost")).endswith("again")
    assert world.done == [f"recovered {recovered(0).id}", f"took back {recovered(0).id}"]
    assert world.leases.held == [instance_subject(recovered(0).id)]


async def test_of_two_that_claim_the_same_none_is_adopted_unless_an_operator_decides() -> None:
    world = World(recovered(0), replace(recovered(0), machine_id=MachineId(TWIN.id)))
    with pytest.raises(RefusedError, match="but others report the same"):
        await world.orphans(ORPHAN, TWIN).adopt(ORPHAN, reason="lost")
    await world.orphans(ORPHAN, TWIN).adopt(ORPHAN, reason="lost", contested=True)
    assert world.done == [f"recovered {recovered(0).id}", f"took back {recovered(0).id}"]


async def test_an_adoption_whose_recovery_record_is_out_of_reach_says_so() -> None:
    world = World(recovered(0))
    world.is_store_away = True
    assert "the object store does not answer" in await world.orphans(ORPHAN).adopt(ORPHAN, reason="lost")


async def test_the_only_copy_of_a_state_is_destroyed_only_when_that_is_named() -> None:
    world = World(recovered(0))
    with pytest.raises(RefusedError, match="on no other machine"):
        await world.orphans(ORPHAN).remove(ORPHAN, forget=False, reason="old")
    calls = list(world.asked)
    await world.orphans(ORPHAN).remove(ORPHAN, forget=True, reason="old")
    assert world.asked == calls, "a machine that is destroyed all the same need not answer"
    assert world.done == ["orphan_removed", f"deleted {ORPHAN.id}"]


async def test_a_machine_that_has_no_instance_is_removed() -> None:
    world = World(Forgotten(MachineId(ORPHAN.id), MachineName(ORPHAN.name), "no instance", is_nobodys=True))
    await world.orphans(ORPHAN).remove(ORPHAN, forget=False, reason="old")
    assert world.done[-1] == f"deleted {ORPHAN.id}"
