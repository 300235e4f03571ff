"""A registry that contradicts itself says where; fleets, sightings and recovered instances, on both databases."""

from dataclasses import replace

import sqlalchemy as sa

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.fleet.overview import MachineObservation, RecordedInstance
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.schema import tables
from tests.support.fleets.in_memory import recovered
from tests.support.real.stores.registries import CELL, TurnedClock, placed, registry_at

MACHINE = MachineId("m-1")
SEEN = {"ada": "ready", "bob": "stopped", "dan": "ready"}


def edit(registry: Registry, table: sa.Table, **values: object) -> None:
    """Change every row of a table past all rules, as a hand with the database's password does."""
    with registry._database.writing() as connection:
        connection.execute(table.update().values(values))


def subjects(registry: Registry) -> list[str]:
    return [contradiction.subject for contradiction in registry.consistency.contradictions()]


def test_a_registry_of_ordinary_rows_contradicts_itself_nowhere(registry: Registry) -> None:
    running, ended = placed(registry, "ada"), placed(registry, "eve")
    registry.instances.set_machine(running.id, MACHINE)
    registry.instances.set_status(running.id, InstanceStatus.RUNNING)
    registry.connections.connect(running.id, "mail", access_token="a", refresh_token="b")
    registry.leases.take(f"instance/{running.id}", "me")
    registry.operations.open(OperationKind.RESTART, f"instance/{running.id}", instance_id=running.id)
    registry.terminations.terminate(ended.id)
    for kind in OperationKind:
        if not kind.needs_instance:
            registry.operations.open(kind, f"{kind}/1")
    assert registry.consistency.contradictions() == ()


def test_one_machine_of_two_instances(registry: Registry) -> None:
    first, second = placed(registry, "ada"), placed(registry, "eve")
    for instance in (first, second):
        registry.instances.set_machine(instance.id, MACHINE)
    [contradiction] = registry.consistency.contradictions()
    assert contradiction.subject == "machine/m-1"
    assert first.id in contradiction.what
    assert second.id in contradiction.what


def test_running_on_no_machine_and_named_as_of_another_environment(registry: Registry) -> None:
    instance = placed(registry, "ada")
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    edit(registry, tables.instance_details, machine_name="hermes-staging-cell1-0123456789ab")
    assert [contradiction.what.split(",")[0] for contradiction in registry.consistency.contradictions()] == [
        "its machine hermes-staging-cell1-0123456789ab has no name of environment local",
        "is running",
    ]


def test_an_instance_without_details(registry: Registry) -> None:
    instance = placed(registry, "ada")
    with registry._database.writing() as connection:
        connection.execute(tables.instance_details.delete())
    assert subjects(registry) == [f"instance/{instance.id}"]


def test_operations_of_no_instance_and_of_an_ended_one(registry: Registry) -> None:
    instance = placed(registry, "ada")
    of_nobody = registry.operations.open(OperationKind.PROVISION, "instance/gone")
    registry.terminations.terminate(instance.id)
    late = registry.operations.open(OperationKind.RESTART, f"instance/{instance.id}", instance_id=instance.id)
    by_subject = {contradiction.subject: contradiction for contradiction in registry.consistency.contradictions()}
    assert set(by_subject) == {f"operation/{of_nobody.id}", f"operation/{late.id}"}
    assert str(by_subject[f"operation/{late.id}"].hint) == f"hermesops operation abandon {late.id}"


def test_leases_of_nobody_and_of_an_epoch_that_has_not_begun(registry: Registry) -> None:
    nobody = "instance/9b2e3c1a-0000-4000-8000-000000000000"
    registry.leases.take(nobody, "me")
    assert subjects(registry) == [f"lease/{nobody}"]
    edit(registry, tables.leases, epoch=7, holder="")
    [contradiction] = registry.consistency.contradictions()
    assert "epoch 7" in contradiction.what


def test_secrets_that_another_key_sealed_are_named_and_not_repeated(registry_url: str) -> None:
    with_one_key = registry_at(registry_url, clock=TurnedClock())
    instance = placed(with_one_key, "ada")
    other = KeyRing("k2", {"k2": bytes(32)}).seal("canary-93", place="instance_details/api_server_key/x")
    edit(with_one_key, tables.instance_details, api_server_key=other)
    [contradiction] = with_one_key.consistency.contradictions()
    with_one_key.close()
    assert contradiction.subject == f"instance_details/api_server_key/{instance.id}"
    assert "canary-93" not in str(contradiction)


def test_a_fleet_in_one_look(registry: Registry) -> None:
    ada, ended = placed(registry, "ada", Plan.HEAVY), placed(registry, "eve")
    registry.instances.set_machine(ada.id, MACHINE)
    registry.terminations.terminate(ended.id)
    [ordered] = registry.fleet.list_ordered()
    assert (ordered.instance.id, ordered.server_type, ordered.region, ordered.wanted) == (
        ada.id,
        "starter",
        "hel1",
        True,
    )
    assert registry.fleet.ended_machines() == {ended.machine_name: ended.id}
    [tally] = registry.fleet.tally_cells()
    row = RecordedInstance(ada.id, "ada", Plan.HEAVY, InstanceStatus.PROVISIONING)
    assert (tally.cell, tally.region, tally.instances) == (CELL, "hel1", (row,))
    assert registry.recovery.accept_server_type(ada.id, "pro", why="asked") == "starter"
    assert registry.fleet.list_ordered()[0].server_type == "pro"


