"""Operators' commands to rollouts in the registry, and what is read of rollouts there, on both databases."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.rollout.operators import commands as pure
from hermesops.agents.rollout.operators.service import RolloutCommands
from hermesops.agents.rollout.records.directory import Rollouts
from hermesops.agents.rollout.records.events import BatchBegun, Recorded, StateChanged, to_row
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import placed
from tests.support.rollouts.rows import AT, STARTED_ROW, started

ENV: Any = SimpleNamespace(name="local")


def commands_of(registry: Registry) -> RolloutCommands:
    return RolloutCommands(ENV, registry)


def put(registry: Registry, rollout: Rollout, state: RolloutState) -> Rollout:
    was = registry.rollouts.get(rollout.id)
    assert registry.rollouts.change(was, replace(was, state=state, reason="a test"), STARTED_ROW)
    return registry.rollouts.get(rollout.id)


def test_a_command_is_given_to_the_rollout_that_is_meant_with_its_reason(registry: Registry) -> None:
    started(registry, placed(registry, "ada"), rollout_id="abc1")
    commands = commands_of(registry)
    assert commands.pause("abc", why="lunch").state is RolloutState.PAUSED
    assert commands.resume("").state is RolloutState.RUNNING
    changes = [event for _, event in Rollouts(registry).changes(RolloutId("abc1"))]
    assert [(change.who, change.why) for change in changes if isinstance(change, StateChanged)][-2:] == [
        ("tester", "lunch"),
        ("tester", "resumed"),
    ]
    with pytest.raises(UsageError, match="no rollout 'xyz'"):
        commands.pause("xyz")


def test_what_a_command_says_where_no_reason_is_given(registry: Registry) -> None:
    ada = placed(registry, "ada")
    commands = commands_of(registry)
    started(registry, ada)
    assert "aborted" in commands.abort("").reason
    put(registry, registry.rollouts.find(""), RolloutState.ABORTED)
    started(registry, ada, rollout_id="r2")
    put(registry, registry.rollouts.get(RolloutId("r2")), RolloutState.HALTED)
    assert "promoted" in commands.promote("r2").reason


def test_a_rollout_that_a_process_may_run_is_left_as_it_is_by_resume(registry: Registry) -> None:
    row = started(registry, placed(registry, "ada"))
    commands, rollouts = commands_of(registry), Rollouts(registry)
    for state in (RolloutState.PENDING, RolloutState.RUNNING):
        running = put(registry, row, state)
        before = rollouts.events(row.id)
        assert commands.resume("") == running, state
        assert rollouts.events(row.id) == before, state
    halted = put(registry, row, RolloutState.HALTED)
    with pytest.raises(RefusedError, match="cannot be resumed"):
        commands.resume("")
    assert registry.rollouts.get(row.id) == halted


def test_open_alerts_are_ignored_for_a_reason_while_it_runs(registry: Registry) -> None:
    row = put(registry, started(registry, placed(registry, "ada")), RolloutState.RUNNING)
    resumed = commands_of(registry).resume(row.id, despite_alerts="it is the cure")
    assert (resumed.state, resumed.decisions.despite_alerts) == (RolloutState.RUNNING, "it is the cure")


def test_a_row_that_changes_each_time_is_told_as_that(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    started(registry, placed(registry, "ada"))
    monkeypatch.setattr(type(registry.rollouts), "change", lambda *_, **__: False)
    with pytest.raises(UnavailableError, match="changed during each of 10 tries"):
        commands_of(registry).pause("")


def test_events_of_one_user_and_changes_of_state_are_found_among_all(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    row = started(registry, ada, bob)
    for instance in (ada, bob):
        batch = Recorded(AT, BatchBegun(why="its turn", targets=(instance.id,)))
        registry.rollout_events.add(row.id, to_row(batch))
    rollouts = Rollouts(registry)
    assert [type(recorded.event).__name__ for recorded in rollouts.events(row.id)] == [
        "RolloutStarted",
        *2 * ["BatchBegun"],
    ]
    assert [recorded.event.targets for recorded in rollouts.events(row.id, user="bob")] == [(bob.id,)]  # type: ignore[union-attr]
    assert [type(event).__name__ for _, event in rollouts.changes(row.id)] == ["RolloutStarted"]
    with pytest.raises(UsageError, match="no user 'eve'"):
        rollouts.events(row.id, user="eve")
    records = rollouts.records(row.id)
    assert (records.rollout, records.targets) == (rollouts.get(row.id), rollouts.targets(row.id))
    assert rollouts.progress(records).targets == 2
    assert rollouts.list(unfinished=True) == (rollouts.find(""),)


def test_a_preview_says_what_a_command_would_do_and_writes_nothing(registry: Registry) -> None:
    row, commands = started(registry, placed(registry, "ada")), commands_of(registry)
    before = (registry.rollouts.get(row.id), registry.rollout_events.list(row.id))
    paused = commands.preview("", pure.pause)
    assert (paused.before.state, paused.after.state, paused.targets) == (RolloutState.PENDING, RolloutState.PAUSED, ())
    resumed = commands.preview("", pure.resume)
    assert resumed.before == resumed.after == before[0]
    with pytest.raises(RefusedError, match="cannot be retried"):
        commands.preview("", pure.retry)
    assert (registry.rollouts.get(row.id), registry.rollout_events.list(row.id)) == before
    assert commands.pause("").state is paused.after.state
