"""Certificates of machines: one transaction each, on SQLite and on PostgreSQL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.certificate import Certificate, KeyTakenError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.certificates import MOST_AN_HOUR, OF_MACHINES
from hermesops.store.registry.schema.tables import certificates
from tests.support.real.stores.registries import CELL, TurnedClock, placed

MACHINE = MachineId("m-1")
CLOCK = TurnedClock()
MADE = Certificate(
    "a1", "k" * 64, MACHINE, None, None, issued_at=CLOCK.timestamp, not_after=CLOCK.timestamp + timedelta(days=7)
)


def pooled(registry: Registry, machine_id: MachineId = MACHINE) -> UnassignedMachine:
    """A ready machine of the warm pool, with a certificate."""
    row = registry.unassigned.place(
        MachineRole.WARM,
        plan=Plan.LIGHT,
        server_type="basic",
        image_id=ImageId("i-2"),
        choose=lambda _cells: Placement(CELL, "hel1", only_plan=None),
        why="test",
    )
    registry.unassigned.set_machine(row.name, machine_id)
    registry.certificates.add(replace(MADE, machine_id=machine_id))
    return registry.unassigned.mark_ready(row.name, api_server_key="key")


def test_a_certificate_counts_until_it_runs_out(registry: Registry, clock: TurnedClock) -> None:
    registry.certificates.add(MADE)
    assert registry.certificates.find_valid("a1") == MADE
    assert registry.certificates.find_valid("b2") is None
    clock.turn(7 * 86400)
    assert registry.certificates.find_valid("a1") is None
    assert registry.certificates.find("a1") == MADE
    clock.turn(30 * 86400 + 1)
    registry.certificates.add(replace(MADE, serial="b2", not_after=clock.timestamp + timedelta(days=7)))
    assert registry.certificates.find("a1") is None


def test_a_revoked_one_counts_no_more_and_renews_nothing(registry: Registry) -> None:
    registry.certificates.add(MADE)
    assert registry.certificates.revoke(MACHINE, why="lost") == 1
    assert registry.certificates.revoke(MACHINE, why="again") == 0
    assert registry.certificates.find_valid("a1") is None
    with pytest.raises(RefusedError, match="is no longer valid"):
        registry.certificates.add(replace(MADE, serial="b2"), renews="a1")
    (certificate,) = registry.certificates.list(MACHINE)
    assert (certificate.serial, certificate.why) == ("a1", "lost")


def test_what_is_renewed_while_it_is_revoked_counts_no_more(registry: Registry) -> None:
    registry.certificates.add(MADE)
    with ThreadPoolExecutor(1) as others:
        with registry._database.writing() as renewing:
            OF_MACHINES.refuse_uncounted(renewing, "a1", CLOCK.timestamp)
            revoked = others.submit(registry.certificates.revoke, MACHINE, why="lost")
            assert not wait([revoked], timeout=1).done, "nothing kept it waiting"
            renewing.execute(certificates.insert().values(vars(replace(MADE, serial="b2"))))
        assert revoked.result(30) == 2
    assert registry.certificates.find_valid("b2") is None


def test_no_two_machines_have_one_key(registry: Registry) -> None:
    registry.certificates.add(MADE)
    with pytest.raises(KeyTakenError, match="m-2 requests a certificate with the key of machine m-1"):
        registry.certificates.add(replace(MADE, serial="b2", machine_id=MachineId("m-2")))
    registry.certificates.add(replace(MADE, serial="c3"))
    assert {certificate.serial for certificate in registry.certificates.list()} == {"a1", "c3"}


def test_a_machine_is_issued_so_many_an_hour(registry: Registry, clock: TurnedClock) -> None:
    pooled(registry)
    for number in range(MOST_AN_HOUR - 1):
        registry.certificates.add(replace(MADE, serial=f"b{number}"), renews="a1")
    with pytest.raises(UnavailableError, match="machine m-1 was issued 12 certificates within an hour"):
        registry.certificates.add(replace(MADE, serial="c3"), renews="a1")
    registry.certificates.add(replace(MADE, serial="d4"))
    clock.turn(3601)
    registry.certificates.add(replace(MADE, serial="c3"), renews="a1")


def test_the_first_authority_is_one_and_another_can_be_trusted_beside_it(
    registry: Registry, clock: TurnedClock
) -> None:
    assert registry.certificates.trust_authority("one", only_first=True)
    assert registry.certificates.trust_authority("one", only_first=True)
    assert not registry.certificates.trust_authority("two", only_first=True)
    clock.turn(1)
    assert registry.certificates.trust_authority("two")
    assert registry.certificates.list_authorities() == ("two", "one")


def on_a_machine(registry: Registry) -> Instance:
    instance = placed(registry)
    registry.instances.set_machine(instance.id, MACHINE)
    registry.certificates.add(replace(MADE, instance_id=instance.id, cell=instance.cell))
    return registry.instances.get(instance.id)


def next_of(registry: Registry, instance: Instance) -> UnassignedMachine:
    row = registry.unassigned.place(
        MachineRole.REPLACEMENT,
        plan=Plan.LIGHT,
        server_type="basic",
        image_id=ImageId("i-2"),
        choose=lambda _cells: Placement(CELL, "hel1", only_plan=None),
        instance_id=instance.id,
    )
    registry.unassigned.set_machine(row.name, MachineId("m-2"))
    own = replace(MADE, machine_id=MachineId("m-2"), instance_id=instance.id, cell=CELL)
    registry.certificates.add(replace(own, serial="b2", key="n" * 64))
    return row


def _moved(registry: Registry, instance: Instance) -> None:
    registry.assignments.cut_over(instance.id, next_of(registry, instance).name)
    assert registry.certificates.find_valid("b2")


def _ended(registry: Registry, instance: Instance) -> None:
    next_of(registry, instance)
    registry.terminations.terminate(instance.id)
    assert not registry.certificates.find_valid("b2")


def _left(registry: Registry, instance: Instance) -> None:
    registry.instances.leave_machine(instance.id)


def _given_up(registry: Registry, instance: Instance) -> None:
    row = next_of(registry, instance)
    registry.unassigned.retire(row.name)
    assert not registry.certificates.find_valid("b2")
    registry.instances.mark_for_deletion(instance.id)


@pytest.mark.parametrize("what", [_moved, _ended, _left, _given_up])
def test_a_machine_that_an_instance_leaves_proves_nothing_from_that_moment(
    registry: Registry, what: Callable[[Registry, Instance], None]
) -> None:
    instance = on_a_machine(registry)
    assert registry.certificates.find_valid("a1")
    what(registry, instance)
    assert registry.certificates.find_valid("a1") is None


def _claimed(registry: Registry, row: UnassignedMachine) -> Instance | None:
    return registry.assignments.claim(registry.users.resolve("bob", create=True), row.name, plan=Plan.LIGHT)


def _lent(registry: Registry, row: UnassignedMachine) -> Instance | None:
    registry.assignments.lend(row.name, None, why="drill")
    return None


def _moved_to(registry: Registry, row: UnassignedMachine) -> Instance | None:
    return registry.assignments.cut_over(placed(registry).id, row.name)


@pytest.mark.parametrize("assign", [_claimed, _lent, _moved_to])
def test_a_machine_that_was_nobodys_proves_nothing_by_that_from_the_moment_it_is_somebodys(
    registry: Registry, assign: Callable[[Registry, UnassignedMachine], Instance | None]
) -> None:
    row = pooled(registry)
    registry.certificates.add(replace(MADE, serial="b2"), renews="a1")
    instance = assign(registry, row)
    assert registry.certificates.list_revoked() == ["a1", "b2"]
    with pytest.raises(RefusedError, match="is no longer valid"):
        registry.certificates.add(replace(MADE, serial="c3"), renews="b2")
    if instance:
        own = replace(MADE, serial="d4", instance_id=instance.id, cell=instance.cell)
        with pytest.raises(KeyTakenError, match="the key of a former owner"):
            registry.certificates.add(own)
        registry.certificates.add(replace(own, key="n" * 64))
        registry.certificates.add(replace(own, serial="e5", key="n" * 64), renews="d4")


def test_a_certificate_of_a_former_role_is_not_renewed_even_where_nobody_revoked_it(registry: Registry) -> None:
    instance = on_a_machine(registry)
    own = replace(MADE, instance_id=instance.id, cell=instance.cell)
    for number, names in enumerate((MADE, replace(own, cell=None), replace(own, instance_id=None))):
        held = replace(names, serial=f"f{number}", key=f"{number}" * 64)
        registry.certificates.add(held)
        with pytest.raises(RefusedError, match="no longer belongs"):
            registry.certificates.add(replace(held, serial="x"), renews=held.serial)
    registry.certificates.add(replace(own, serial="y"), renews="a1")


def test_what_hermesops_of_before_gave_a_machine_with_its_old_key_is_still_renewed(registry: Registry) -> None:
    row = pooled(registry)
    instance = _claimed(registry, row)
    assert instance
    own = replace(MADE, serial="b2", instance_id=instance.id, cell=instance.cell)
    with registry._database.writing() as before:
        before.execute(certificates.insert().values(vars(own)))
    registry.certificates.add(replace(own, serial="c3"), renews="b2")
    assert registry.certificates.find_valid("c3")


def test_a_renewed_certificate_ends_those_before_it_once_it_is_shown(registry: Registry, clock: TurnedClock) -> None:
    pooled(registry)
    clock.turn(60)
    registry.certificates.add(replace(MADE, serial="b2"), renews="a1")
    assert registry.certificates.find_valid("a1"), "its answer may have been lost"
    (fresh, before) = registry.certificates.list(MACHINE)
    assert (fresh.serial, registry.certificates.supersede(before)) == ("b2", 0)
    assert registry.certificates.supersede(fresh) == 1
    assert registry.certificates.supersede(fresh) == 0
    assert registry.certificates.find_valid("b2")
    assert registry.certificates.list_revoked() == ["a1"]
