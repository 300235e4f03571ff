"""Machines beside those of instances: every change of a row is one transaction, on SQLite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus, machine_subject
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId
from hermesops.model.operation import LeaseLostError
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.schema.tables import unassigned_machines
from tests.support.real.stores.registries import CELL, TurnedClock, placed, registry_at

pytestmark = pytest.mark.turns(7)

KEY = "canary-machine-7c1e"
OTHER = CellName("cell2")


def unassigned(
    registry: Registry,
    role: MachineRole = MachineRole.WARM,
    *,
    cell: CellName = CELL,
    plan: Plan = Plan.LIGHT,
    instance_id: InstanceId | None = None,
) -> UnassignedMachine:
    return registry.unassigned.place(
        role,
        plan=plan,
        server_type="basic",
        image_id=ImageId("i-2"),
        choose=lambda _cells: Placement(cell, "hel1", only_plan=None),
        instance_id=instance_id,
        why="test",
    )


def ready(registry: Registry, machine: UnassignedMachine, key: str = "") -> UnassignedMachine:
    registry.unassigned.set_machine(machine.name, MachineId(f"m-{machine.name[-4:]}"))
    return registry.unassigned.mark_ready(machine.name, api_server_key=key)


def claim(registry: Registry, alias: str, machine: UnassignedMachine) -> Instance | None:
    return registry.assignments.claim(registry.users.resolve(alias, create=True), machine.name, plan=Plan.LIGHT)


def machines(registry: Registry, cell: CellName = CELL) -> dict[str, str | None]:
    return {machine.name: machine.owner for machine in registry.cells.spec(cell).machines}


def test_a_cell_has_its_unassigned_machines_too(registry: Registry) -> None:
    ada, pooled = placed(registry), unassigned(registry)
    assert machines(registry) == {ada.machine_name: ada.id, pooled.name: None}
    assert registry.cells.get(CELL).machines == 2
    assert registry.cells.machines_to_delete(CELL) == frozenset()
    assert (pooled.status, pooled.machine_id, pooled.ready_at, pooled.epoch) == (
        UnassignedStatus.PREPARING,
        None,
        None,
        0,
    )
    assert registry.unassigned.retire(pooled.name, why="shrink")
    assert not registry.unassigned.retire(pooled.name)
    assert machines(registry) == {ada.machine_name: ada.id}
    assert registry.cells.machines_to_delete(CELL) == {pooled.name}
    assert registry.cells.get(CELL).machines == 2
    registry.unassigned.forget(pooled.name)
    registry.unassigned.forget(pooled.name)
    assert (registry.unassigned.list(), registry.cells.machines_to_delete(CELL)) == ((), frozenset())
    assert registry.cells.get(CELL).machines == 1


def test_a_machine_is_lent_to_a_drill_once_and_is_in_no_pool_afterwards(registry: Registry) -> None:
    pooled = ready(registry, unassigned(registry))
    assert registry.assignments.lend(pooled.name, None, why="rollout r1")
    assert not registry.assignments.lend(pooled.name, None, why="rollout r1")
    [lent] = registry.unassigned.list(role=MachineRole.DRILL)
    assert (lent.name, lent.instance_id, lent.status) == (pooled.name, None, UnassignedStatus.CLAIMED)
    assert claim(registry, "ada", pooled) is None
    assert registry.unassigned.retire(pooled.name)
    assert registry.cells.machines_to_delete(CELL) == {pooled.name}


def test_a_machine_that_is_wanted_is_not_forgotten(registry: Registry) -> None:
    pooled = unassigned(registry)
    with pytest.raises(RefusedError, match="retire it first"):
        registry.unassigned.forget(pooled.name)
    with pytest.raises(UsageError, match="no unassigned machine"):
        registry.unassigned.set_machine(placed(registry).machine_name, MachineId("m-1"))


def test_one_that_was_given_up_is_never_ready_again(registry: Registry) -> None:
    pooled = unassigned(registry)
    registry.unassigned.retire(pooled.name)
    with pytest.raises(RefusedError, match="draining"):
        ready(registry, pooled)


def test_one_that_was_lent_is_not_ready_for_the_pool_again(registry: Registry) -> None:
    pooled = ready(registry, unassigned(registry), KEY)
    assert registry.assignments.lend(pooled.name, None, why="rollout r1")
    with pytest.raises(RefusedError, match="is claimed and can no longer be taken"):
        registry.unassigned.mark_ready(pooled.name, api_server_key=KEY)
    [lent] = registry.unassigned.list()
    assert (lent.status, lent.role) == (UnassignedStatus.CLAIMED, MachineRole.DRILL)


def test_a_claim_makes_the_machine_its_users_and_nothing_of_the_cell_changes(registry: Registry) -> None:
    pooled = ready(registry, unassigned(registry), KEY)
    before = [
        (cell_machine.name, cell_machine.server_type, cell_machine.region, cell_machine.image_id)
        for cell_machine in registry.cells.spec(CELL).machines
    ]
    ada = claim(registry, "ada", pooled)
    assert ada
    assert (ada.machine_name, ada.machine_id, ada.cell, ada.epoch) == (pooled.name, f"m-{pooled.name[-4:]}", CELL, 1)
    assert registry.instance_secrets.api_server_key(ada.id) == KEY
    after = [
        (cell_machine.name, cell_machine.server_type, cell_machine.region, cell_machine.image_id)
        for cell_machine in registry.cells.spec(CELL).machines
    ]
    assert after == before
    assert machines(registry) == {ada.machine_name: ada.id}
    assert registry.unassigned.list() == ()
    assert registry.consistency.contradictions() == ()
    assert "machine_claimed" in [entry.action for entry in registry.audit.list(subject=machine_subject(pooled.name))]


def test_what_is_not_ready_or_given_up_or_taken_is_not_claimed(registry: Registry) -> None:
    growing, leaving, taken = (unassigned(registry) for _ in range(3))
    for machine in (leaving, taken):
        ready(registry, machine)
    registry.unassigned.retire(leaving.name)
    assert claim(registry, "eve", taken)
    assert [claim(registry, "ada", machine) for machine in (growing, leaving, taken)] == [None] * 3
    assert registry.unassigned.retire(taken.name) is False
    assert [instance.user_alias for instance in registry.instances.list()] == ["eve"]


def test_a_user_who_has_an_agent_leaves_the_machine_in_the_pool(registry: Registry) -> None:
    ada, pooled = placed(registry), ready(registry, unassigned(registry), KEY)
    assert claim(registry, "ada", pooled) == ada
    assert [machine.status for machine in registry.unassigned.list()] == [UnassignedStatus.READY]


def test_a_claim_under_a_lost_lease_changes_nothing(registry_url: str) -> None:
    clock = TurnedClock()
    registry = registry_at(registry_url, clock=clock)
    pooled = ready(registry, unassigned(registry))
    lease = registry.leases.take(machine_subject(pooled.name), "somebody")
    clock.turn(60)
    registry.leases.take(machine_subject(pooled.name), "another")
    with pytest.raises(LeaseLostError, match="is lost: another holds it now"):
        registry.assignments.claim(
            registry.users.resolve("ada", create=True), pooled.name, plan=Plan.LIGHT, lease=lease
        )
    assert registry.instances.list() == ()
    registry.close()


def test_computers_that_claim_and_shrink_at_once_share_no_machine(registry_url: str) -> None:
    computers = [registry_at(registry_url) for _ in range(4)]
    pool = [ready(computers[0], unassigned(computers[0])) for _ in range(6)]

    def work(number: int) -> None:
        registry = computers[number % 4]
        if number % 3 == 0:
            registry.unassigned.retire(pool[number % 6].name)
            return
        for machine in pool:
            if claim(registry, f"u{number}", machine):
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(24)))
    living = computers[0].instances.list()
    left = computers[0].unassigned.list()
    names = [*(machine.machine_name for machine in living), *(machine.name for machine in left)]
    assert sorted(names) == sorted(machine.name for machine in pool)
    assert computers[0].consistency.contradictions() == ()
    for computer in computers:
        computer.close()


def test_an_instance_has_one_next_machine(registry: Registry) -> None:
    ada = placed(registry)
    first = unassigned(registry, MachineRole.REPLACEMENT, cell=OTHER, instance_id=ada.id)
    assert unassigned(registry, MachineRole.REPLACEMENT, instance_id=ada.id) == first
    registry.unassigned.retire(first.name)
    assert unassigned(registry, MachineRole.REPLACEMENT, instance_id=ada.id).name != first.name


def test_a_cut_over_moves_the_instance_and_keeps_the_machine_before(registry: Registry) -> None:
    ada = placed(registry)
    registry.instances.set_machine(ada.id, MachineId("m-old"))
    key = registry.instance_secrets.api_server_key(ada.id)
    machine = ready(
        registry, unassigned(registry, MachineRole.REPLACEMENT, cell=OTHER, plan=Plan.HEAVY, instance_id=ada.id)
    )
    moved = registry.assignments.cut_over(ada.id, machine.name, why="move")
    assert (moved.machine_name, moved.machine_id, moved.cell) == (machine.name, machine.machine_id or "", OTHER)
    assert (moved.plan, moved.epoch, registry.instance_secrets.api_server_key(ada.id)) == (Plan.HEAVY, 2, key)
    assert registry.assignments.cut_over(ada.id, machine.name) == moved
    [previous] = registry.unassigned.list(instance_id=ada.id)
    assert (previous.role, previous.name, previous.machine_id, previous.cell) == (
        MachineRole.PREVIOUS,
        ada.machine_name,
        "m-old",
        CELL,
    )
    assert (previous.wanted, previous.status, previous.epoch) == (True, UnassignedStatus.CLAIMED, 1)
    assert machines(registry) == {ada.machine_name: ada.id}
    assert machines(registry, OTHER) == {machine.name: ada.id}
    assert registry.consistency.contradictions() == ()
    assert registry.unassigned.retire(previous.name, why="verified")
    assert registry.cells.machines_to_delete(CELL) == {ada.machine_name}


def test_a_machine_that_is_gone_is_not_kept(registry: Registry) -> None:
    ada, machine = placed(registry), ready(registry, unassigned(registry))
    registry.assignments.cut_over(ada.id, machine.name, keep_previous=False, why="restore")
    assert machines(registry) == {machine.name: ada.id}
    assert registry.cells.machines_to_delete(CELL) == {ada.machine_name}


def test_another_ones_machine_is_not_cut_over_to(registry: Registry) -> None:
    ada, eve = placed(registry), placed(registry, "eve")
    for machine in (
        ready(registry, unassigned(registry, MachineRole.REPLACEMENT, instance_id=eve.id)),
        unassigned(registry),
        unassigned(registry, MachineRole.REPLACEMENT, instance_id=ada.id),
    ):
        with pytest.raises(RefusedError, match="cannot take instance"):
            registry.assignments.cut_over(ada.id, machine.name)
    assert registry.instances.get(ada.id) == ada


def test_a_machine_that_was_given_up_is_not_cut_over_to(registry: Registry) -> None:
    ada = placed(registry)
    given_up = ready(registry, unassigned(registry, MachineRole.REPLACEMENT, instance_id=ada.id))
    assert registry.unassigned.retire(given_up.name)
    with pytest.raises(RefusedError, match="cannot take instance"):
        registry.assignments.cut_over(ada.id, given_up.name)
    assert registry.instances.get(ada.id) == ada
    assert registry.cells.machines_to_delete(CELL) == {given_up.name}


@pytest.mark.parametrize("how", ["instances.mark_for_deletion", "terminations.terminate"])
def test_what_an_instance_leaves_behind_goes_with_it(registry: Registry, how: str) -> None:
    ada, pooled = placed(registry), unassigned(registry)
    machine = ready(registry, unassigned(registry, MachineRole.REPLACEMENT, instance_id=ada.id))
    registry.assignments.cut_over(ada.id, machine.name)
    further = unassigned(registry, MachineRole.REPLACEMENT, cell=OTHER, instance_id=ada.id)
    attrgetter(how)(registry)(ada.id, why="terminate")
    wanted = [machine.name for machine in registry.unassigned.list() if machine.wanted]
    assert wanted == [pooled.name]
    assert {ada.machine_name} <= registry.cells.machines_to_delete(CELL)
    assert registry.cells.machines_to_delete(OTHER) == {further.name}


def test_an_instance_that_lives_on_keeps_what_it_was_on_before(registry: Registry) -> None:
    ada = placed(registry)
    machine = ready(registry, unassigned(registry, MachineRole.REPLACEMENT, instance_id=ada.id))
    registry.assignments.cut_over(ada.id, machine.name)
    registry.instances.leave_machine(ada.id, why="it is gone")
    assert not registry.instances.is_machine_wanted(ada.id)
    assert [machine.name for machine in registry.unassigned.list() if machine.wanted] == [ada.machine_name]


def test_no_key_of_an_unassigned_machine_is_readable_in_the_database(registry: Registry) -> None:
    pooled = ready(registry, unassigned(registry), KEY)
    with registry._database.reading() as connection:
        stored = str(connection.execute(unassigned_machines.select()).all())
    assert KEY not in stored
    assert KEY not in repr(pooled)
    assert KEY not in str(registry.audit.list())
