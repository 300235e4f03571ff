"""The registry keeps the same promises on SQLite and on PostgreSQL."""

import dataclasses
import json
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError, UsageError
from hermesops.model.access.token import PLATFORM, ProxyToken
from hermesops.model.billing.route import PresentToken
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.fleet.user import User
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, OperationId, user_id_from_alias
from hermesops.model.operation import LEASE_S, LeaseHeldError, LeaseLostError, Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.providers.choice import ProviderChoice
from hermesops.store.registry import Registry, open_registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import sealed_cells
from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.repositories.credentials.model_usage import RouterLedger
from hermesops.store.registry.repositories.instances.instance import update_details
from hermesops.store.registry.schema import indexes, tables
from hermesops.store.registry.schema.role_grants import ROUTER
from hermesops.store.registry.schema.schema_version import MIGRATIONS, REVISIONS
from tests.support.hostile.databases import of_no_text
from tests.support.real.router.litellm_router import as_router
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import CELL, KEYS, TurnedClock, placed, registry_at

if TYPE_CHECKING:
    from collections.abc import Callable

WEEK = timedelta(days=7)
CANARY = "canary-7c1e9a"


@pytest.fixture
def server(postgresql_server: postgresql.PostgreSql) -> postgresql.PostgreSql:
    return postgresql_server


@pytest.fixture
def url(registry_url: str) -> str:
    return registry_url


def choose(registry: Registry, instance: Instance, settings: InstanceSettings) -> Operation:
    subject = f"instance/{instance.id}"
    return registry.settings_changes.change(instance.id, settings, subject=subject, intent={}, why="asked")


def dump(registry: Registry) -> str:
    """Every value of every table, as text."""
    with registry._database.reading() as connection:
        rows = [
            dict(row._mapping) for table in tables.metadata.sorted_tables for row in connection.execute(table.select())
        ]
    return json.dumps(rows, default=str)


# Tables and migrations


def columns_of(registry: Registry, table: str) -> list[str]:
    with registry._database.reading() as connection:
        return [column["name"] for column in sa.inspect(connection).get_columns(table)]


def test_the_platforms_tables_have_exactly_its_columns(registry: Registry) -> None:
    assert columns_of(registry, "hermes_instances") == [
        "id",
        "user_id",
        "plan",
        "vm_id",
        "vm_ip",
        "proxy_token",
        "status",
        "stripe_subscription_id",
        "created_at",
        "last_heartbeat",
    ]
    assert columns_of(registry, "hermes_connections") == [
        "id",
        "instance_id",
        "service",
        "access_token",
        "refresh_token",
        "scopes",
        "expires_at",
        "connected_at",
    ]


@pytest.mark.postgres
def test_the_platforms_columns_have_its_types_on_postgresql(server: postgresql.PostgreSql) -> None:
    registry = registry_at(server.new_database())
    query = sa.text(
        "SELECT table_name || '.' || column_name, udt_name FROM information_schema.columns "
        "WHERE table_name IN ('hermes_instances', 'hermes_connections')"
    )
    with registry._database.reading() as connection:
        types = {str(row[0]): str(row[1]) for row in connection.execute(query)}
        plans = connection.scalar(sa.text("SELECT enum_range(NULL::hermes_plan)::text"))
        states = connection.scalar(sa.text("SELECT enum_range(NULL::hermes_instance_status)::text"))
    registry.close()
    assert types["hermes_instances.id"] == types["hermes_connections.instance_id"] == "uuid"
    assert types["hermes_instances.vm_ip"] == "inet"
    assert types["hermes_instances.proxy_token"] == "varchar"  # noqa: S105 - a column's name
    assert types["hermes_instances.created_at"] == types["hermes_connections.expires_at"] == "timestamptz"
    assert types["hermes_connections.access_token"] == "text"  # noqa: S105 - a column's name
    assert types["hermes_connections.scopes"] == "_text"
    assert (plans, states) == ("{light,heavy}", "{provisioning,running,suspended,terminated}")


def test_a_new_registry_has_the_tables_that_code_knows(registry: Registry) -> None:
    with registry._database.reading() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), indexes.metadata)
    assert differences == []


def test_every_script_is_a_known_revision() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == REVISIONS


def test_migrating_again_does_nothing(empty_url: str) -> None:
    assert migrate_registry(empty_url) == ("", REVISIONS[-1])
    assert migrate_registry(empty_url) == (REVISIONS[-1], REVISIONS[-1])


