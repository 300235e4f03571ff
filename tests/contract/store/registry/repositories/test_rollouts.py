"""Rollouts are kept alike in both databases: written whole, held alone, changed only from where they stand."""

from dataclasses import replace
from datetime import time, timedelta

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import QuietHours
from hermesops.model.operation import LeaseLostError, OperationKind
from hermesops.model.rollout.records import (
    OperatorDecisions,
    Progress,
    RolloutEvent,
    RolloutState,
    RolloutTarget,
    TargetState,
    rollout_subject,
)
from hermesops.model.rollout.spec import Action, FailureGate, Gates, HookGate, Spec
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed
from tests.support.rollouts.rows import AT, NEW, OLD, ROLLOUT, STARTED_ROW, started, target_of

HALTED = RolloutEvent(AT, "halt", {"why": "two failed"}, {"failures": 2, "touched": 3})


def test_a_rollout_is_read_as_it_was_written(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    spec = Spec(
        stages=(0.5, 1.0),
        windows=("Mon-Fri 09:00-17:00 Europe/Berlin",),
        gates=Gates(failures=FailureGate(alpha=0.02), hooks=(HookGate("mine"),), manual_before=(2,)),
    )
    facts = replace(target_of(ada).facts, opted_in=True, quiet=QuietHours(time(22), time(7), "Asia/Tokyo"))
    targets = [replace(target_of(ada), facts=facts), target_of(bob, 1, stage=1)]
    written = replace(ROLLOUT, spec=spec, decisions=OperatorDecisions(promoted=1, forgiven_at=AT))
    operation = registry.rollouts.add(written, targets, STARTED_ROW)
    assert (operation.kind, operation.subject) == (OperationKind.ROLLOUT, rollout_subject(written.id))
    assert registry.rollouts.get(written.id) == written
    assert registry.rollout_targets.list(written.id) == tuple(targets)
    assert registry.rollout_events.list(written.id) == (replace(STARTED_ROW, id=1),)
    assert registry.rollouts.reopen_operation(written) == operation


def test_a_rollout_is_found_by_its_beginning_or_as_the_one_under_way(registry: Registry, clock: TurnedClock) -> None:
    with pytest.raises(UsageError, match="there is no rollout yet"):
        registry.rollouts.find("")
    first = started(registry, placed(registry, "ada"), rollout_id="aa1")
    clock.turn(1)
    second = started(registry, placed(registry, "bob"), rollout_id="aa2")
    assert registry.rollouts.find("").id == second.id
    registry.rollouts.change(second, replace(second, state=RolloutState.DONE), HALTED)
    assert registry.rollouts.find("").id == first.id
    assert [rollout.id for rollout in registry.rollouts.list(unfinished=True)] == [first.id]
    with pytest.raises(UsageError, match="2 rollouts begin"):
        registry.rollouts.find("aa")


def test_an_instance_is_in_one_unfinished_rollout(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    first = started(registry, ada)
    with pytest.raises(RefusedError, match=r"rollout r1 has not ended and has 1 of these instances: ada"):
        started(registry, ada, bob, rollout_id="r2")
    assert [rollout.id for rollout in registry.rollouts.list()] == [first.id]
    started(registry, bob, rollout_id="r3")
    registry.rollouts.change(first, replace(first, state=RolloutState.ABORTED), HALTED)
    started(registry, ada, rollout_id="r4")


def test_the_database_itself_lets_no_two_hold_one_instance(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = placed(registry, "ada")
    started(registry, ada)
    monkeypatch.setattr("hermesops.store.registry.repositories.rollouts.rollout._refuse_held", lambda *_: None)
    with pytest.raises(Exception, match="refused a write"):
        started(registry, ada, rollout_id="r2")


def test_a_state_is_changed_only_from_where_it_stands(registry: Registry) -> None:
    rollout = started(registry, placed(registry))
    halted = replace(rollout, state=RolloutState.HALTED, reason="two failed", decisions=OperatorDecisions(approved=2))
    for another in (
        replace(rollout, state=RolloutState.RUNNING),
        replace(rollout, decisions=OperatorDecisions(promoted=1)),
    ):
        assert not registry.rollouts.change(another, halted, HALTED)
    assert registry.rollouts.change(rollout, halted, HALTED)
    assert not registry.rollouts.change(rollout, halted, HALTED)
    now = registry.rollouts.get(rollout.id)
    assert (now.state, now.reason, now.decisions) == (RolloutState.HALTED, "two failed", OperatorDecisions(approved=2))
    assert registry.rollouts.state(rollout.id) is RolloutState.HALTED
    assert [event.kind for event in registry.rollout_events.list(rollout.id)] == ["start", "halt"]
    assert registry.rollout_events.latest(rollout.id)["halt"].evidence == {"failures": 2, "touched": 3}


def test_one_that_had_ended_holds_its_instances_again_when_it_goes_on(registry: Registry) -> None:
    ada = placed(registry)
    first = started(registry, ada)
    done = replace(first, state=RolloutState.DONE)
    registry.rollouts.change(first, done, HALTED)
    back = replace(done, state=RolloutState.ROLLING_BACK)
    [target] = registry.rollout_targets.list(first.id)
    moved = replace(target, state=TargetState.SOAKING, progress=Progress(on_release=True))
    second = started(registry, ada, rollout_id="r2")
    with pytest.raises(RefusedError, match="rollout r2 has not ended"):
        registry.rollouts.change(done, back, HALTED, targets=[moved])
    assert registry.rollout_targets.list(first.id) == (target,)
    registry.rollouts.change(second, replace(second, state=RolloutState.ABORTED), HALTED)
    assert registry.rollouts.change(done, back, HALTED, targets=[moved])
    assert registry.rollout_targets.list(first.id) == (moved,)
    with pytest.raises(RefusedError, match="rollout r1 has not ended"):
        started(registry, ada, rollout_id="r3")


def test_a_target_is_moved_and_says_which_release_runs(registry: Registry) -> None:
    ada = placed(registry)
    rollout = started(registry, ada)
    [target] = registry.rollout_targets.list(rollout.id)
    later = AT + timedelta(minutes=1)
    moved = replace(
        target,
        state=TargetState.SOAKING,
        touched_at=AT,
        updated_at=later,
        detail="confirmed",
        progress=Progress(last_before="x", confirmed_at=later, on_release=True),
    )
    registry.rollout_targets.put(rollout.id, [moved])
    assert registry.rollout_targets.list(rollout.id) == (moved,)
    assert registry.rollout_targets.instance_releases() == {ada.id: NEW}
    registry.rollout_targets.put(rollout.id, [replace(moved, state=TargetState.ROLLED_BACK, progress=Progress())])
    assert registry.rollout_targets.instance_releases() == {ada.id: OLD}


def test_an_image_is_no_release_that_an_agent_runs(registry: Registry) -> None:
    ada = placed(registry)
    registry.rollout_targets.record_releases({ada.id: OLD})
    rollout = started(registry, ada, action=Action.MACHINE)
    [target] = registry.rollout_targets.list(rollout.id)
    there = replace(target, state=TargetState.SOAKING, progress=Progress(on_release=True))
    registry.rollout_targets.put(rollout.id, [there])
    registry.rollout_targets.put(rollout.id, [replace(there, state=TargetState.ROLLED_BACK, progress=Progress())])
    registry.rollouts.change(rollout, replace(rollout, state=RolloutState.HALTED), HALTED, targets=[there])
    assert registry.rollout_targets.instance_releases() == {ada.id: OLD}


def test_whoever_lost_the_lease_writes_nothing(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry)
    rollout = started(registry, ada)
    lease = registry.leases.take(rollout_subject(rollout.id), "one")
    clock.turn(60)
    registry.leases.take(rollout_subject(rollout.id), "another")
    [target] = registry.rollout_targets.list(rollout.id)
    with pytest.raises(LeaseLostError, match="is lost"):
        registry.rollout_targets.put(rollout.id, [replace(target, state=TargetState.FETCHING)], lease=lease)
    with pytest.raises(LeaseLostError, match="is lost"):
        registry.rollout_events.add(rollout.id, HALTED, lease=lease)
    with pytest.raises(LeaseLostError, match="is lost"):
        registry.rollout_targets.add_exposure(ada.id, NEW, lease=lease)
    changed = replace(rollout, state=RolloutState.RUNNING)
    with pytest.raises(LeaseLostError, match="is lost"):
        registry.rollouts.change(rollout, changed, HALTED, lease=lease)
    assert registry.rollout_targets.list(rollout.id) == (target,)
    assert registry.rollout_targets.exposures() == {}


def test_who_is_owed_a_release_is_so_until_a_later_rollout_takes_them(registry: Registry, clock: TurnedClock) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    rollout = started(registry, ada, bob)
    for target in registry.rollout_targets.list(rollout.id):
        registry.rollout_targets.put(rollout.id, [replace(target, state=TargetState.OUTDATED)])
    registry.rollouts.change(rollout, replace(rollout, state=RolloutState.DONE), HALTED)
    assert [(release, target.id) for _, release, target in registry.rollout_targets.outdated()] == [
        (NEW, ada.id),
        (NEW, bob.id),
    ]
    clock.turn(1)
    started(registry, ada, rollout_id="r2")
    assert [target.facts.user for _, _, target in registry.rollout_targets.outdated()] == ["bob"]


@pytest.mark.parametrize("state", [RolloutState.RUNNING, RolloutState.ABORTED, RolloutState.ROLLED_BACK])
def test_nobody_is_owed_what_did_not_come_to_everybody(registry: Registry, state: RolloutState) -> None:
    rollout = started(registry, placed(registry))
    [target] = registry.rollout_targets.list(rollout.id)
    registry.rollout_targets.put(rollout.id, [replace(target, state=TargetState.OUTDATED)])
    registry.rollouts.change(rollout, replace(rollout, state=state), HALTED)
    assert registry.rollout_targets.outdated() == ()


def test_an_exposure_is_noted_once(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry)
    registry.rollout_targets.add_exposure(ada.id, NEW)
    clock.turn(1)
    registry.rollout_targets.add_exposure(ada.id, NEW)
    assert registry.rollout_targets.exposures() == {ada.id: {NEW: AT}}


def test_targets_stay_in_the_order_of_the_course(registry: Registry) -> None:
    instances = [placed(registry, f"user-{number}") for number in range(20)]
    targets: list[RolloutTarget] = [target_of(instance, number) for number, instance in enumerate(reversed(instances))]
    registry.rollouts.add(ROLLOUT, targets, STARTED_ROW)
    assert registry.rollout_targets.list(ROLLOUT.id) == tuple(targets)
