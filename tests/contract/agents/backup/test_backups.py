"""Backups against a real object store and a real restic: what machines add, the platform proves."""

import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.agents.backup.proof.restore_check import Proof
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository_keys import Keys, Opened
from hermesops.agents.backup.store.restic import Restic
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup, Credential
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from hermesops.wire.state import tar_stream
from tests.support.real.stores.object_store import ServedStore, served_store
from tests.support.real.stores.recovery_records import records_of
from tests.support.real.stores.registries import placed, registry_at
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(11)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
Copy = Callable[[str], Awaitable[Backup]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    require(shutil.which("restic"), "restic")
    with served_store(tmp_path_factory.mktemp("store") / "world") as up:
        yield up


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    opened = registry_at(f"sqlite:///{tmp_path}/registry.db")
    yield opened
    opened.close()


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return placed(registry)


@pytest.fixture
def restic(store: ServedStore) -> Restic:
    async def credential() -> Credential:
        return store.platform.credential()

    return Restic(PATH, credential)


@pytest.fixture
def keys(store: ServedStore, registry: Registry, restic: Restic) -> Keys:
    platform = store.platform

    async def found() -> ObjectStore:
        return platform

    return Keys(registry, found, "test", restic.begin, records_of(registry, found))


def as_machine(opened: Opened, *words: str, given: Path | None = None) -> "subprocess.CompletedProcess[bytes]":
    """Run restic as an instance's machine does, with its credential alone."""
    environment = {
        **PATH,
        "RESTIC_REPOSITORY": opened.repository.url,
        "RESTIC_PASSWORD": opened.password,
        "AWS_ACCESS_KEY_ID": opened.credential.access_key,
        "AWS_SECRET_ACCESS_KEY": opened.credential.secret_key,
    }
    with (given or Path("/dev/null")).open("rb") as stdin:
        command = ["restic", "--no-cache", "--quiet", *words]
        return subprocess.run(command, env=environment, stdin=stdin, capture_output=True, check=False)


def packed(home: Path, target: Path) -> State:
    """A home as hermes-node packs it; what it amounts to."""
    with target.open("wb") as file:
        return State.from_json(tar_stream.pack(home, file).state)


@pytest.fixture
def copy(registry: Registry, keys: Keys, ada: Instance, tmp_path: Path) -> Copy:
    """Makes a backup of a small home, with a text in its memory."""

    async def make(text: str) -> Backup:
        home, stream = tmp_path / "home", tmp_path / "state.tar"
        (home / "memories").mkdir(parents=True, exist_ok=True)
        (home / "memories" / "MEMORY.md").write_text(text)
        state = packed(home, stream)
        opened = await keys.open(ada.id)
        done = as_machine(opened, "backup", "--json", "--stdin", "--stdin-filename", "state.tar", given=stream)
        assert done.returncode == 0, done.stderr
        listed = json.loads(as_machine(opened, "snapshots", "--json").stdout)
        backup = Backup(listed[-1]["id"], ada.id, NOW, f"daily {text}", 1, 1, state)
        registry.backups.record(backup)
        return backup

    return make


async def test_a_machine_adds_what_the_platform_proves(
    copy: Copy, registry: Registry, keys: Keys, restic: Restic, ada: Instance
) -> None:
    backup = await copy("likes tea")
    reports: list[str] = []
    proof = Proof(registry, keys, restic, reports.append)
    assert (await proof.check(backup)).is_proved
    assert "likes tea" not in "".join(reports)
    other = Backup(backup.id, ada.id, NOW, "", 1, 1, State({}))
    assert not (await proof.prove(other)).is_proved
    assert "memory: unknown, now 1" in registry.backups.get(ada.id, "").checked


async def test_a_damaged_repository_is_told_and_noted(
    copy: Copy, registry: Registry, keys: Keys, restic: Restic, store: ServedStore
) -> None:
    backup = await copy("likes coffee")
    s3 = store.s3(store.platform.credential())
    prefix = f"test/{backup.instance_id}/index/"  # restic asks ten times for data that is gone
    for content in s3.list_objects_v2(Bucket="backups", Prefix=prefix)["Contents"]:
        s3.delete_object(Bucket="backups", Key=content["Key"])
    checked = await Proof(registry, keys, restic, lambda _: None).check(backup)
    assert not checked.is_proved
    assert "damaged" in checked.checked


async def test_the_platform_takes_away_what_a_machine_cannot(
    copy: Copy, keys: Keys, restic: Restic, ada: Instance
) -> None:
    first = await copy("one")
    second = await copy("two")
    repository, password = await keys.for_platform(ada.id)
    assert {snapshot.id for snapshot in await restic.snapshots(repository, password)} == {first.id, second.id}
    await restic.forget(repository, password, [first.id])
    assert [snapshot.id for snapshot in await restic.snapshots(repository, password)] == [second.id]


async def test_a_rotated_key_opens_the_repository_and_the_old_one_does_not(
    copy: Copy, keys: Keys, ada: Instance
) -> None:
    await copy("one")
    before = await keys.open(ada.id)
    await keys.rotate(ada.id, why="test")
    after = await keys.open(ada.id)
    assert after.password == before.password
    assert as_machine(after, "cat", "config", "--no-lock").returncode == 0
    assert as_machine(before, "cat", "config", "--no-lock").returncode != 0
    await keys.revoke(ada.id)
    assert as_machine(after, "cat", "config", "--no-lock").returncode != 0


async def test_a_computer_without_restic_is_told_which_package(store: ServedStore) -> None:
    async def credential() -> Credential:
        return store.platform.credential()

    nowhere = Restic({"PATH": "/nonexistent"}, credential)
    with pytest.raises(RefusedError, match="no restic") as caught:
        await nowhere.begin(store.bucket.repository("test", InstanceId("x")), "word")
    assert str(caught.value.hint) == "apt-get install restic"


async def test_an_object_store_that_is_gone_is_told_at_once(registry: Registry, ada: Instance, restic: Restic) -> None:
    async def gone() -> ObjectStore:
        raise UnavailableError("the object store does not answer")

    with pytest.raises(UnavailableError, match="object store does not answer"):
        await Keys(registry, gone, "test", restic.begin, records_of(registry, gone)).open(ada.id)
    assert registry.backups.repository_keys(ada.id) is None