def test_migrating_from_many_threads_at_once_happens_once(empty_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert {now for _, now in pool.map(lambda _: migrate_registry(empty_url), range(4))} == {REVISIONS[-1]}


def test_a_newer_registry_is_refused_by_an_older_hermesops(registry: Registry, url: str) -> None:
    with registry._database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for attempt in (lambda: migrate_registry(url), lambda: registry_at(url)):
        with pytest.raises(RefusedError, match="an older hermesops") as refused:
            attempt()
        assert refused.value.exit_code == 3


@pytest.mark.postgres
def test_processes_that_migrate_at_once_do_not_disturb_each_others_grants(server: postgresql.PostgreSql) -> None:
    url = server.new_database()
    postgresql.make_role(url, ROUTER)
    migrate_registry(url)
    for _ in range(10):
        with psycopg.connect(url) as admin:
            admin.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM router")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: migrate_registry(url), range(4)))
        with psycopg.connect(as_router(url)) as router:
            assert router.execute("SELECT count(*) FROM model_budgets").fetchone() == (0,)


@pytest.mark.postgres
def test_postgresql_is_migrated_only_when_asked(server: postgresql.PostgreSql) -> None:
    with pytest.raises(RefusedError, match="is at revision none") as refused:
        open_registry(server.new_database(), environment="local", actor="tester", sealer=lambda _new: KEYS)
    assert str(refused.value.hint) == "hermesops registry migrate"


# Users and instances


def test_an_alias_and_a_user_id_name_a_user(registry: Registry) -> None:
    created = registry.users.resolve("ada", create=True)
    assert created == User(user_id_from_alias("ada"), "ada")
    assert registry.users.resolve(created.id.upper()) == created
    by_id = registry.users.resolve("0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001", create=True)
    assert by_id.alias == ""
    assert registry.users.resolve("ada", create=True) == created
    assert {user.id for user in registry.users.list()} == {created.id, by_id.id}


@pytest.mark.parametrize("text", ["Ada", "ada lovelace", "", "ada;--", "1ada"])
def test_a_bad_user_is_refused_and_leaves_nothing(registry: Registry, text: str) -> None:
    with pytest.raises(UsageError, match="neither a user id"):
        registry.users.resolve(text, create=True)
    assert registry.users.list() == ()


def test_an_unknown_user_is_made_only_when_asked(registry: Registry) -> None:
    with pytest.raises(UsageError, match="ada"):
        registry.users.resolve("ada")
    assert registry.users.list() == ()


def test_an_instance_knows_its_machines_name_before_there_is_one(registry: Registry) -> None:
    instance = placed(registry)
    assert instance.status is InstanceStatus.PROVISIONING
    assert instance.machine_id is None
    assert instance.machine_name == f"hermes-local-cell1-{instance.id.replace('-', '')[:12]}"


def test_provisioning_twice_finds_the_first_row(registry: Registry) -> None:
    first = placed(registry)
    key = registry.instance_secrets.api_server_key(first.id)
    assert placed(registry, plan=Plan.HEAVY) == first
    assert registry.instance_secrets.api_server_key(first.id) == key


def test_provisioning_at_once_makes_one_row(url: str) -> None:
    registries = [registry_at(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        instances = list(pool.map(placed, registries))
    assert len({instance.id for instance in instances}) == 1
    assert len(registries[0].instances.list(terminated=True)) == 1
    for registry in registries:
        registry.close()


def test_the_database_itself_allows_one_living_instance_per_user(registry: Registry) -> None:
    instance = placed(registry)
    row = {"id": user_id_from_alias("other"), "user_id": instance.user_id, "plan": Plan.LIGHT}
    with (
        registry._database._engine.connect().execution_options(hermesops_writes=True) as connection,
        pytest.raises(sa.exc.IntegrityError),
    ):
        connection.execute(
            tables.hermes_instances.insert().values(
                **row, status=InstanceStatus.SUSPENDED, created_at=datetime.now(UTC)
            )
        )


def test_after_termination_a_user_gets_another_instance(registry: Registry) -> None:
    first = placed(registry)
    registry.terminations.terminate(first.id)
    second = placed(registry)
    assert second.id != first.id
    assert registry.instances.find("ada") == second
    assert registry.instances.list() == (second,)
    assert registry.instances.list(status=InstanceStatus.TERMINATED) == (registry.instances.get(first.id),)


def test_what_was_under_way_for_a_terminated_instance_is_given_up(registry: Registry) -> None:
    instance = placed(registry)
    subject = f"instance/{instance.id}"
    begun = registry.operations.open(OperationKind.PROVISION, subject, instance_id=instance.id)
    ending = registry.operations.open(OperationKind.TERMINATE, subject, instance_id=instance.id)
    registry.terminations.terminate(instance.id)
    assert registry.operations.get(begun.id).status is OperationStatus.ABANDONED
    assert "terminated" in registry.operations.get(begun.id).outcome
    assert [open_one.id for open_one in registry.operations.list(unfinished=True)] == [ending.id]
    assert not registry.consistency.contradictions()


def test_a_terminated_instance_stays_so(registry: Registry) -> None:
    instance = placed(registry)
    registry.terminations.terminate(instance.id)
    registry.terminations.terminate(instance.id)
    with pytest.raises(RefusedError, match="for good"):
        registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    assert registry.instances.get(instance.id).status is InstanceStatus.TERMINATED


def test_an_instance_is_found_by_alias_user_and_own_id(registry: Registry) -> None:
    instance = placed(registry)
    placed(registry, "bob")
    for text in ("ada", instance.user_id, instance.id):
        assert registry.instances.find(text) == instance
    for text, words in (
        ("eve", "no user 'eve'"),
        ("0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001", "no user '0c4f4ab6"),
        ("not a name", "no user 'not a name'"),
    ):
        with pytest.raises(UsageError, match=words):
            registry.instances.find(text)


def test_machine_and_status_are_written_and_audited_once(registry: Registry) -> None:
    instance = placed(registry)
    for _ in range(2):
        registry.instances.set_machine(instance.id, MachineId("m-1"), ip="10.1.2.3")
        changed = registry.instances.set_status(instance.id, InstanceStatus.RUNNING, why="provision")
    assert (changed.machine_id, changed.status) == ("m-1", InstanceStatus.RUNNING)
    entries = registry.audit.list(subject=f"instance/{instance.id}")
    assert [entry.action for entry in entries] == ["status_changed", "machine_set", "instance_created"]
    assert (entries[0].who, entries[0].why) == ("tester", "provision")
    assert (entries[0].before, entries[0].after) == ({"status": "provisioning"}, {"status": "running"})


def test_instances_are_filtered(registry: Registry) -> None:
    light, heavy = placed(registry), placed(registry, "bob", Plan.HEAVY)
    registry.instances.set_status(heavy.id, InstanceStatus.RUNNING)
    assert [i.id for i in registry.instances.list(plan=Plan.LIGHT)] == [light.id]
    assert [i.id for i in registry.instances.list(status=InstanceStatus.RUNNING)] == [heavy.id]
    assert registry.instances.list(cell=CellName("cell9")) == ()


def test_moments_come_back_aware_and_in_utc(registry: Registry) -> None:
    instance = placed(registry)
    at = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=9)))
    suspended = registry.instances.begin_grace(instance.id, at)
    assert suspended.grace_until == at
    assert (suspended.created_at.tzinfo, suspended.grace_until.tzinfo) == (UTC, UTC)


