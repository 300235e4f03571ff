"""Machines beside those of instances: every change of a row is one transaction, on SQLite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.model.cell import Placement
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId
from hermesops.model.instance import Instance
from hermesops.model.operation import LeaseLostError
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, SpareStatus, spare_subject
from hermesops.registry import Registry
from hermesops.registry.schema.tables import spare_machines
from tests.support.real.registries import CELL, TurnedClock, placed, registry_at

pytestmark = pytest.mark.turns(3)

KEY = "canary-spare-7c1e"
OTHER = CellName("cell2")


def spare(
    registry: Registry,
    purpose: Purpose = Purpose.POOL,
    *,
    cell: CellName = CELL,
    plan: Plan = Plan.LIGHT,
    instance_id: InstanceId | None = None,
) -> Spare:
    return registry.spares.place(
        purpose,
        plan=plan,
        server_type="basic",
        image_id=ImageId("i-2"),
        choose=lambda _cells: Placement(cell, "hel1", only_plan=None),
        instance_id=instance_id,
        why="test",
    )


def ready(registry: Registry, made: Spare, key: str = "") -> Spare:
    registry.spares.set_machine(made.name, MachineId(f"m-{made.name[-4:]}"))
    return registry.spares.mark_ready(made.name, api_server_key=key)


def claim(registry: Registry, alias: str, made: Spare) -> Instance | None:
    return registry.assignments.claim(registry.users.resolve(alias, create=True), made.name, plan=Plan.LIGHT)


def machines(registry: Registry, cell: CellName = CELL) -> dict[str, str | None]:
    return {machine.name: machine.owner for machine in registry.cells.spec(cell).machines}


def test_a_cell_has_its_spare_machines_too(registry: Registry) -> None:
    ada, pooled = placed(registry), spare(registry)
    assert machines(registry) == {ada.machine_name: ada.id, pooled.name: None}
    assert registry.cells.get(CELL).machines == 2
    assert registry.cells.machines_to_delete(CELL) == frozenset()
    assert (pooled.status, pooled.machine_id, pooled.ready_at, pooled.epoch) == (SpareStatus.GROWING, None, None, 0)
    assert registry.spares.retire(pooled.name, why="shrink")
    assert not registry.spares.retire(pooled.name)
    assert machines(registry) == {ada.machine_name: ada.id}
    assert registry.cells.machines_to_delete(CELL) == {pooled.name}
    assert registry.cells.get(CELL).machines == 2
    registry.spares.forget(pooled.name)
    registry.spares.forget(pooled.name)
    assert (registry.spares.list(), registry.cells.machines_to_delete(CELL)) == ((), frozenset())
    assert registry.cells.get(CELL).machines == 1


def test_a_machine_is_lent_to_a_drill_once_and_is_in_no_pool_afterwards(registry: Registry) -> None:
    pooled = ready(registry, spare(registry))
    assert registry.assignments.lend(pooled.name, None, why="rollout r1")
    assert not registry.assignments.lend(pooled.name, None, why="rollout r1")
    [lent] = registry.spares.list(purpose=Purpose.DRILL)
    assert (lent.name, lent.instance_id, lent.status) == (pooled.name, None, SpareStatus.CLAIMED)
    assert claim(registry, "ada", pooled) is None
    assert registry.spares.retire(pooled.name)
    assert registry.cells.machines_to_delete(CELL) == {pooled.name}


def test_a_machine_that_is_wanted_is_not_forgotten(registry: Registry) -> None:
    pooled = spare(registry)
    with pytest.raises(RefusedError, match="retire it first"):
        registry.spares.forget(pooled.name)
    with pytest.raises(UsageError, match="no spare machine"):
        registry.spares.set_machine(placed(registry).machine_name, MachineId("m-1"))


def test_one_that_was_given_up_is_never_ready_again(registry: Registry) -> None:
    pooled = spare(registry)
    registry.spares.retire(pooled.name)
    with pytest.raises(RefusedError, match="draining"):
        ready(registry, pooled)


def test_one_that_was_lent_is_not_ready_for_the_pool_again(registry: Registry) -> None:
    pooled = ready(registry, spare(registry), KEY)
    assert registry.assignments.lend(pooled.name, None, why="rollout r1")
    with pytest.raises(RefusedError, match="is claimed: it is no longer one that could be taken"):
        registry.spares.mark_ready(pooled.name, api_server_key=KEY)
    [lent] = registry.spares.list()
    assert (lent.status, lent.purpose) == (SpareStatus.CLAIMED, Purpose.DRILL)


def test_a_claim_makes_the_machine_its_users_and_nothing_of_the_cell_changes(registry: Registry) -> None:
    pooled = ready(registry, spare(registry), KEY)
    before = [(one.name, one.server_type, one.region, one.image_id) for one in registry.cells.spec(CELL).machines]
    ada = claim(registry, "ada", pooled)
    assert ada
    assert (ada.machine_name, ada.machine_id, ada.cell, ada.epoch) == (pooled.name, f"m-{pooled.name[-4:]}", CELL, 1)
    assert registry.instance_secrets.api_server_key(ada.id) == KEY
    after = [(one.name, one.server_type, one.region, one.image_id) for one in registry.cells.spec(CELL).machines]
    assert after == before
    assert machines(registry) == {ada.machine_name: ada.id}
    assert registry.spares.list() == ()
    assert registry.consistency.contradictions() == ()
    assert "spare_claimed" in [entry.action for entry in registry.audit.list(subject=spare_subject(pooled.name))]


def test_what_is_not_ready_or_given_up_or_taken_is_not_claimed(registry: Registry) -> None:
    growing, leaving, taken = (spare(registry) for _ in range(3))
    for one in (leaving, taken):
        ready(registry, one)
    registry.spares.retire(leaving.name)
    assert claim(registry, "eve", taken)
    assert [claim(registry, "ada", one) for one in (growing, leaving, taken)] == [None] * 3
    assert registry.spares.retire(taken.name) is False
    assert [instance.user_alias for instance in registry.instances.list()] == ["eve"]


def test_a_user_who_has_an_agent_leaves_the_machine_in_the_pool(registry: Registry) -> None:
    ada, pooled = placed(registry), ready(registry, spare(registry), KEY)
    assert claim(registry, "ada", pooled) == ada
    assert [one.status for one in registry.spares.list()] == [SpareStatus.READY]


def test_a_claim_under_a_lost_lease_changes_nothing(registry_url: str) -> None:
    clock = TurnedClock()
    registry = registry_at(registry_url, clock=clock)
    pooled = ready(registry, spare(registry))
    lease = registry.leases.take(spare_subject(pooled.name), "somebody")
    clock.turn(60)
    registry.leases.take(spare_subject(pooled.name), "another")
    with pytest.raises(LeaseLostError, match="is lost: another holds it now"):
        registry.assignments.claim(
            registry.users.resolve("ada", create=True), pooled.name, plan=Plan.LIGHT, lease=lease
        )
    assert registry.instances.list() == ()
    registry.close()


def test_computers_that_claim_and_shrink_at_once_share_no_machine(registry_url: str) -> None:
    computers = [registry_at(registry_url) for _ in range(4)]
    pool = [ready(computers[0], spare(computers[0])) for _ in range(6)]

    def work(number: int) -> None:
        registry = computers[number % 4]
        if number % 3 == 0:
            registry.spares.retire(pool[number % 6].name)
            return
        for one in pool:
            if claim(registry, f"u{number}", one):
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(24)))
    living = computers[0].instances.list()
    left = computers[0].spares.list()
    names = [*(one.machine_name for one in living), *(one.name for one in left)]
    assert sorted(names) == sorted(one.name for one in pool)
    assert computers[0].consistency.contradictions() == ()
    for computer in computers:
        computer.close()


def test_an_instance_has_one_next_machine(registry: Registry) -> None:
    ada = placed(registry)
    first = spare(registry, Purpose.NEXT, cell=OTHER, instance_id=ada.id)
    assert spare(registry, Purpose.NEXT, instance_id=ada.id) == first
    registry.spares.retire(first.name)
    assert spare(registry, Purpose.NEXT, instance_id=ada.id).name != first.name


def test_a_cut_over_moves_the_instance_and_keeps_the_machine_before(registry: Registry) -> None:
    ada = placed(registry)
    registry.instances.set_machine(ada.id, MachineId("m-old"))
    key = registry.instance_secrets.api_server_key(ada.id)
    made = ready(registry, spare(registry, Purpose.NEXT, cell=OTHER, plan=Plan.HEAVY, instance_id=ada.id))
    moved = registry.assignments.cut_over(ada.id, made.name, why="move")
    assert (moved.machine_name, moved.machine_id, moved.cell) == (made.name, made.machine_id or "", OTHER)
    assert (moved.plan, moved.epoch, registry.instance_secrets.api_server_key(ada.id)) == (Plan.HEAVY, 2, key)
    assert registry.assignments.cut_over(ada.id, made.name) == moved
    [former] = registry.spares.list(instance_id=ada.id)
    assert (former.purpose, former.name, former.machine_id, former.cell) == (
        Purpose.FORMER,
        ada.machine_name,
        "m-old",
        CELL,
    )
    assert (former.wanted, former.status, former.epoch) == (True, SpareStatus.CLAIMED, 1)
    assert machines(registry) == {ada.machine_name: ada.id}
    assert machines(registry, OTHER) == {made.name: ada.id}
    assert registry.consistency.contradictions() == ()
    assert registry.spares.retire(former.name, why="verified")
    assert registry.cells.machines_to_delete(CELL) == {ada.machine_name}


def test_a_machine_that_is_gone_is_not_kept(registry: Registry) -> None:
    ada, made = placed(registry), ready(registry, spare(registry))
    registry.assignments.cut_over(ada.id, made.name, keep_former=False, why="restore")
    assert machines(registry) == {made.name: ada.id}
    assert registry.cells.machines_to_delete(CELL) == {ada.machine_name}


def test_another_ones_machine_is_not_cut_over_to(registry: Registry) -> None:
    ada, eve = placed(registry), placed(registry, "eve")
    for one in (
        ready(registry, spare(registry, Purpose.NEXT, instance_id=eve.id)),
        spare(registry),
        spare(registry, Purpose.NEXT, instance_id=ada.id),
    ):
        with pytest.raises(RefusedError, match="could be put on"):
            registry.assignments.cut_over(ada.id, one.name)
    assert registry.instances.get(ada.id) == ada


def test_a_machine_that_was_given_up_is_not_cut_over_to(registry: Registry) -> None:
    ada = placed(registry)
    given_up = ready(registry, spare(registry, Purpose.NEXT, instance_id=ada.id))
    assert registry.spares.retire(given_up.name)
    with pytest.raises(RefusedError, match="could be put on"):
        registry.assignments.cut_over(ada.id, given_up.name)
    assert registry.instances.get(ada.id) == ada
    assert registry.cells.machines_to_delete(CELL) == {given_up.name}


@pytest.mark.parametrize("how", ["instances.mark_for_deletion", "terminations.terminate"])
def test_what_an_instance_leaves_behind_goes_with_it(registry: Registry, how: str) -> None:
    ada, pooled = placed(registry), spare(registry)
    made = ready(registry, spare(registry, Purpose.NEXT, instance_id=ada.id))
    registry.assignments.cut_over(ada.id, made.name)
    further = spare(registry, Purpose.NEXT, cell=OTHER, instance_id=ada.id)
    attrgetter(how)(registry)(ada.id, why="terminate")
    wanted = [one.name for one in registry.spares.list() if one.wanted]
    assert wanted == [pooled.name]
    assert {ada.machine_name} <= registry.cells.machines_to_delete(CELL)
    assert registry.cells.machines_to_delete(OTHER) == {further.name}


def test_an_instance_that_lives_on_keeps_what_it_was_on_before(registry: Registry) -> None:
    ada = placed(registry)
    made = ready(registry, spare(registry, Purpose.NEXT, instance_id=ada.id))
    registry.assignments.cut_over(ada.id, made.name)
    registry.instances.leave_machine(ada.id, why="it is gone")
    assert not registry.instances.is_machine_wanted(ada.id)
    assert [one.name for one in registry.spares.list() if one.wanted] == [ada.machine_name]


def test_no_key_of_a_spare_machine_is_readable_in_the_database(registry: Registry) -> None:
    pooled = ready(registry, spare(registry), KEY)
    with registry._database.reading() as connection:
        stored = str(connection.execute(spare_machines.select()).all())
    assert KEY not in stored
    assert KEY not in repr(pooled)
    assert KEY not in str(registry.audit.list())