def test_what_machines_looked_like_and_what_has_changed_since(registry: Registry) -> None:
    first = MachineObservation(MACHINE, "hermes-a", "starter", "ready", "boot1")
    assert registry.observations.record([first]) == {}
    assert registry.observations.record([replace(first, boot_id="")])[MACHINE].boot_id == "boot1"
    record = registry.observations.record([replace(first, server_type="pro", boot_id="boot2")])
    assert record[MACHINE].boot_id == "boot1", "a look without asking the machine forgot its boot"
    assert record[MACHINE].boot_seen_at is not None
    registry.observations.record([])
    assert registry.observations.record([]) == {}
    reports = [entry.action for entry in reversed(registry.audit.list(subject="machine/hermes-a"))]
    assert reports == ["machine_resized_seen", "machine_reboot_seen", "machine_gone_seen"]


def machines(registry: Registry) -> dict[str, str]:
    """The statuses of instances' machines, by user."""
    return {
        recorded_instance.user: recorded_instance.machine_status
        for tally in registry.fleet.tally_cells()
        for recorded_instance in tally.instances
    }


def test_machines_of_instances_are_as_the_vendor_listed_them_last(registry: Registry) -> None:
    users = ("ada", "bob", "cleo", "dan", "eve")
    rows = {user: placed(registry, user) for user in users}
    for user in users[:-1]:
        registry.instances.set_machine(rows[user].id, MachineId(f"m-{user}"))
        registry.instances.set_status(rows[user].id, InstanceStatus.RUNNING)
    assert machines(registry) == dict.fromkeys(users, "")
    observations = [
        MachineObservation(MachineId(f"m-{user}"), user, "starter", status) for user, status in SEEN.items()
    ]
    registry.observations.record(observations, missing={MachineId("m-cleo"): "hermes-cleo"})
    registry.instances.set_machine(rows["dan"].id, MachineId("m-another"))
    assert machines(registry) == {"ada": "ready", "bob": "stopped", "cleo": "gone", "dan": "", "eve": ""}
    registry.observations.record(observations, missing={MachineId("m-cleo"): "hermes-cleo"})
    gone = [entry.action for entry in registry.audit.list(subject="machine/hermes-cleo")]
    assert gone == ["machine_gone_seen"], "what is gone is told once"
    registry.observations.record(
        [*observations, MachineObservation(MachineId("m-cleo"), "hermes-cleo", "starter", "ready")]
    )
    assert machines(registry)["cleo"] == "ready"


def test_when_machines_were_listed_last_is_remembered_even_where_nothing_changed(
    registry: Registry, clock: TurnedClock
) -> None:
    assert registry.observations.listed_at() is None
    registry.observations.record([])
    first = registry.observations.listed_at()
    clock.turn(60)
    registry.observations.record([])
    assert registry.observations.listed_at() == registry.now() != first


def test_an_instance_comes_back_once_with_everything_its_machine_remembers(registry: Registry) -> None:
    settings = InstanceSettings(messengers={"TELEGRAM_BOT_TOKEN": "1:x"}, cron=({"cron": "30m", "prompt": "hi"},))
    claim = replace(recovered(0), settings=settings, model_token_generation=4).called("ada")
    assert registry.recovery.recover_instance(claim, why="lost")
    assert not registry.recovery.recover_instance(claim, why="lost")
    instance = registry.instances.find("ada")
    assert (instance.id, instance.machine_id, instance.status) == (claim.id, claim.machine_id, InstanceStatus.RUNNING)
    assert (instance.cell, instance.epoch, instance.created_at) == (claim.cell, claim.epoch, claim.created_at)
    assert registry.instance_secrets.settings(claim.id) == settings
    assert registry.instance_secrets.api_server_key(claim.id) == claim.api_server_key
    assert registry.model_tokens.get(claim.id).generation == 4
    assert registry.consistency.contradictions() == ()


def test_a_user_has_one_living_instance_whatever_machines_say(registry: Registry) -> None:
    kept = replace(recovered(0), user_id=placed(registry, "ada").user_id)
    assert not registry.recovery.recover_instance(kept, why="lost")
    assert [row.user_alias for row in registry.instances.list()] == ["ada"]


def test_an_instance_takes_another_machine(registry: Registry) -> None:
    instance = placed(registry, "ada")
    registry.instances.mark_for_deletion(instance.id)
    name = MachineName("hermes-local-cell1-ffffffffffff")
    registry.recovery.take_machine(instance.id, MACHINE, name, why="found")
    [ordered] = registry.fleet.list_ordered()
    assert (ordered.instance.machine_name, ordered.instance.machine_id, ordered.wanted) == (name, MACHINE, True)