def test_the_databases_own_clock_is_used_and_right(url: str) -> None:
    registry = registry_at(url)
    instance = placed(registry)
    registry.close()
    assert abs(datetime.now(UTC) - instance.created_at) < timedelta(seconds=60)


# Settings and secrets


def test_settings_come_back_as_they_were(registry: Registry) -> None:
    instance = placed(registry)
    assert registry.instance_secrets.settings(instance.id) == InstanceSettings()
    chosen = InstanceSettings(
        model="gpt-4o",
        personality="Kurz und klar.",
        messengers={"TELEGRAM_BOT_TOKEN": "1:a"},
        mcp_servers={"notes": {"url": "https://example.org", "headers": {"a": "b"}}},
        cron=({"cron": "0 9 * * *", "prompt": "hi", "enabled": True},),
        disabled_tools=("browser",),
    )
    choose(registry, instance, chosen)
    assert registry.instance_secrets.settings(instance.id) == chosen


def test_a_key_that_its_user_removed_is_nothing_to_go_back_to(registry: Registry, clock: TurnedClock) -> None:
    instance = placed(registry)
    provider = ProviderChoice("own", "m", "k" * 30, "https://a.example/v1")
    own = InstanceSettings(personality="1", provider=provider)
    other = dataclasses.replace(own, provider=dataclasses.replace(provider, model="n"))
    registry.operations.finish(choose(registry, instance, own).id, OperationStatus.DONE, "")
    clock.turn(1)
    rejected = choose(registry, instance, other)
    assert registry.instance_secrets.settings_before(instance.id) == own, "another provider can be taken back"
    clock.turn(1)
    choose(registry, instance, dataclasses.replace(other, provider=None))
    assert registry.operations.get(rejected.id).status is OperationStatus.ABANDONED
    assert registry.instance_secrets.settings_before(instance.id) == dataclasses.replace(own, provider=None)


def test_the_settings_before_are_kept_until_others_have_proved_themselves(
    registry: Registry, clock: TurnedClock
) -> None:
    instance = placed(registry)
    first, second, third = (InstanceSettings(personality=text) for text in ("1", "2", "3"))
    assert registry.instance_secrets.settings_before(instance.id) is None
    registry.operations.finish(choose(registry, instance, first).id, OperationStatus.DONE, "")
    clock.turn(1)
    rejected = choose(registry, instance, second)
    assert choose(registry, instance, second).id == rejected.id, "the same choice again continues"
    assert registry.instance_secrets.settings_before(instance.id) == first
    clock.turn(1)
    other = choose(registry, instance, third)
    assert registry.operations.get(rejected.id).status is OperationStatus.ABANDONED
    assert registry.instance_secrets.settings_before(instance.id) == first, (
        "the rejected choice is nothing to go back to"
    )
    registry.operations.finish(other.id, OperationStatus.FAILED, "")
    choose(registry, instance, first)
    assert (
        registry.instance_secrets.settings(instance.id)
        == registry.instance_secrets.settings_before(instance.id)
        == first
    )


def test_a_change_of_settings_is_audited_without_what_they_say(registry: Registry) -> None:
    instance = placed(registry)
    choose(registry, instance, InstanceSettings(messengers={"SLACK_BOT_TOKEN": CANARY}, personality=CANARY))
    [entry] = [entry for entry in registry.audit.list() if entry.action == "settings_changed"]
    assert (entry.why, entry.after["changed"]) == ("asked", ["personality", "messengers"])
    assert (entry.before["messengers"], entry.after["messengers"]) == ([], ["SLACK_BOT_TOKEN"])


def test_no_secret_stands_in_the_database_in_clear(registry: Registry) -> None:
    instance = placed(registry)
    registry.instances.set_machine(instance.id, MachineId("m-1"))
    choose(registry, instance, InstanceSettings(messengers={"SLACK_BOT_TOKEN": CANARY}))
    choose(registry, instance, InstanceSettings(messengers={"SLACK_BOT_TOKEN": f"{CANARY}-2"}, personality=CANARY))
    expires_at = datetime.now(UTC) + timedelta(hours=6)
    registry.proxy_tokens.keep(ProxyToken("t-1", MachineId("m-1"), "platform", expires_at, f"{CANARY}-proxy"))
    everything = dump(registry)
    assert CANARY not in everything
    assert registry.instance_secrets.api_server_key(instance.id) not in everything
    assert instance.machine_name in everything, "the dump looked at the right tables"


