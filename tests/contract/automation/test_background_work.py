"""Whether workers and a monitor are there, by rows of operations and leases, on both databases."""

from datetime import timedelta

from hermesops.model.operation import MONITOR_SUBJECT, BackgroundWork, OperationKind, OperationStatus, job_subject
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

NOBODY = BackgroundWork(0, None, is_attended=False, monitor="", backups_at=None)


def test_nothing_is_there_in_a_new_registry(registry: Registry) -> None:
    assert registry.operations.background() == NOBODY


def test_an_operation_that_nobody_takes_waits_after_a_minute(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry, "ada")
    opened = registry.operations.open(OperationKind.RESTART, f"instance/{ada.id}", instance_id=ada.id)
    assert registry.operations.background() == NOBODY
    clock.turn(61)
    work = registry.operations.background()
    assert (work.waiting, work.waiting_since, work.is_attended) == (1, opened.created_at, False)
    registry.operations.finish(opened.id, OperationStatus.DONE, outcome="restarted")
    assert registry.operations.background() == NOBODY


def test_one_that_failed_waits_for_its_next_turn_before_it_counts(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry, "ada")
    subject = f"instance/{ada.id}"
    registry.operations.open(OperationKind.RESTART, subject, instance_id=ada.id)
    lease = registry.leases.take(subject, "h:1:aa.1.bb")
    assert registry.operations.background().is_attended
    registry.leases.release(lease)
    clock.turn(300)
    assert registry.operations.background() == NOBODY
    clock.turn(40)
    assert registry.operations.background().waiting == 1


def test_one_that_is_worked_on_shows_that_others_wait_for_their_turn(registry: Registry, clock: TurnedClock) -> None:
    for name in ("ada", "bob"):
        instance = placed(registry, name)
        registry.operations.open(OperationKind.RESTART, f"instance/{instance.id}", instance_id=instance.id)
    clock.turn(120)
    registry.leases.take(f"instance/{placed(registry, 'ada').id}", "h:1:aa.1.bb")
    work = registry.operations.background()
    assert (work.waiting, work.is_attended) == (1, True)


def test_a_monitor_acts_while_it_renews_its_lease(registry: Registry, clock: TurnedClock) -> None:
    registry.leases.take(MONITOR_SUBJECT, "host-1:1:aa.1.bb")
    assert registry.operations.background().monitor == "host-1:1:aa.1.bb"
    clock.turn(20)
    assert registry.operations.background().monitor == ""


def test_the_last_turn_of_the_job_of_backups_is_told_by_its_lease(registry: Registry, clock: TurnedClock) -> None:
    lease = registry.leases.take(job_subject("backups"), "h:1:aa.1.bb")
    assert registry.operations.background().backups_at == registry.now()
    registry.leases.release(lease)
    ended = registry.now()
    clock.turn(3600)
    assert registry.operations.background().backups_at == ended
    assert registry.now() - ended == timedelta(hours=1)
