"""The state of the fleet, and of a part of it, alike on SQLite and PostgreSQL."""

from datetime import timedelta

import pytest

from hermesops.agents.health.fleet_status import Fleet, at_rest
from hermesops.errors import UsageError
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.selector import Selector
from hermesops.model.operation import OperationKind
from hermesops.settings.fields import Settings
from hermesops.store.operations.leases.holder import this_process
from hermesops.store.registry import Registry
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import TurnedClock, placed

ALL = frozenset(Condition)


def running(registry: Registry, user: str) -> Instance:
    return registry.instances.set_status(placed(registry, user).id, InstanceStatus.RUNNING)


@pytest.fixture
def fleet(registry: Registry) -> Fleet:
    settings = Settings.model_validate({})
    return Fleet(registry, settings.monitoring, settings.data_gb)


def test_a_part_of_the_fleet_shows_only_what_is_of_it(registry: Registry, fleet: Fleet, clock: TurnedClock) -> None:
    ada, bob = running(registry, "ada"), running(registry, "bob")
    for instance in (ada, bob):
        registry.operations.open(OperationKind.RESTART, f"instance/{instance.id}", instance_id=instance.id, intent={})
    registry.leases.take(f"instance/{ada.id}", this_process(), over="")
    registry.instances.begin_grace(bob.id, clock() + timedelta(days=7))
    registry.freezes.set(begins_at=None, ends_at=None, reason="quarter end")
    registry.freezes.set(begins_at=clock() + timedelta(days=1), ends_at=None, reason="to come")
    whole = fleet.status(Selector({}), ALL)
    assert [judged.instance.user for judged in whole.instances] == ["ada"]
    assert ([operation.instance_id for operation in whole.stopped], whole.at_work) == ([bob.id], 1)
    assert [instance.id for instance in whole.ending] == [bob.id]
    assert [freeze.reason for freeze in whole.freezes] == ["quarter end"]
    assert whole.loss is not None
    part_ = fleet.status(fleet.selector("user=ada"), ALL)
    assert ([*part_.stopped], part_.at_work) == ([], 1)
    assert (part_.ending, part_.loss) == ((), None)
    assert part_.health.ids == {ada.id}
    assert not fleet.status(fleet.selector("user=ada"), frozenset({Condition.DOWN})).instances


def test_a_user_or_cell_that_is_not_there_is_refused(registry: Registry, fleet: Fleet) -> None:
    running(registry, "ada")
    for where, problem in {"user=bob": "bob", "cell=cell9": "cell9", "colour=red": "colour"}.items():
        with pytest.raises(UsageError, match=problem):
            fleet.selector(where)


def test_an_operation_that_no_process_works_on_has_stopped() -> None:
    stopped, held = part(subject="instance/a"), part(subject="instance/b")
    assert at_rest([stopped, held], {"instance/b", "stack/c"}) == ((stopped,), 1)