def test_a_sealed_value_opens_in_its_own_row_only(registry: Registry) -> None:
    ada, bob = placed(registry), placed(registry, "bob")
    details = tables.instance_details
    with registry._database.writing() as connection:
        stolen = connection.scalar(sa.select(details.c.api_server_key).where(details.c.instance_id == ada.id))
        connection.execute(details.update().where(details.c.instance_id == bob.id).values(api_server_key=stolen))
    assert registry.instance_secrets.api_server_key(ada.id)
    with pytest.raises(RefusedError, match="cannot be decrypted"):
        registry.instance_secrets.api_server_key(bob.id)


@pytest.mark.usefixtures("registry")
def test_another_key_is_refused_at_once(url: str) -> None:
    same_id, other_id = KeyRing("k1", {"k1": b"x" * 32}), KeyRing("k2", {"k2": b"x" * 32})
    for wrong, words in (
        (same_id, "cannot be decrypted with key k1"),
        (other_id, "is sealed with key k1, which is not in"),
    ):
        with pytest.raises(RefusedError, match=words) as refused:
            registry_at(url, keys=wrong)
        assert "key file" in str(refused.value.hint)


def test_a_ring_with_a_newer_key_still_opens_what_the_old_one_sealed(registry: Registry, url: str) -> None:
    instance = placed(registry)
    both = KeyRing("k2", {"k1": bytes(range(32)), "k2": b"x" * 32})
    again = registry_at(url, keys=both)
    assert again.instance_secrets.api_server_key(instance.id) == registry.instance_secrets.api_server_key(instance.id)
    again.close()


def test_only_a_new_registry_may_make_a_key(url: str) -> None:
    flags: list[bool] = []

    def keys(is_new: bool) -> KeyRing:  # noqa: FBT001 - the registry calls it so
        flags.append(is_new)
        return KEYS

    for _ in range(2):
        if not url.startswith("sqlite"):
            migrate_registry(url)
        open_registry(url, environment="local", actor="tester", sealer=keys).close()
    assert flags == [True, False]


def test_revoking_model_tokens_raises_the_generation(registry: Registry) -> None:
    instance = placed(registry)
    before = registry.model_tokens.get(instance.id).generation
    assert registry.model_tokens.revoke(instance.id, why="leaked") == before + 1
    assert registry.model_tokens.get(instance.id).generation == before + 1


def next_machine(registry: Registry, instance: Instance) -> MachineName:
    """A machine that the instance may be put on."""
    machine = registry.unassigned.place(
        MachineRole.REPLACEMENT,
        plan=instance.plan,
        server_type="basic",
        image_id=ImageId("i-2"),
        choose=lambda _cells: Placement(instance.cell, "hel1", only_plan=None),
        instance_id=instance.id,
        why="test",
    )
    registry.unassigned.set_machine(machine.name, MachineId("m-2"))
    return registry.unassigned.mark_ready(machine.name).name


@pytest.mark.parametrize("event", ["suspended", "grace", "cut_over", "restored", "terminated", "revoked"])
def test_whatever_takes_an_agent_away_revokes_its_model_tokens_with_the_row(registry: Registry, event: str) -> None:
    instance = placed(registry)
    registry.instances.set_machine(instance.id, MachineId("m-1"))
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    token = registry.model_tokens.renew(instance.id, life=WEEK)
    registry.model_tokens.record_handed(instance.id, token)
    assert registry.model_tokens.get(instance.id).handed_at
    match event:
        case "suspended":
            registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED)
        case "grace":
            registry.instances.begin_grace(instance.id, registry.now() + WEEK)
        case "cut_over":
            registry.assignments.cut_over(instance.id, next_machine(registry, instance), why="test")
        case "restored":
            registry.backups.record_restored(instance.id, "b-1", OperationId(str(uuid4())), why="test")
        case "terminated":
            registry.terminations.terminate(instance.id)
        case "revoked":
            registry.model_tokens.revoke(instance.id, why="leaked")
    assert registry.model_tokens.get(instance.id) == PresentToken(token.generation + 1, None, None)
    # A late note of the old one makes nobody believe that the machine has the present one.
    registry.model_tokens.record_handed(instance.id, token)
    assert registry.model_tokens.get(instance.id).handed_at is None


def test_a_token_is_renewed_once_half_of_its_life_is_over(url: str) -> None:
    clock = TurnedClock()
    registry = registry_at(url, clock=clock)
    instance = placed(registry)
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    due = partial(registry.model_tokens.instances_due, life=WEEK)
    assert [due_instance.id for due_instance in due()] == [instance.id]
    first = registry.model_tokens.renew(instance.id, life=WEEK)
    assert first.expires_at == registry.now().replace(microsecond=0) + WEEK
    assert [due_instance.id for due_instance in due()] == [instance.id]
    registry.model_tokens.record_handed(instance.id, first)
    assert due() == ()
    clock.turn((WEEK / 2).total_seconds() - 2)
    assert due() == ()
    assert registry.model_tokens.renew(instance.id, life=WEEK).expires_at == first.expires_at
    clock.turn(4)
    assert [due_instance.id for due_instance in due()] == [instance.id]
    second = registry.model_tokens.renew(instance.id, life=WEEK)
    assert (second.generation, second.handed_at) == (first.generation, None)
    assert second.expires_at
    assert first.expires_at
    assert second.expires_at > first.expires_at
    registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED)
    assert due() == ()
    registry.close()


def test_a_late_note_of_a_token_that_was_renewed_meanwhile_counts_for_nothing(url: str) -> None:
    clock = TurnedClock()
    registry = registry_at(url, clock=clock)
    instance = placed(registry)
    first = registry.model_tokens.renew(instance.id, life=WEEK)
    clock.turn(WEEK.total_seconds())
    registry.model_tokens.renew(instance.id, life=WEEK)
    registry.model_tokens.record_handed(instance.id, first)
    assert registry.model_tokens.get(instance.id).handed_at is None
    registry.close()


