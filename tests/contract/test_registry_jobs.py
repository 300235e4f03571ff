"""Turns of jobs, tokens that replace one another, and what is left of ended agents; alike on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import RefusedError
from hermesops.model.backup import Backup
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance
from hermesops.model.job import JobRun
from hermesops.model.operation import LeaseLostError, OperationKind, OperationStatus
from hermesops.model.state import Part, State
from hermesops.model.token import PLATFORM, ProxyToken, former_of, next_of
from hermesops.registry import Registry
from tests.support.registries import TurnedClock, placed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MACHINE = MachineId("m-1")
STATE = State({"messages": Part(4, "b" * 64)})


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return registry.set_machine(placed(registry).id, MACHINE)


def test_a_turn_is_remembered_with_what_came_of_it(registry: Registry, clock: TurnedClock) -> None:
    assert registry.job_run("prune") is None
    lease = registry.take_lease("job/prune", "me")
    registry.begin_job("prune", lease=lease)
    assert registry.job_run("prune") == JobRun(NOON)
    clock.turn(9)
    registry.end_job("prune", done="2 pruned", problem="ada: no answer", lease=lease)
    assert registry.job_run("prune") == JobRun(NOON, NOON + timedelta(seconds=9), "2 pruned", "ada: no answer")
    assert registry.job_run("backups") is None


def test_who_lost_a_chore_says_nothing_of_it_any_more(registry: Registry, clock: TurnedClock) -> None:
    lost = registry.take_lease("job/prune", "me")
    registry.begin_job("prune", lease=lost)
    clock.turn(60)
    registry.begin_job("prune", lease=registry.take_lease("job/prune", "another"))
    with pytest.raises(LeaseLostError, match="job/prune is lost"):
        registry.end_job("prune", done="done", problem="", lease=lost)
    assert registry.job_run("prune") == JobRun(NOON + timedelta(seconds=60))


def token(id_: str) -> ProxyToken:
    return ProxyToken(id_, MACHINE, PLATFORM, NOON + timedelta(hours=6), f"secret of {id_}")


@pytest.mark.usefixtures("ada")
def test_a_token_replaces_the_one_that_was_seen_and_no_other(registry: Registry) -> None:
    first, second = token("first"), token("second")
    registry.keep_next_token(first)
    assert registry.replace_proxy_token(first, before="")
    registry.keep_next_token(second)
    assert not registry.replace_proxy_token(second, before="")
    assert registry.proxy_token(MACHINE, PLATFORM) == first
    assert registry.replace_proxy_token(second, before="first")
    assert [(one.purpose, one.id) for one in registry.kept_tokens()] == [
        (PLATFORM, "second"),
        (former_of(PLATFORM), "first"),
    ]
    was = registry.proxy_token(MACHINE, former_of(PLATFORM))
    assert was is not None
    assert was.token == first.token
    registry.forget_proxy_token(MACHINE, PLATFORM, token_id="first")
    assert registry.proxy_token(MACHINE, PLATFORM) == second
    registry.forget_proxy_token(MACHINE, PLATFORM, token_id="second")
    assert registry.proxy_token(MACHINE, PLATFORM) is None
    assert not registry.contradictions()
    assert next_of(PLATFORM) not in {one.purpose for one in registry.kept_tokens()}


def _ended(registry: Registry, instance: Instance) -> None:
    row = registry.open_operation(OperationKind.TERMINATE, f"instance/{instance.id}", instance_id=instance.id)
    registry.mark_terminated(instance.id)
    registry.finish_operation(row.id, OperationStatus.DONE, "terminated")


def test_the_repository_of_an_ended_agent_is_known_with_its_end(
    registry: Registry, clock: TurnedClock, ada: Instance
) -> None:
    registry.make_repository(ada.id, "password")
    registry.note_backup(Backup("a", ada.id, NOON, "daily", 1, 1, STATE))
    assert registry.ended_repositories() == {}
    with pytest.raises(RefusedError, match="has not ended"):
        registry.forget_repository(ada.id, why="test")
    assert registry.list_backups(ada.id)
    clock.turn(3600)
    _ended(registry, ada)
    assert registry.ended_repositories() == {ada.id: NOON + timedelta(hours=1)}
    for _ in range(2):
        registry.forget_repository(ada.id, why="long ago")
    assert (registry.ended_repositories(), registry.list_backups(ada.id)) == ({}, ())
    assert registry.repository_keys(ada.id) is None
    erased = [entry for entry in registry.list_audit() if entry.action == "repository_erased"]
    assert [(entry.before, entry.why) for entry in erased] == [({"backups": 1}, "long ago")]
