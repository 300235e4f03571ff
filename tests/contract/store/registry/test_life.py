"""Plans, sleeps and the time before an end, on both databases."""

import pytest

from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed


def test_a_plan_is_changed_with_its_server_type(registry: Registry) -> None:
    ada = placed(registry)
    assert registry.instances.change_plan(ada.id, Plan.HEAVY, "basic", why="asked").plan is Plan.HEAVY
    (machine,) = registry.cells.spec(ada.cell).machines
    assert machine.server_type == "basic"
    entry = registry.audit.list(limit=1)[0]
    assert (entry.action, entry.why) == ("plan_changed", "asked")
    registry.instances.change_plan(ada.id, Plan.HEAVY, "basic")
    assert registry.audit.list(limit=1)[0].id == entry.id


def test_a_machine_is_wanted_until_it_is_given_up(registry: Registry) -> None:
    ada = placed(registry)
    assert registry.instances.is_machine_wanted(ada.id)
    registry.instances.mark_for_deletion(ada.id)
    assert not registry.instances.is_machine_wanted(ada.id)


def test_who_is_not_had_back_in_time_is_past_grace(registry: Registry, clock: TurnedClock) -> None:
    ada, until = placed(registry), registry.now()
    asleep = registry.instances.begin_grace(ada.id, until, why="cancelled")
    assert (asleep.status, asleep.grace_until) == (InstanceStatus.SUSPENDED, until)
    clock.turn(1)
    assert [instance.id for instance in registry.instances.past_grace()] == [ada.id]


def test_who_is_had_back_has_no_end_before_them(registry: Registry, clock: TurnedClock) -> None:
    ada, until = placed(registry), registry.now()
    registry.instances.begin_grace(ada.id, until)
    assert registry.instances.set_status(ada.id, InstanceStatus.RUNNING).grace_until is None
    clock.turn(1)
    assert registry.instances.past_grace() == ()


def test_what_has_ended_neither_sleeps_nor_changes_its_plan(registry: Registry) -> None:
    ada = placed(registry)
    registry.terminations.terminate(ada.id)
    with pytest.raises(RefusedError, match="terminated for good"):
        registry.instances.begin_grace(ada.id, registry.now())
    with pytest.raises(RefusedError, match="terminated for good"):
        registry.instances.change_plan(ada.id, Plan.HEAVY, "basic")
    assert registry.instances.past_grace() == ()
