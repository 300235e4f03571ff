"""Orders to open a machine's sshd in the registry: what machines are answered, and what is kept of what they say."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.model.access.break_glass import BreakGlass
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, MachineId
from hermesops.store.registry import Registry
from hermesops.wire.documents.orders import Report, SshHost, SshReport
from tests.support.fakes.machines.polled_machine import HOST_KEY
from tests.support.real.stores.registries import TurnedClock, placed

ADDRESS = "10.0.0.7"
HERE, THERE = MachineId("m-1"), MachineId("m-2")
OTHER_KEY = HOST_KEY.replace("IPc0", "IPc1")


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return registry.instances.set_machine(placed(registry).id, HERE)


def ordered(registry: Registry, instance: Instance, order_id: str = "0" * 32, *, minutes: int = 30) -> BreakGlass:
    now = registry.now()
    order = BreakGlass(
        id=order_id,
        instance_id=instance.id,
        machine_id=HERE,
        text="text",
        signature="signature",
        source="192.0.2.7/32",
        host_key=HOST_KEY,
        who="",
        why="toolbox is cut",
        created_at=now,
        expires_at=now + timedelta(minutes=minutes),
    )
    return registry.break_glass.add(order)


def says(registry: Registry, ssh_report: SshReport | None, key: str = HOST_KEY) -> None:
    registry.break_glass.report(HERE, Report(SshHost(key, ADDRESS), ssh_report))


def actions(registry: Registry) -> list[str]:
    return [
        entry.action for entry in reversed(registry.audit.list()) if "glass" in entry.action or "ssh" in entry.action
    ]


def test_an_order_is_for_its_machine_alone_until_it_expires(
    registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    order = ordered(registry, ada)
    assert (order.who, order.state(registry.now())) == ("tester", "ordered")
    assert registry.break_glass.current(HERE, ada.id) == order
    assert registry.break_glass.current(THERE, ada.id) is None
    assert registry.break_glass.current(HERE, InstanceId(placed(registry, "bob").id)) is None
    assert registry.break_glass.current(HERE, None) is None
    clock.turn(1801)
    assert registry.break_glass.current(HERE, ada.id) is None
    assert order.state(registry.now()) == "expired"


def test_what_the_machine_says_is_kept_and_audited_once(registry: Registry, ada: Instance) -> None:
    order = ordered(registry, ada)
    is_open = SshReport(order.id, "open", address="10.0.0.7")
    for ssh_report in (None, is_open, is_open):
        says(registry, ssh_report)
    stored_order = registry.break_glass.get(order.id)
    assert (stored_order.address, stored_order.state(registry.now())) == ("10.0.0.7", "open")
    assert registry.break_glass.list_open() == (stored_order,)
    assert registry.break_glass.current(HERE, ada.id) == stored_order
    for _ in range(2):
        says(registry, None)
    closed = registry.break_glass.get(order.id)
    assert (closed.state(registry.now()), registry.break_glass.list_open()) == ("closed", ())
    assert registry.break_glass.current(HERE, ada.id) is None
    assert actions(registry) == [
        "break_glass_ordered",
        "ssh_host_key_reported",
        "break_glass_opened",
        "break_glass_closed",
    ]


@pytest.mark.parametrize("named", [True, False], ids=["by id", "an order that could not be read"])
def test_a_refused_order_says_why_and_is_handed_out_no_more(registry: Registry, ada: Instance, *, named: bool) -> None:
    order = ordered(registry, ada)
    says(registry, SshReport(order.id if named else "", "refused", "by nobody"))
    stored_order = registry.break_glass.get(order.id)
    assert (stored_order.state(registry.now()), stored_order.outcome) == ("refused", "by nobody")
    assert registry.break_glass.current(HERE, ada.id) is None
    assert actions(registry)[-1] == "break_glass_refused"


def test_it_is_ended_early_and_the_machine_confirms_that(registry: Registry, ada: Instance) -> None:
    order = ordered(registry, ada)
    says(registry, SshReport(order.id, "open", address="10.0.0.7"))
    assert [stored_order.id for stored_order in registry.break_glass.withdraw(ada.id, why="done")] == [order.id]
    assert registry.break_glass.withdraw(ada.id, why="done") == ()
    assert registry.break_glass.current(HERE, ada.id) is None
    assert [stored_order.id for stored_order in registry.break_glass.list_open()] == [
        order.id
    ]  # the machine has not said so yet
    says(registry, SshReport(order.id, "closed", "the access was ended early"))
    assert registry.break_glass.list_open() == ()
    assert registry.break_glass.get(order.id).outcome == "the access was ended early"
    assert actions(registry)[-2:] == ["break_glass_withdrawn", "break_glass_closed"]


def test_a_second_order_takes_the_place_of_the_first(registry: Registry, ada: Instance) -> None:
    first, second = ordered(registry, ada), ordered(registry, ada, "1" * 32)
    assert registry.break_glass.current(HERE, ada.id) == second
    assert [order.id for order in registry.break_glass.list(ada.id)] in ([second.id, first.id], [first.id, second.id])
    says(registry, SshReport(first.id, "open", address="10.0.0.7"))
    assert registry.break_glass.list_open() == ()


def test_nobody_speaks_for_another_machine(registry: Registry, ada: Instance) -> None:
    order = ordered(registry, ada)
    registry.break_glass.report(
        THERE, Report(SshHost(OTHER_KEY, ADDRESS), SshReport(order.id, "open", address="10.6.6.6"))
    )
    assert registry.break_glass.get(order.id) == order
    assert registry.break_glass.ssh_host(HERE) is None


def test_a_host_key_stays_for_an_hour_and_changes_are_audited(registry: Registry, clock: TurnedClock) -> None:
    for key in (HOST_KEY, OTHER_KEY, "", HOST_KEY):
        says(registry, None, key)
    assert registry.break_glass.ssh_host(HERE) == SshHost(HOST_KEY, ADDRESS)
    assert actions(registry) == ["ssh_host_key_reported"]
    clock.turn(3601)
    says(registry, None, OTHER_KEY)
    assert registry.break_glass.ssh_host(HERE) == SshHost(OTHER_KEY, ADDRESS)
    [_, changed] = [entry for entry in reversed(registry.audit.list()) if entry.action == "ssh_host_key_reported"]
    assert (changed.before, changed.after) == ({"key": HOST_KEY}, {"key": OTHER_KEY})


def test_a_machine_that_is_given_up_leaves_no_host_key(registry: Registry, ada: Instance) -> None:
    says(registry, None)
    registry.terminations.terminate(ada.id)
    assert registry.break_glass.ssh_host(HERE) is None


def test_an_order_keeps_the_host_key_of_when_it_was_made(registry: Registry, ada: Instance, clock: TurnedClock) -> None:
    order = ordered(registry, ada)
    clock.turn(60)
    says(registry, None, OTHER_KEY)
    assert replace(registry.break_glass.get(order.id), outcome="") == order
