"""A snapshot's name says whose it is, to its environment only."""

from uuid import uuid4

from hermesops.model.ids import CellName, InstanceId, OperationId, machine_name
from hermesops.model.image import owner_of, snapshot_name

INSTANCE, OPERATION = InstanceId(str(uuid4())), OperationId(str(uuid4()))


def test_the_owner_is_read_back_from_the_name() -> None:
    name = snapshot_name("my-staging", INSTANCE, OPERATION)
    assert owner_of(name, "my-staging") == INSTANCE
    assert owner_of(name, "local") is None
    assert name != snapshot_name("my-staging", INSTANCE, OperationId(str(uuid4())))


def test_no_other_name_is_a_snapshots() -> None:
    machine = machine_name("local", CellName("snapshot"), INSTANCE)
    assert [owner_of(name, "local") for name in ("hermes-base-0123456789ab", machine, "")] == [None] * 3
