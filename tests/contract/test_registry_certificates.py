"""Certificates of machines: one transaction each, on SQLite and on PostgreSQL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.cell import Placement
from hermesops.model.certificate import Certificate, KeyTakenError
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.instance import Instance
from hermesops.model.plan import Plan
from hermesops.model.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.registry import Registry
from hermesops.registry.repositories.credentials.certificates import MOST_AN_HOUR, OF_MACHINES
from hermesops.registry.schema.tables import certificates
from tests.support.real.registries import CELL, TurnedClock, placed

MACHINE = MachineId("m-1")
CLOCK = TurnedClock()
MADE = Certificate(
    "a1", "k" * 64, MACHINE, None, None, issued_at=CLOCK.timestamp, not_after=CLOCK.timestamp + timedelta(days=7)
)


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
    with pytest.raises(RefusedError, match="counts no more"):
        registry.certificates.add(replace(MADE, serial="b2"), renews="a1")
    (told,) = registry.certificates.list(MACHINE)
    assert (told.serial, told.why) == ("a1", "lost")


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
    with pytest.raises(KeyTakenError, match="m-2 asks with the key of machine m-1"):
        registry.certificates.add(replace(MADE, serial="b2", machine_id=MachineId("m-2")))
    registry.certificates.add(replace(MADE, serial="c3"))
    assert {one.serial for one in registry.certificates.list()} == {"a1", "c3"}


def test_a_machine_is_issued_so_many_an_hour(registry: Registry, clock: TurnedClock) -> None:
    registry.certificates.add(MADE)
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
    registry.certificates.add(replace(MADE, serial="b2", key="n" * 64, machine_id=MachineId("m-2")))
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