def test_a_router_reads_floors_and_nothing_else(registry: Registry, url: str) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    registry.model_tokens.revoke(bob.id, why="leaked")
    registry.terminations.terminate(ada.id)
    assert {instance_id: account.floor for instance_id, account in RouterLedger(url).read().items()} == {
        ada.id: 2,
        bob.id: 2,
    }


def test_before_the_first_command_there_is_no_registry_and_no_floor(tmp_path: Path) -> None:
    assert RouterLedger(f"sqlite:///{tmp_path / 'registry.db'}").read() == {}
    assert list(tmp_path.iterdir()) == []


def test_termination_erases_the_instances_secrets(registry: Registry) -> None:
    instance = placed(registry)
    registry.instances.set_machine(instance.id, MachineId("m-1"))
    choose(registry, instance, InstanceSettings(personality="x"))
    generation = registry.model_tokens.get(instance.id).generation
    expires_at = datetime.now(UTC) + timedelta(hours=6)
    registry.proxy_tokens.keep(ProxyToken("t-1", MachineId("m-1"), "platform", expires_at, "secret"))
    registry.terminations.terminate(instance.id)
    assert registry.instance_secrets.api_server_key(instance.id) == ""
    assert registry.instance_secrets.settings(instance.id) == InstanceSettings()
    assert registry.instance_secrets.settings_before(instance.id) is None
    assert registry.proxy_tokens.kept() == ()
    assert registry.model_tokens.get(instance.id).generation > generation
    with registry._database.reading() as connection:
        assert connection.scalar(sa.select(tables.hermes_instances.c.proxy_token)) is None


def test_no_row_but_those_of_tokens_holds_one(registry: Registry) -> None:
    instance = placed(registry)
    registry.instances.set_machine(instance.id, MachineId("m-1"))
    expires_at = datetime(2026, 5, 1, tzinfo=UTC)
    tokens = [
        ProxyToken(f"t-{number}", MachineId("m-1"), PLATFORM, expires_at, f"{CANARY}-{number}", "http://{port}.x")
        for number in range(3)
    ]
    registry.proxy_tokens.keep(tokens[0])
    registry.proxy_tokens.keep_next(tokens[1])
    assert registry.proxy_tokens.replace(tokens[1], before="t-0")
    registry.proxy_tokens.keep_next(tokens[2])
    assert CANARY not in dump(registry)
    with registry._database.reading() as connection:
        cells = list(sealed_cells(connection))
    holding = {cell.place: plain for cell in cells if CANARY in (plain := KEYS.unseal(cell.sealed, place=cell.place))}
    assert holding == {
        "proxy_tokens/token/m-1/platform": tokens[1].token,
        "proxy_tokens/token/m-1/platform next": tokens[2].token,
        "proxy_tokens/token/m-1/platform former": tokens[0].token,
    }


def test_proxy_tokens_are_kept_by_machine_and_purpose(registry: Registry) -> None:
    instance = placed(registry)
    registry.instances.set_machine(instance.id, MachineId("m-1"))
    expires_at = datetime(2026, 5, 1, tzinfo=UTC)
    chat = ProxyToken("t-1", MachineId("m-1"), "chat", expires_at, "one")
    platform = ProxyToken("t-2", MachineId("m-1"), PLATFORM, expires_at, "two", "http://{port}.x")
    for token in (chat, platform, dataclasses.replace(chat, id="t-3", token="three")):
        registry.proxy_tokens.keep(token)
    kept = registry.proxy_tokens.get(MachineId("m-1"), "chat")
    assert kept == dataclasses.replace(chat, id="t-3", token="three")
    assert registry.proxy_tokens.get(MachineId("m-1"), PLATFORM) == platform
    registry.proxy_tokens.forget(MachineId("m-1"), "chat")
    assert registry.proxy_tokens.get(MachineId("m-1"), "chat") is None


def test_connections_keep_their_tokens_encrypted(registry: Registry) -> None:
    instance = placed(registry)
    expires_at = datetime(2026, 5, 1, tzinfo=UTC)
    for number in (1, 2):
        registry.connections.connect(
            instance.id,
            "google",
            access_token=f"{CANARY}-a{number}",
            refresh_token=f"{CANARY}-r{number}",
            scopes=("mail", "calendar"),
            expires_at=expires_at,
        )
    registry.connections.connect(instance.id, "github", access_token=f"{CANARY}-b")
    github, google = registry.connections.list(instance.id)
    assert (github.service, github.refresh_token, github.scopes, github.expires_at) == ("github", "", (), None)
    assert (google.access_token, google.refresh_token) == (f"{CANARY}-a2", f"{CANARY}-r2")
    assert (google.scopes, google.expires_at) == (("mail", "calendar"), expires_at)
    assert CANARY not in dump(registry) + repr(registry.connections.list(instance.id))
    registry.connections.disconnect(instance.id, "google")
    assert [held.service for held in registry.connections.list(instance.id)] == ["github"]
    registry.terminations.terminate(instance.id)
    assert registry.connections.list(instance.id) == ()
    with pytest.raises(RefusedError, match="is terminated"):
        registry.connections.connect(instance.id, "github", access_token=f"{CANARY}-c")
    assert registry.connections.list(instance.id) == ()


# Cells and images


