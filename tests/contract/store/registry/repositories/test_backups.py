"""Rows of backups and of what opens them, alike on SQLite and PostgreSQL."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup, Credential, Loss, RepositoryKeys
from hermesops.model.recovery.state import Part, State
from hermesops.store.registry import Registry
from hermesops.store.registry.schema import tables
from tests.support.real.stores.registries import placed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATE = State({"messages": Part(4, "b" * 64)})
CANARY = "canary-of-a-repository"


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return placed(registry)


def backup(instance_id: InstanceId, id_: str, hours: int = 0) -> Backup:
    return Backup(id_, instance_id, NOON + timedelta(hours=hours), "daily", 10**10, 512, STATE)


def test_a_repository_has_one_password_whoever_asks_first(registry: Registry, ada: Instance) -> None:
    assert registry.backups.repository_keys(ada.id) is None
    assert registry.backups.make_repository(ada.id, "first") == "first"
    assert registry.backups.make_repository(ada.id, "second") == "first"
    assert registry.backups.repository_keys(ada.id) == RepositoryKeys("first")


def test_what_opens_a_repository_is_sealed_and_said_nowhere(registry: Registry, ada: Instance) -> None:
    registry.backups.make_repository(ada.id, CANARY)
    registry.backups.keep_credential(ada.id, Credential("key-id", CANARY), why="first backup")
    assert registry.backups.repository_keys(ada.id) == RepositoryKeys(CANARY, Credential("key-id", CANARY))
    with registry._database.reading() as connection:
        rows = [connection.execute(sa.select(table)).all() for table in (tables.backup_repositories, tables.audit)]
    assert CANARY not in str(rows)
    assert CANARY not in str(registry.backups.repository_keys(ada.id))
    assert [entry.action for entry in registry.audit.list()][:2] == [
        "backup_credential_issued",
        "backup_repository_made",
    ]
    assert not registry.consistency.contradictions()


def test_a_backup_is_recorded_once(registry: Registry, ada: Instance) -> None:
    copy = backup(ada.id, "a" * 64)
    registry.backups.record(copy)
    registry.backups.record(dataclasses.replace(copy, why="again"))
    assert registry.backups.list(ada.id) == (copy,)
    assert [entry.action for entry in registry.audit.list()].count("backed_up") == 1


def test_a_backup_is_found_by_the_beginning_of_its_id(registry: Registry, ada: Instance) -> None:
    for number, id_ in enumerate(("ab" + "0" * 62, "ac" + "0" * 62)):
        registry.backups.record(backup(ada.id, id_, number))
    assert registry.backups.get(ada.id, "ab").id.startswith("ab")
    assert registry.backups.get(ada.id, "").id.startswith("ac")
    for text, words in (("a", "2 backups begin"), ("f", "no backup 'f'")):
        with pytest.raises(UsageError, match=words) as unknown:
            registry.backups.get(ada.id, text)
        assert str(unknown.value.hint) == f"hermesops backup list {ada.id}"


def test_an_instance_without_a_backup_is_no_slip_of_who_asked(registry: Registry, ada: Instance) -> None:
    assert not registry.backups.is_backed_up(ada.id)
    with pytest.raises(RefusedError, match="has no backup"):
        registry.backups.get(ada.id, "")
    registry.backups.record(backup(placed(registry, "bob").id, "b"))
    assert not registry.backups.is_backed_up(ada.id)
    registry.backups.record(backup(ada.id, "a"))
    assert registry.backups.is_backed_up(ada.id)


def test_a_check_is_remembered_with_what_came_of_it(registry: Registry, ada: Instance) -> None:
    registry.backups.record(backup(ada.id, "a"))
    assert not registry.backups.get(ada.id, "").is_proved
    registry.backups.record_check("a", "messages: 4, now 3")
    assert (registry.backups.get(ada.id, "").checked, registry.backups.get(ada.id, "").is_proved) == (
        "messages: 4, now 3",
        False,
    )
    registry.backups.record_check("a", "")
    assert registry.backups.get(ada.id, "").is_proved


def test_the_age_of_the_newest_is_known_for_every_living_instance(registry: Registry, ada: Instance) -> None:
    bob, eve = placed(registry, "bob"), placed(registry, "eve")
    for number in range(3):
        registry.backups.record(backup(ada.id, f"a{number}", number))
    registry.backups.record(backup(eve.id, "e"))
    registry.terminations.terminate(eve.id)
    assert registry.backups.newest() == {ada.id: NOON + timedelta(hours=2), bob.id: None}
    assert len(registry.backups.list(eve.id)) == 1


def test_what_is_gone_from_the_repository_is_forgotten(registry: Registry, ada: Instance) -> None:
    registry.backups.record(backup(ada.id, "a"))
    registry.backups.record(backup(ada.id, "b"))
    registry.backups.forget(ada.id, ["a", "unknown"], why="retention")
    registry.backups.forget(ada.id, [], why="retention")
    assert [backup.id for backup in registry.backups.list(ada.id)] == ["b"]


def test_what_would_be_lost_is_known_of_those_that_run(registry: Registry, ada: Instance) -> None:
    day = timedelta(hours=24)
    assert registry.backups.loss(day) == Loss(0, 0, 0, 0, 86_400), "nobody runs yet"
    bob, eve = placed(registry, "bob"), placed(registry, "eve")
    for each in (ada, bob, eve):
        registry.instances.set_status(each.id, InstanceStatus.RUNNING)
    registry.backups.record(backup(ada.id, "a", -48))
    registry.backups.record(backup(ada.id, "b", -25))
    registry.backups.record(backup(eve.id, "e", -90))
    registry.instances.set_status(eve.id, InstanceStatus.SUSPENDED)
    assert registry.backups.loss(day) == Loss(agents=2, oldest_s=25 * 3600, late=1, never=1, objective_s=86_400)
    assert registry.backups.loss(2 * day).late == 0


def test_the_proof_that_is_oldest_is_known(registry: Registry, ada: Instance) -> None:
    bob, eve = placed(registry, "bob"), placed(registry, "eve")
    assert (registry.backups.newest_checks(), registry.backups.first_at()) == ({}, None)
    for id_, of, hours in (("a", ada, -2), ("b", ada, -1), ("c", bob, -9), ("e", eve, -1)):
        registry.backups.record(backup(of.id, id_, hours))
    registry.backups.record_check("a", "", where="drill 1 on a machine")
    registry.terminations.terminate(eve.id)
    assert registry.backups.newest_checks() == {ada.id: NOON, bob.id: None}
    assert registry.backups.first_at() == NOON - timedelta(hours=9)
    [checked] = [entry for entry in registry.audit.list() if entry.action == "backup_checked"]
    assert checked.why == "drill 1 on a machine"
