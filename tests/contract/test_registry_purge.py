"""A purged world's rows, on both databases: all that tells of its machines ends at once, and the audit stays whole."""

from dataclasses import dataclass

import pytest

from hermesops.model.backup import Backup
from hermesops.model.cell import Placement
from hermesops.model.ids import ImageId, MachineId, instance_subject
from hermesops.model.instance import Instance
from hermesops.model.operation import Lease, LeaseLostError, Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.rollout import Rollout, RolloutState
from hermesops.model.spare import Purpose
from hermesops.model.state import State
from hermesops.registry import Registry
from hermesops.registry.transactions.purge import Fleet
from tests.support.registries import CELL, placed
from tests.support.rollouts import started

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
    registry.set_machine(ada.id, MachineId("m-ada"))
    registry.make_repository(ada.id, "repository-password")
    registry.note_backup(Backup("b1", ada.id, registry.now(), "daily", 1, 1, State({})))
    registry.mark_terminated(bob.id)
    registry.record_image(ImageId("i1"), name="hermes-base", digest="d")
    spare = registry.place_spare(
        Purpose.POOL,
        plan=Plan.LIGHT,
        server_type="starter",
        image_id=None,
        choose=lambda _cells: Placement(CELL, "hel1", only_plan=None),
    )
    registry.set_spare_machine(spare.name, MachineId("m-spare"))
    registry.record_brought(CELL)
    subject = instance_subject(ada.id)
    operation = registry.open_operation(OperationKind.BACKUP, subject, intent={}, instance_id=ada.id)
    return Known(ada, started(registry, ada), operation, registry.take_lease(subject, "a worker"))


def test_all_of_it_ends_and_the_audit_says_so(registry: Registry, known: Known) -> None:
    assert registry.known_machines() == {"m-ada", "m-spare"}
    ended = registry.purge_fleet(with_backups=True, why=WHY)
    assert ended == Fleet(instances=1, spares=1, images=1, backups=1, operations=2, rollouts=1)
    assert registry.count_fleet() == NOTHING
    assert registry.known_machines() == frozenset()
    assert (registry.list_instances(), registry.list_spares(), registry.list_images()) == ((), (), ())
    assert registry.cell_spec(CELL).machines == ()
    assert registry.get_cell(CELL).brought_at is None
    assert registry.latest_image("hermes-base") is None
    assert registry.repository_keys(known.ada.id) is None
    assert registry.get_operation(known.operation.id).status is OperationStatus.ABANDONED
    assert registry.rollout_state(known.rollout.id) is RolloutState.ABORTED
    assert registry.rollout_events(known.rollout.id)[-1].decision == {"why": WHY}
    with pytest.raises(LeaseLostError, match=instance_subject(known.ada.id)):
        registry.record_problem(known.operation.id, "late", lease=known.lease)
    entries = [(entry.action, entry.why, entry.before) for entry in registry.list_audit(subject="world")]
    assert entries == [("world_purged", WHY, vars(ended))]
    assert registry.check_audit().findings == ()


def test_users_begin_anew_and_what_is_not_of_machines_stays(registry: Registry, known: Known) -> None:
    users = registry.list_users()
    registry.purge_fleet(with_backups=True, why=WHY)
    assert registry.list_users() == users
    again = placed(registry, "ada")
    assert (again.id != known.ada.id, again.user_id, again.machine_id) == (True, known.ada.user_id, None)
    started(registry, again, rollout_id="r2")


def test_backups_in_another_bucket_stay_with_what_opens_them(registry: Registry, known: Known) -> None:
    assert registry.purge_fleet(with_backups=False, why=WHY).backups == 0
    assert [backup.id for backup in registry.list_backups(known.ada.id)] == ["b1"]
    keys = registry.repository_keys(known.ada.id)
    assert keys is not None
    assert registry.purge_fleet(with_backups=False, why=WHY) == NOTHING


@pytest.mark.usefixtures("known")
def test_a_second_purge_writes_nothing(registry: Registry) -> None:
    registry.purge_fleet(with_backups=True, why=WHY)
    before = registry.list_audit(limit=1)
    assert registry.purge_fleet(with_backups=True, why=WHY) == NOTHING
    assert registry.list_audit(limit=1) == before
