"""A purged world's rows, on both databases: all that tells of its machines ends at once, and the audit stays whole."""

from dataclasses import dataclass

import pytest

from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.ids import ImageId, MachineId, instance_subject
from hermesops.model.operation import Lease, LeaseLostError, Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.model.rollout.records import Rollout, RolloutState
from hermesops.store.registry import Registry
from hermesops.store.registry.transactions.purge import Fleet
from tests.support.real.stores.registries import CELL, placed
from tests.support.rollouts.rows import started

WHY = "the local world was purged"
NOTHING = Fleet(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Known:
    """What the registry knows of a world."""

    ada: Instance
    rollout: Rollout
    operation: Operation
    lease: Lease


@pytest.fixture
def known(registry: Registry) -> Known:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    registry.instances.set_machine(ada.id, MachineId("m-ada"))
    registry.backups.make_repository(ada.id, "repository-password")
    registry.backups.record(Backup("b1", ada.id, registry.now(), "daily", 1, 1, State({})))
    registry.terminations.terminate(bob.id)
    registry.images.record(ImageId("i1"), name="hermes-base", digest="d")
    row = registry.unassigned.place(
        MachineRole.WARM,
        plan=Plan.LIGHT,
        server_type="starter",
        image_id=None,
        choose=lambda _cells: Placement(CELL, "hel1", only_plan=None),
    )
    registry.unassigned.set_machine(row.name, MachineId("m-warm"))
    registry.cells.record_applied(CELL)
    subject = instance_subject(ada.id)
    operation = registry.operations.open(OperationKind.BACKUP, subject, intent={}, instance_id=ada.id)
    return Known(ada, started(registry, ada), operation, registry.leases.take(subject, "a worker"))


def test_all_of_it_ends_and_the_audit_says_so(registry: Registry, known: Known) -> None:
    assert registry.world.known_machines() == {"m-ada", "m-warm"}
    ended = registry.world.purge(with_backups=True, why=WHY)
    assert ended == Fleet(instances=1, unassigned=1, images=1, backups=1, operations=2, rollouts=1)
    assert registry.world.count() == NOTHING
    assert registry.world.known_machines() == frozenset()
    assert (registry.instances.list(), registry.unassigned.list(), registry.images.list()) == ((), (), ())
    assert registry.cells.spec(CELL).machines == ()
    assert registry.cells.get(CELL).applied_at is None
    assert registry.images.latest("hermes-base") is None
    assert registry.backups.repository_keys(known.ada.id) is None
    assert registry.operations.get(known.operation.id).status is OperationStatus.ABANDONED
    assert registry.rollouts.state(known.rollout.id) is RolloutState.ABORTED
    assert registry.rollout_events.list(known.rollout.id)[-1].decision == {"why": WHY}
    with pytest.raises(LeaseLostError, match=instance_subject(known.ada.id)):
        registry.operations.record_problem(known.operation.id, "late", lease=known.lease)
    entries = [(entry.action, entry.why, entry.before) for entry in registry.audit.list(subject="world")]
    assert entries == [("world_purged", WHY, vars(ended))]
    assert registry.audit.check().findings == ()


def test_users_begin_anew_and_what_is_not_of_machines_stays(registry: Registry, known: Known) -> None:
    users = registry.users.list()
    registry.world.purge(with_backups=True, why=WHY)
    assert registry.users.list() == users
    again = placed(registry, "ada")
    assert (again.id != known.ada.id, again.user_id, again.machine_id) == (True, known.ada.user_id, None)
    started(registry, again, rollout_id="r2")


def test_backups_in_another_bucket_stay_with_what_opens_them(registry: Registry, known: Known) -> None:
    assert registry.world.purge(with_backups=False, why=WHY).backups == 0
    assert [backup.id for backup in registry.backups.list(known.ada.id)] == ["b1"]
    keys = registry.backups.repository_keys(known.ada.id)
    assert keys is not None
    assert registry.world.purge(with_backups=False, why=WHY) == NOTHING


@pytest.mark.usefixtures("known")
def test_a_second_purge_writes_nothing(registry: Registry) -> None:
    registry.world.purge(with_backups=True, why=WHY)
    before = registry.audit.list(limit=1)
    assert registry.world.purge(with_backups=True, why=WHY) == NOTHING
    assert registry.audit.list(limit=1) == before
