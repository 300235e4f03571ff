"""Keys of data volumes: told to their machine and its instance, sealed in the rows, destroyed with what they open."""

import pytest
import sqlalchemy as sa

from hermesops.access.pki.service import DataKeys
from hermesops.errors import RefusedError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.schema import tables
from tests.support.real.stores.registries import placed

VOLUME, OTHER = (f"5c0e0000-0000-4000-8000-00000000000{n}" for n in (1, 2))
HERE, THERE = MachineId("machine-1"), MachineId("machine-2")


@pytest.fixture
def keys(registry: Registry) -> DataKeys:
    return DataKeys(registry)


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return registry.instances.set_machine(placed(registry).id, HERE)


def test_a_machine_is_told_the_same_key_again_and_no_other_machine_is(keys: DataKeys) -> None:
    key = keys.release(VOLUME, HERE, None)
    assert len(key) >= 32
    assert keys.release(VOLUME, HERE, None) == key
    assert keys.release(OTHER, HERE, None) != key
    with pytest.raises(RefusedError, match="another machine's"):
        keys.release(VOLUME, THERE, None)


def test_a_volume_that_moved_with_its_instance_opens_there_and_is_nobody_elses(
    keys: DataKeys, registry: Registry, ada: Instance
) -> None:
    bea = placed(registry, "bea")
    key = keys.release(VOLUME, HERE, None)  # at the machine's first boot
    assert keys.release(VOLUME, HERE, ada.id) == key  # once it is somebody's
    assert keys.release(VOLUME, THERE, ada.id) == key  # a copy of its disk
    for machine in (HERE, THERE):
        with pytest.raises(RefusedError, match="another instance's"):
            keys.release(VOLUME, machine, bea.id)
    with pytest.raises(RefusedError, match="another machine's"):
        keys.release(VOLUME, HERE, None)


def test_a_key_is_sealed_and_said_nowhere(keys: DataKeys, registry: Registry) -> None:
    key = keys.release(VOLUME, HERE, None).decode()
    with registry._database.reading() as connection:
        rows = [connection.execute(sa.select(table)).all() for table in (tables.data_keys, tables.audit)]
    assert key not in str(rows)
    assert [entry.action for entry in registry.audit.list()] == ["data_key_made"]


@pytest.mark.parametrize("text", ["", "..", "5C0E0000-0000-4000-8000-000000000001", f"{VOLUME}\n", "x" * 36])
def test_what_is_no_volume_gets_no_key(keys: DataKeys, text: str) -> None:
    with pytest.raises(RefusedError, match="UUID"):
        keys.release(text, HERE, None)


def test_a_machine_cannot_fill_the_registry(keys: DataKeys) -> None:
    for number in range(4):
        keys.release(f"5c0e0000-0000-4000-8000-0000000001{number:02}", HERE, None)
    with pytest.raises(RefusedError, match="already"):
        keys.release(VOLUME, HERE, None)


def test_the_end_of_an_instance_destroys_what_opens_its_data(keys: DataKeys, registry: Registry, ada: Instance) -> None:
    keys.release(VOLUME, HERE, None)
    keys.release(OTHER, THERE, ada.id)
    registry.terminations.terminate(ada.id)
    for volume, machine in ((VOLUME, HERE), (OTHER, THERE)):
        with pytest.raises(RefusedError, match="destroyed"):
            keys.release(volume, machine, ada.id)
    with registry._database.reading() as connection:
        assert connection.execute(sa.select(tables.data_keys.c.key)).scalars().all() == [None, None]


def test_a_machine_that_is_given_up_takes_its_key_with_it(keys: DataKeys, registry: Registry, ada: Instance) -> None:
    row = registry.unassigned.place(
        MachineRole.REPLACEMENT,
        plan=Plan.LIGHT,
        server_type="starter",
        image_id=None,
        choose=lambda _cells: Placement(ada.cell, "hel1", only_plan=None),
        instance_id=ada.id,
        why="test",
    )
    registry.unassigned.set_machine(row.name, THERE)
    keys.release(OTHER, THERE, None)
    registry.unassigned.retire(row.name)
    with pytest.raises(RefusedError, match="destroyed"):
        keys.release(OTHER, THERE, None)
    keys.release(VOLUME, HERE, ada.id)
    registry.instances.leave_machine(ada.id)
    with pytest.raises(RefusedError, match="destroyed"):
        keys.release(VOLUME, HERE, InstanceId(ada.id))
