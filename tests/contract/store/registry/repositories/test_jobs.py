"""Turns of jobs, tokens that replace one another, and what is left of ended agents; alike on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import RefusedError
from hermesops.model.access.token import PLATFORM, ProxyToken, former_of, next_of
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId
from hermesops.model.operation import JobRun, LeaseLostError, OperationKind, OperationStatus
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import Part, State
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MACHINE = MachineId("m-1")
STATE = State({"messages": Part(4, "b" * 64)})


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return registry.instances.set_machine(placed(registry).id, MACHINE)


def test_a_turn_is_remembered_with_what_came_of_it(registry: Registry, clock: TurnedClock) -> None:
    assert registry.jobs.get("prune") is None
    lease = registry.leases.take("job/prune", "me")
    registry.jobs.begin("prune", lease=lease)
    assert registry.jobs.get("prune") == JobRun(NOON)
    clock.turn(9)
    registry.jobs.end("prune", done="2 pruned", problem="ada: no answer", lease=lease)
    assert registry.jobs.get("prune") == JobRun(NOON, NOON + timedelta(seconds=9), "2 pruned", "ada: no answer")
    assert registry.jobs.get("backups") is None


def test_who_lost_a_chore_says_nothing_of_it_any_more(registry: Registry, clock: TurnedClock) -> None:
    lost = registry.leases.take("job/prune", "me")
    registry.jobs.begin("prune", lease=lost)
    clock.turn(60)
    registry.jobs.begin("prune", lease=registry.leases.take("job/prune", "another"))
    with pytest.raises(LeaseLostError, match="job/prune is lost"):
        registry.jobs.end("prune", done="done", problem="", lease=lost)
    assert registry.jobs.get("prune") == JobRun(NOON + timedelta(seconds=60))


def token(id_: str) -> ProxyToken:
    return ProxyToken(id_, MACHINE, PLATFORM, NOON + timedelta(hours=6), f"secret of {id_}")


@pytest.mark.usefixtures("ada")
def test_a_token_replaces_the_one_that_was_seen_and_no_other(registry: Registry) -> None:
    first, second = token("first"), token("second")
    registry.proxy_tokens.keep_next(first)
    assert registry.proxy_tokens.replace(first, before="")
    registry.proxy_tokens.keep_next(second)
    assert not registry.proxy_tokens.replace(second, before="")
    assert registry.proxy_tokens.get(MACHINE, PLATFORM) == first
    assert registry.proxy_tokens.replace(second, before="first")
    assert [(kept_token.purpose, kept_token.id) for kept_token in registry.proxy_tokens.kept()] == [
        (PLATFORM, "second"),
        (former_of(PLATFORM), "first"),
    ]
    was = registry.proxy_tokens.get(MACHINE, former_of(PLATFORM))
    assert was is not None
    assert was.token == first.token
    registry.proxy_tokens.forget(MACHINE, PLATFORM, token_id="first")
    assert registry.proxy_tokens.get(MACHINE, PLATFORM) == second
    registry.proxy_tokens.forget(MACHINE, PLATFORM, token_id="second")
    assert registry.proxy_tokens.get(MACHINE, PLATFORM) is None
    assert not registry.consistency.contradictions()
    assert next_of(PLATFORM) not in {kept_token.purpose for kept_token in registry.proxy_tokens.kept()}


def _ended(registry: Registry, instance: Instance) -> None:
    row = registry.operations.open(OperationKind.TERMINATE, f"instance/{instance.id}", instance_id=instance.id)
    registry.terminations.terminate(instance.id)
    registry.operations.finish(row.id, OperationStatus.DONE, "terminated")


def test_the_repository_of_an_ended_agent_is_known_with_its_end(
    registry: Registry, clock: TurnedClock, ada: Instance
) -> None:
    registry.backups.make_repository(ada.id, "password")
    registry.backups.record(Backup("a", ada.id, NOON, "daily", 1, 1, STATE))
    assert registry.backups.list_ended_repositories() == {}
    with pytest.raises(RefusedError, match="has not ended"):
        registry.backups.forget_repository(ada.id, why="test")
    assert registry.backups.list(ada.id)
    clock.turn(3600)
    _ended(registry, ada)
    assert registry.backups.list_ended_repositories() == {ada.id: NOON + timedelta(hours=1)}
    for _ in range(2):
        registry.backups.forget_repository(ada.id, why="long ago")
    assert (registry.backups.list_ended_repositories(), registry.backups.list(ada.id)) == ({}, ())
    assert registry.backups.repository_keys(ada.id) is None
    erased = [entry for entry in registry.audit.list() if entry.action == "repository_erased"]
    assert [(entry.before, entry.why) for entry in erased] == [({"backups": 1}, "long ago")]