def test_a_cells_spec_lists_the_machines_that_should_be(registry: Registry) -> None:
    ada, bob, eve = (placed(registry, alias) for alias in ("ada", "bob", "eve"))
    registry.instances.mark_for_deletion(bob.id, why="terminate")
    registry.terminations.terminate(eve.id)
    spec = registry.cells.spec(CELL)
    assert [(machine.name, machine.owner) for machine in spec.machines] == [(ada.machine_name, ada.id)]
    assert registry.cells.machines_to_delete(CELL) == {bob.machine_name}
    assert registry.cells.get(CELL).machines == 2


def test_a_cell_knows_whose_machines_are_being_resized(registry: Registry) -> None:
    ada, bob = (placed(registry, alias) for alias in ("ada", "bob"))
    subject = f"instance/{ada.id}"
    operation = registry.operations.open(OperationKind.RESIZE, subject, instance_id=ada.id)
    registry.operations.open(OperationKind.SUSPEND, f"instance/{bob.id}", instance_id=bob.id)
    assert registry.cells.resized_machines(CELL) == {ada.machine_name}
    registry.operations.finish(operation.id, OperationStatus.DONE, "heavy")
    assert registry.cells.resized_machines(CELL) == frozenset()


def test_a_cell_is_made_once(registry: Registry) -> None:
    for alias in ("ada", "bob"):
        placed(registry, alias)
    (cell,) = registry.cells.list()
    assert (cell.name, cell.region, cell.only_plan, cell.machines, cell.applied_at) == (CELL, "hel1", None, 2, None)
    assert registry.cells.get(CELL) == cell
    with pytest.raises(UsageError, match=f"no cell 'cell9'; nearest: {CELL}"):
        registry.cells.get(CellName("cell9"))


def test_the_newest_image_of_a_name_is_found(registry: Registry, clock: TurnedClock) -> None:
    for number in (1, 2):
        registry.images.record(
            ImageId(f"i-{number}"), name="hermes-base", digest=f"d{number}", manifest={"packages": {"nftables": "1"}}
        )
        clock.turn(60)
    registry.images.record(ImageId("i-3"), name="other", digest="d3")
    newest = registry.images.latest("hermes-base")
    assert newest is not None
    assert (newest.id, newest.digest, newest.manifest) == ("i-2", "d2", {"packages": {"nftables": "1"}})
    assert registry.images.record(ImageId("i-2"), name="hermes-base", digest="changed").digest == "d2"
    assert [image.id for image in registry.images.list("hermes-base")] == ["i-2", "i-1"]
    assert registry.images.latest("nothing") is None


def test_an_older_image_that_is_asked_for_again_is_what_machines_boot_from(
    registry: Registry, clock: TurnedClock
) -> None:
    for image_id, digest in (("i-1", "d1"), ("i-2", "d2"), ("i-1", "d1"), ("i-1", "d1")):
        registry.images.record(ImageId(image_id), name="hermes-base", digest=digest)
        clock.turn(60)
    chosen = registry.images.latest("hermes-base")
    assert chosen is not None
    assert chosen.id == "i-1"
    assert [image.id for image in registry.images.list("hermes-base")] == ["i-2", "i-1"]
    assert [entry.action for entry in registry.audit.list()].count("image_chosen") == 1


# Operations


def test_an_unfinished_operation_is_found_instead_of_opened(registry: Registry) -> None:
    first = registry.operations.open(OperationKind.PROVISION, "instance/a", intent={"plan": "light"})
    assert registry.operations.open(OperationKind.PROVISION, "instance/a", intent={"plan": "heavy"}) == first
    assert registry.operations.open(OperationKind.RESTART, "instance/a").id != first.id
    registry.operations.record_step(first.id, "growing the cell")
    running = registry.operations.open(OperationKind.PROVISION, "instance/a")
    assert (running.id, running.status, running.step) == (first.id, OperationStatus.RUNNING, "growing the cell")
    registry.operations.finish(first.id, OperationStatus.DONE, "ada lives")
    assert registry.operations.open(OperationKind.PROVISION, "instance/a").id != first.id


