"""Recovery records: what opens backups and volumes comes back after the registry is lost, and only to its own instance.

Real S3 and IAM, real registries; each test has instances of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.agents.backup.recovery_records import RecoveryRecords
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Repository
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.record import RecoveryRecord
from hermesops.model.recovery.state import Part, State
from hermesops.store.registry import Registry
from hermesops.store.registry.transactions.recovery_records import TakenBack
from tests.support.real.stores.object_store import ServedStore, served_store
from tests.support.real.stores.recovery_records import records_of
from tests.support.real.stores.registries import KEYS, placed, registry_at

pytestmark = pytest.mark.turns(10)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
VOLUME = "5c0e0000-0000-4000-8000-000000000001"
FRESH = "f" * 64


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    with served_store(tmp_path_factory.mktemp("store") / "world") as up:
        yield up


class World:
    """A registry beside an object store; ``lose`` begins an empty one with the same key."""

    def __init__(self, served: ServedStore, folder: Path) -> None:
        self.store = served.platform
        self._folder = folder
        self._lost = 0
        self.registry = self._opened()
        self.written: list[tuple[str, str]] = []

    def _opened(self, keys: KeyRing = KEYS) -> Registry:
        return registry_at(f"sqlite:///{self._folder}/registry-{self._lost}.db", keys=keys)

    async def find(self) -> ObjectStore:
        return self.store

    @property
    def records(self) -> RecoveryRecords:
        return records_of(self.registry, self.find)

    @property
    def keys(self) -> Keys:
        async def begin(_repository: Repository, _password: str) -> None:
            """Nothing is copied by restic here."""

        return Keys(self.registry, self.find, "test", begin, self.records)

    async def backed_up(self, alias: str = "ada", count: int = 1) -> Instance:
        """An instance with a repository, a volume and backups."""
        instance = self.registry.instances.set_machine(placed(self.registry, alias).id, MachineId(f"of-{alias}"))
        self.registry.data_keys.release(volume_of(alias), MachineId(f"of-{alias}"), None, fresh=f"{alias}-key")
        await self.keys.open(instance.id)
        for number in range(count):
            self.registry.backups.record(backup(instance.id, f"{alias}{number}", number))
        await self.keys.save_record(instance.id)
        return instance

    async def lose(self) -> None:
        self.registry.close()
        self._lost += 1
        self.registry = self._opened()

    async def rebuilt(self) -> dict[InstanceId, RecoveryRecord]:
        """Write what the records alone say into an empty registry."""
        stored_records = await self.records.stored.all(KEYS)
        assert not stored_records.unread
        for record in stored_records.records.values():
            self.registry.recovery.recover_instance(record.instance, why="test")
            self.registry.recovery_records.take_back(record)
        return dict(stored_records.records)


@pytest.fixture
async def world(served: ServedStore, tmp_path: Path) -> World:
    world = World(served, tmp_path)
    for name in await records_of(world.registry, world.find).stored.names():
        await world.records.remove(name)
    return world


def volume_of(alias: str) -> str:
    return VOLUME[: -len(alias)] + alias.encode().hex()[-len(alias) :]


def backup(instance_id: InstanceId, id_: str, day: int) -> Backup:
    state = State({"memory": Part(1, "ab" * 32)})
    return Backup(id_, instance_id, NOW + timedelta(days=day), f"daily {day}", 10, 1, state, NOW, "")


async def test_a_lost_registry_gets_back_passwords_volumes_backups_and_names(world: World) -> None:
    instances = [await world.backed_up(alias, count) for alias, count in (("ada", 3), ("bob", 1))]
    registry = world.registry
    before = {
        instance.id: (
            registry.backups.repository_keys(instance.id).password,  # type: ignore[union-attr] # each has one
            registry.backups.list(instance.id),
            registry.instances.get(instance.id).user_alias,
            registry.instance_secrets.api_server_key(instance.id),
        )
        for instance in instances
    }
    await world.lose()
    await world.rebuilt()
    registry = world.registry
    after = {
        instance.id: (
            registry.backups.repository_keys(instance.id).password,  # type: ignore[union-attr] # as above
            registry.backups.list(instance.id),
            registry.instances.get(instance.id).user_alias,
            registry.instance_secrets.api_server_key(instance.id),
        )
        for instance in instances
    }
    assert after == before
    for instance in instances:
        alias, machine = instance.user_alias, MachineId(f"of-{instance.user_alias}")
        assert registry.data_keys.release(volume_of(alias), machine, instance.id, fresh=FRESH) == f"{alias}-key"
    # Twice changes nothing, and the next backup gets a credential of its own.
    entries = len(registry.audit.list())
    await world.rebuilt()
    assert len(registry.audit.list()) == entries
    assert (await world.keys.open(instances[0].id)).password == before[instances[0].id][0]


async def test_a_repository_is_begun_only_once_its_password_is_recorded(world: World) -> None:
    numbers: list[int] = []

    async def begin(_repository: Repository, _password: str) -> None:
        numbers.append(len(await world.records.stored.names()))

    ada = placed(world.registry)
    await Keys(world.registry, world.find, "test", begin, world.records).open(ada.id)
    assert numbers == [1]


async def test_a_first_backup_after_a_rebuild_without_the_store_takes_the_password_back(world: World) -> None:
    ada = await world.backed_up()
    held = world.registry.backups.repository_keys(ada.id)
    assert held
    await world.lose()
    again = placed(world.registry)
    world.registry.close()
    # A machine that boots in between is given a wrong key, for want of the right one.
    await world.lose()
    record = (await world.records.stored.all(KEYS)).records[ada.id]
    assert again.user_id == ada.user_id
    world.registry.recovery.recover_instance(replace(record.instance, user_alias=""), why="t")
    assert world.registry.data_keys.release(volume_of("ada"), MachineId("of-ada"), ada.id, fresh=FRESH) == FRESH
    assert (await world.keys.open(ada.id)).password == held.password
    assert world.registry.data_keys.release(volume_of("ada"), MachineId("of-ada"), ada.id, fresh="x") == "ada-key"
    assert world.registry.instances.get(ada.id).user_alias == "ada"


async def test_an_older_copy_of_the_registry_takes_back_newer_backups_and_no_forgotten_ones(world: World) -> None:
    ada = await world.backed_up(count=3)
    record = (await world.records.stored.all(KEYS)).records[ada.id]
    world.registry.backups.forget(ada.id, ["ada0"], why="retention")
    assert world.registry.recovery_records.take_back(record) == TakenBack()
    world.registry.backups.forget(ada.id, ["ada2"], why="as in a copy of before it")
    assert world.registry.recovery_records.take_back(record) == TakenBack(backups=1)
    assert [backup.id for backup in world.registry.backups.list(ada.id)] == ["ada2", "ada1"]


async def test_a_record_opens_with_its_key_at_its_instance_alone_and_shows_nothing(
    world: World, served: ServedStore
) -> None:
    ada, bob = [await world.backed_up(alias) for alias in ("ada", "bob")]
    stored, registry = world.records.stored, world.registry
    names = await stored.names()
    password = registry.backups.repository_keys(ada.id)
    assert password
    (name,) = names[ada.id]
    content = served.platform.get(f"test/recovery/{ada.id}/{name}")
    secrets = (password.password, "ada-key", registry.instance_secrets.api_server_key(ada.id), "ada", ada.user_id)
    assert not [secret for secret in secrets if secret.encode() in content]
    served.platform.put(f"test/recovery/{bob.id}/{name}", content)
    with pytest.raises(RefusedError, match="cannot be decrypted"):
        await stored.read(bob.id, name, KEYS)
    for other in (KeyRing("k1", {"k1": bytes(32)}), KeyRing("k2", {"k2": bytes(32)})):
        stored_records = await stored.all(other)
        assert not stored_records.records
        assert ada.id in stored_records.unread


async def test_a_machines_credential_neither_reads_nor_writes_records(world: World, served: ServedStore) -> None:
    ada = await world.backed_up()
    (name,) = (await world.records.stored.names())[ada.id]
    key = f"test/recovery/{ada.id}/{name}"
    s3: Any = served.s3((await world.keys.open(ada.id)).credential)
    requests: dict[str, Callable[[], object]] = {
        "read": lambda: s3.get_object(Bucket="backups", Key=key),
        "write": lambda: s3.put_object(Bucket="backups", Key=key, Body=b""),
        "delete": lambda: s3.delete_object(Bucket="backups", Key=key),
        "list": lambda: s3.list_objects_v2(Bucket="backups", Prefix="test/recovery/"),
    }
    for what, ask in requests.items():
        with pytest.raises(s3.exceptions.ClientError) as refused:
            ask()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403, what


async def test_a_record_follows_its_instance_and_leaves_no_version_behind(world: World, served: ServedStore) -> None:
    ada = await world.backed_up()
    changes: tuple[Callable[[], object], ...] = (
        lambda: world.registry.backups.record(backup(ada.id, "later", 9)),
        lambda: world.registry.terminations.terminate(ada.id),
    )
    for change in changes:
        change()
        await world.records.save(ada.id)
        await world.records.save(ada.id)
        assert _versions(served, ada) == 1
    record = (await world.records.stored.all(KEYS)).records[ada.id]
    assert record.volumes == (), "the key of a volume is destroyed with its instance"
    await world.keys.remove_record(ada.id)
    assert _versions(served, ada) == 0


async def test_an_ended_instance_without_a_repository_keeps_no_record(world: World) -> None:
    ada = await world.backed_up()
    world.registry.terminations.terminate(ada.id)
    await world.records.save(ada.id)
    assert (await world.records.stored.all(KEYS)).records[ada.id].password, "its backups are kept for a while"
    before = (await world.records.stored.all(KEYS)).records[ada.id]
    await world.keys.remove_record(ada.id)
    world.registry.backups.forget_repository(ada.id, why="long ago")
    await world.records.save_all()
    assert await world.records.stored.names() == {}
    # Where only the row came back, as a rebuild that was killed leaves it, the record is read before it goes.
    world.registry.recovery_records.take_back(before)
    await world.records.save(ada.id)
    world.registry.backups.forget_repository(ada.id, why="as if it had not been taken back")
    await world.records.save(ada.id)
    assert world.registry.backups.repository_keys(ada.id)


async def test_every_instance_is_recorded_by_the_hourly_job_and_sealed_anew_with_a_new_key(world: World) -> None:
    ended = await world.backed_up("ada")
    world.registry.terminations.terminate(ended.id)
    again = placed(world.registry, "ada")
    world.registry.backups.make_repository(again.id, "another")
    assert await world.records.save_all() == {f"ada ({ended.id})": "", f"ada ({again.id})": ""}
    assert (await world.records.stored.names()).keys() == {ended.id, again.id}
    for instance in (ended, again):
        world.registry.terminations.terminate(instance.id)
        world.registry.backups.forget_repository(instance.id, why="t")
        await world.records.remove(instance.id)
    ada, bob = [await world.backed_up(alias) for alias in ("bea", "bob")]
    await world.records.remove(ada.id)
    world.store.put(f"test/recovery/{ada.id}/UPPER", b"")  # nothing of ours has such a name
    world.store.put("test/recovery/nobody/k1-0", b"")
    assert await world.records.save_all() == {"bea": "", "bob": ""}
    before = await world.records.stored.names()
    assert await world.records.save_all() == {"bea": "", "bob": ""}
    assert await world.records.stored.names() == before
    world.registry.close()
    both = KeyRing("k1", {"k1": bytes(range(32)), "k9": bytes(range(1, 33))})
    world.registry = world._opened(both)
    world.registry.sealing.use("k9", why="t")
    records = records_of(world.registry, world.find, keys=both)
    assert await records.save_all() == {"bea": "", "bob": ""}
    new = await records.stored.all(KeyRing("k9", {"k9": bytes(range(1, 33))}))
    assert new.records.keys() == {ada.id, bob.id}


async def test_an_agent_that_was_never_backed_up_keeps_its_name_when_the_registry_is_lost(world: World) -> None:
    ada = world.registry.instances.set_machine(placed(world.registry, "ada").id, MachineId("of-ada"))
    placed(world.registry, "bob")  # without a machine there is nothing to recover
    ended = world.registry.instances.set_machine(placed(world.registry, "cy").id, MachineId("of-cy"))
    world.registry.terminations.terminate(ended.id)
    assert await world.records.save_all() == {"ada": ""}
    await world.lose()
    await world.rebuilt()
    assert world.registry.instances.get(ada.id).user_alias == "ada"
    world.registry.terminations.terminate(ada.id)
    await world.records.save_all()
    assert await world.records.stored.names() == {}


class CutStore(ObjectStore):
    """An object store whose Nth change is not made: whoever asked for it died."""

    def __init__(self, served: ServedStore, before: int) -> None:
        super().__init__(served.bucket, served.key_file, is_local=True)
        self._left = before

    def put(self, name: str, content: bytes) -> None:
        self._count()
        super().put(name, content)

    def remove(self, name: str) -> None:
        self._count()
        super().remove(name)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise UnavailableError("killed")


async def test_killed_at_any_change_the_next_save_ends_it_and_the_password_is_never_gone(
    world: World, served: ServedStore
) -> None:
    ada = await world.backed_up()
    held = world.registry.backups.repository_keys(ada.id)
    assert held
    for number in range(2):
        world.registry.backups.record(backup(ada.id, f"more{number}", 20 + number))
        cut = CutStore(served, number)

        async def find(cut: CutStore = cut) -> ObjectStore:
            return cut

        with pytest.raises(UnavailableError, match="killed"):
            await records_of(world.registry, find).save(ada.id)
        records = (await world.records.stored.all(KEYS)).records
        assert records[ada.id].password == held.password, f"killed at change {number}"
        await world.records.save(ada.id)
        (record,) = (await world.records.stored.all(KEYS)).records.values()
        assert record.backups[0].id == f"more{number}"


async def test_another_password_than_the_records_is_refused_and_nothing_is_overwritten(world: World) -> None:
    ada = await world.backed_up()
    before = await world.records.stored.names()
    await world.lose()
    record = (await world.records.stored.all(KEYS)).records[ada.id]
    world.registry.recovery.recover_instance(record.instance, why="t")
    world.registry.backups.make_repository(ada.id, "made without looking")
    with pytest.raises(RefusedError, match="another password"):
        await world.records.save(ada.id)
    assert await world.records.stored.names() == before


def _versions(served: ServedStore, instance: Instance) -> int:
    s3 = served.s3(served.platform.credential())
    listed = s3.list_object_versions(Bucket="backups", Prefix=f"test/recovery/{instance.id}/")
    return len(listed.get("Versions", [])) + len(listed.get("DeleteMarkers", []))