def test_operations_opened_at_once_are_one(url: str) -> None:
    registries = [registry_at(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        operation_ids = pool.map(
            lambda r: r.operations.open(OperationKind.STACK_UP, "stack/fleet/cell1").id, registries
        )
        assert len(set(operation_ids)) == 1
    for registry in registries:
        registry.close()


def test_an_ended_operation_does_not_move(registry: Registry) -> None:
    operation = registry.operations.open(OperationKind.RESTART, "instance/a")
    registry.operations.finish(operation.id, OperationStatus.FAILED, "refused")
    registry.operations.finish(operation.id, OperationStatus.FAILED, "refused")
    with pytest.raises(RefusedError, match="has ended"):
        registry.operations.record_step(operation.id, "again")
    with pytest.raises(RefusedError, match="has ended"):
        registry.operations.finish(operation.id, OperationStatus.DONE, "fine")
    ended = registry.operations.get(operation.id[:8])
    assert (ended.status, ended.outcome) == (OperationStatus.FAILED, "refused")


def test_operations_are_listed(registry: Registry, clock: TurnedClock) -> None:
    instance = placed(registry)
    old = registry.operations.open(OperationKind.PROVISION, f"instance/{instance.id}", instance_id=instance.id)
    registry.operations.finish(old.id, OperationStatus.DONE, "")
    clock.turn(5)
    new = registry.operations.open(OperationKind.RESTART, f"instance/{instance.id}", instance_id=instance.id)
    assert [o.id for o in registry.operations.list(instance_id=instance.id)] == [new.id, old.id]
    assert [o.id for o in registry.operations.list(unfinished=True)] == [new.id]
    assert [o.id for o in registry.operations.list(kind=OperationKind.PROVISION)] == [old.id]
    for text in ("", "ffffffff-0000"):
        with pytest.raises(UsageError, match="no operation "):
            registry.operations.get(text)


# Leases and the epoch


def test_a_held_lease_is_refused_and_names_its_holder(registry: Registry, clock: TurnedClock) -> None:
    lease = registry.leases.take("instance/a", "host1:77:ab")
    assert (lease.epoch, lease.counter) == (1, 1)
    with pytest.raises(RefusedError, match="host1:77:ab"):
        registry.leases.take("instance/a", "host2:1:cd")
    assert registry.leases.take("instance/b", "host2:1:cd").counter == 1
    assert [held.subject for held in registry.leases.list()] == ["instance/a", "instance/b"]
    clock.turn(14.9)
    with pytest.raises(RefusedError, match="being worked on by host1:77:ab"):
        registry.leases.take("instance/a", "host2:1:cd")


def test_a_lease_ends_with_a_holder_that_is_known_to_be_gone_and_with_no_other(registry: Registry) -> None:
    stale = registry.leases.take("instance/a", "dead")
    fresh = registry.leases.take("instance/a", "two", over="dead")
    assert (fresh.epoch, fresh.counter) > (stale.epoch, stale.counter)
    with pytest.raises(LeaseHeldError, match="being worked on by two") as held:
        registry.leases.take("instance/a", "three", over="dead")
    assert held.value.holder == "two"
    assert registry.leases.renew([stale]) == {"instance/a"}


def test_an_expired_lease_is_taken_over_with_a_higher_number(registry: Registry, clock: TurnedClock) -> None:
    stale = registry.leases.take("instance/a", "one")
    clock.turn(15)
    fresh = registry.leases.take("instance/a", "two")
    assert (fresh.epoch, fresh.counter) > (stale.epoch, stale.counter)
    assert registry.leases.renew([stale]) == {"instance/a"}
    registry.leases.release(stale)
    assert registry.leases.renew([fresh]) == frozenset()


def test_an_earlier_lease_of_the_same_holder_is_lost(registry: Registry, clock: TurnedClock) -> None:
    """A process has one name for all of its leases; only the number tells them apart."""
    operation = registry.operations.open(OperationKind.RESTART, "instance/a")
    stale = registry.leases.take("instance/a", "one")
    clock.turn(15)
    fresh = registry.leases.take("instance/a", "one")
    assert (fresh.holder, fresh.epoch, fresh.counter) == (stale.holder, stale.epoch, stale.counter + 1)
    assert registry.leases.renew([stale]) == {"instance/a"}
    with pytest.raises(LeaseLostError, match="the lease of instance/a is lost"):
        registry.operations.record_step(operation.id, "restarting", lease=stale)
    registry.leases.release(stale)
    assert registry.leases.renew([fresh]) == frozenset()
    registry.operations.record_step(operation.id, "restarting", lease=fresh)


def test_renewal_lasts_from_the_last_one(registry: Registry, clock: TurnedClock) -> None:
    lease = registry.leases.take("instance/a", "one")
    for _ in range(5):
        clock.turn(10)
        assert registry.leases.renew([lease]) == frozenset()
    with pytest.raises(RefusedError, match="being worked on by one"):
        registry.leases.take("instance/a", "two")


def test_a_released_lease_is_free_and_its_number_is_not_given_again(registry: Registry) -> None:
    first = registry.leases.take("instance/a", "one")
    registry.leases.release(first)
    assert registry.leases.renew([first]) == {"instance/a"}
    assert registry.leases.take("instance/a", "two").counter == first.counter + 1


def test_many_leases_are_renewed_together_and_the_lost_ones_are_named(registry: Registry, clock: TurnedClock) -> None:
    held = [registry.leases.take(f"instance/{number}", "one") for number in range(300)]
    clock.turn(LEASE_S + 1)
    taken = registry.leases.take("instance/7", "two")
    registry.leases.release(held[9])
    clock.turn(LEASE_S - 1)
    assert registry.leases.renew(held) == {"instance/7", "instance/9"}
    assert registry.leases.renew([taken]) == frozenset()
    clock.turn(LEASE_S - 1)
    with pytest.raises(LeaseHeldError, match="one"):
        registry.leases.take("instance/299", "two")
    clock.turn(2)
    assert registry.leases.take("instance/299", "two").counter == held[299].counter + 1


def test_no_lease_is_renewed_without_harm(registry: Registry) -> None:
    assert registry.leases.renew([]) == frozenset()


def test_of_many_takers_one_wins(url: str) -> None:
    registries = [registry_at(url) for _ in range(6)]

    def take(numbered: tuple[int, Registry]) -> bool:
        try:
            numbered[1].leases.take("instance/a", f"holder{numbered[0]}")
        except RefusedError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(take, enumerate(registries))) == 1
    for registry in registries:
        registry.close()


def test_who_lost_the_lease_records_nothing_more(registry: Registry, clock: TurnedClock) -> None:
    operation = registry.operations.open(OperationKind.PROVISION, "instance/a")
    stale = registry.leases.take("instance/a", "one")
    registry.operations.record_step(operation.id, "first", lease=stale)
    clock.turn(20)
    fresh = registry.leases.take("instance/a", "two")
    attempts: list[Callable[[], None]] = [
        lambda: registry.operations.record_step(operation.id, "late", lease=stale),
        lambda: registry.operations.finish(operation.id, OperationStatus.DONE, "late", lease=stale),
    ]
    for attempt in attempts:
        with pytest.raises(RefusedError, match="is lost"):
            attempt()
    assert registry.operations.get(operation.id).step == "first"
    registry.operations.record_step(operation.id, "second", lease=fresh)


def test_a_new_epoch_outranks_every_number_before(registry: Registry) -> None:
    old = registry.leases.take("instance/a", "one")
    assert registry.epochs.open("restored from backup") == 2
    new = registry.leases.take("instance/a", "two")
    assert (new.epoch, new.counter) == (2, 1)
    assert (new.epoch, new.counter) > (old.epoch, old.counter)
    assert registry.leases.renew([old]) == {old.subject}


# Audit


@pytest.mark.parametrize("statement", ["UPDATE audit SET why = 'another'", "DELETE FROM audit"])
def test_the_database_refuses_to_rewrite_the_audit(registry: Registry, statement: str) -> None:
    registry.audit.append("command_run", "instance/a", why="looking for the leak", after={"exit_code": 0})
    with (
        registry._database._engine.connect().execution_options(hermesops_writes=True) as connection,
        pytest.raises(sa.exc.DBAPIError, match="only ever appended to"),
    ):
        connection.execute(sa.text(statement))
    (entry,) = registry.audit.list()
    assert (entry.action, entry.why, entry.after) == ("command_run", "looking for the leak", {"exit_code": 0})


def test_a_change_that_fails_leaves_no_audit_entry(registry: Registry) -> None:
    instance = placed(registry)
    registry.terminations.terminate(instance.id)
    before = registry.audit.list()
    with pytest.raises(RefusedError, match="terminated for good"):
        registry.instances.set_machine(instance.id, MachineId("m-9"))
    assert registry.audit.list() == before


# Between processes


@pytest.mark.turns(7)
def test_three_processes_provision_one_row(url: str) -> None:
    script = textwrap.dedent(
        f"""
        from tests.support.real.stores.registries import placed, registry_at
        print(placed(registry_at({url!r})).id)
        """
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        for _ in range(3)
    ]
    reports = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert reports == {registry_at(url).instances.find("ada").id}


def test_readers_are_not_held_up_by_a_writer(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    instance = placed(registry)
    with registry._database.writing() as connection:
        connection.execute(tables.meta.insert().values(name="half", value="done"))
        reader = registry_at(f"sqlite:///{tmp_path}/registry.db")
        assert reader.instances.get(InstanceId(instance.id)) == instance


# Damage


def test_a_file_that_is_no_database_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    file.write_text("this was a database once, and long enough to be looked at " * 20)
    with pytest.raises(Exception, match="is damaged") as damaged:
        registry_at(f"sqlite:///{file}")
    assert getattr(damaged.value, "exit_code", None) == 70
    assert "\n" not in str(damaged.value)
    assert str(file) in str(damaged.value)


def test_damage_of_which_sqlite_says_what_is_no_text_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    registry_at(f"sqlite:///{file}").close()
    of_no_text(file)
    with pytest.raises(BrokenInvariantError, match="is damaged"):
        registry_at(f"sqlite:///{file}").instances.list()


def test_a_truncated_database_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    registry = registry_at(f"sqlite:///{file}")
    placed(registry)
    registry.close()
    content = file.read_bytes()
    file.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with pytest.raises(Exception, match="is damaged") as damaged:
        registry_at(f"sqlite:///{file}").instances.list()
    assert getattr(damaged.value, "exit_code", None) == 70


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    instance = placed(registry)

    def write_too_much() -> None:
        with registry._database.writing() as connection:
            # SQLite's own limit on a file's size answers as a disk without room does.
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            connection.execute(tables.meta.insert().values(name="large", value="x" * 10_000_000))

    with pytest.raises(UnavailableError, match="full") as full:
        write_too_much()
    assert "\n" not in str(full.value)
    registry.close()
    again = registry_at(f"sqlite:///{tmp_path}/registry.db")
    assert again.instances.get(instance.id) == instance
    with again._database.reading() as connection:
        assert connection.scalar(sa.select(tables.meta.c.value).where(tables.meta.c.name == "large")) is None


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/state/registry.db")
    placed(registry)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (tmp_path / "state").iterdir()}
    assert set(modes.values()) == {"0o600"}
    assert "registry.db-wal" in modes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql://x/y", "cannot be kept in mysql"),
        ("nonsense", "is malformed"),
        ("sqlite://", "cannot be kept in sqlite"),
    ],
)
def test_a_url_of_another_kind_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Database(text)


@pytest.mark.postgres
def test_a_server_that_is_away_is_unavailable_and_its_password_unsaid(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not answer") as away:
        registry_at(f"postgresql://me:{CANARY}@127.0.0.1:1/x?host={tmp_path}")
    assert getattr(away.value, "exit_code", None) == 4
    assert CANARY not in str(away.value)


def test_a_provider_with_fields_of_a_later_hermesops_is_not_read_as_less(registry: Registry) -> None:
    ada = placed(registry)
    later = {"provider": "openai", "model": "m", "key": "k" * 20, "of_a_later_one": "x"}
    with registry._database.writing() as connection:
        sealed = registry.instance_secrets.seal_in(connection, json.dumps({"provider": later}), "settings", ada.id)
        update_details(connection, ada.id, settings=sealed)
    with pytest.raises(BrokenInvariantError, match=r"does not know: of_a_later_one$"):
        registry.instance_secrets.settings(ada.id)
