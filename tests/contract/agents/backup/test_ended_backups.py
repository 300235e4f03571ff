"""What is left of an ended agent in a real object store goes after a while, and nothing of anybody else's."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermesops.agents.backup.retention.pruning import EndedBackups
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Repository
from hermesops.agents.backup.store.repository_contents import ResticContents
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup, Credential
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from tests.support.real.stores.object_store import ServedStore, served_store
from tests.support.real.stores.recovery_records import records_of
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.turns(6)

NAME = "backups"
DAY = 86_400
KEPT = timedelta(days=30)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    with served_store(tmp_path_factory.mktemp("store") / "world") as up:
        yield up


@pytest.fixture
def registry(tmp_path: Path, clock: TurnedClock) -> Iterator[Registry]:
    opened = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=clock)
    yield opened
    opened.close()


@asynccontextmanager
async def _alone(_subject: str) -> AsyncIterator[None]:
    yield


class Ended:
    """The subject of these tests, over one store and registry.

    Args:
        store: The store.
        registry: The registry.
    """

    def __init__(self, store: ServedStore, registry: Registry) -> None:
        platform = store.platform
        self.is_cut = False

        async def found() -> ObjectStore:
            return platform

        async def begin(_repository: Repository, _password: str) -> None:
            """Nothing is copied by restic here."""

        async def credential() -> Credential:
            return platform.credential()

        async def revoke(instance_id: InstanceId) -> None:
            if self.is_cut:
                raise UnavailableError("cut short")
            await self.keys.revoke(instance_id)

        self.keys = Keys(registry, found, "test", begin, records_of(registry, found))
        shelf = ResticContents(self.keys, Restic({}, credential), found)
        self.backups = EndedBackups(registry, shelf, revoke, self.keys.remove_record, _alone, KEPT)


@pytest.fixture
def ended(store: ServedStore, registry: Registry) -> Ended:
    return Ended(store, registry)


@pytest.fixture
def root(store: ServedStore) -> "S3Client":
    return store.s3(store.platform.credential())


async def _filled(ended: Ended, registry: Registry, root: "S3Client", name: str) -> Instance:
    """An instance with a repository: objects, one of them overwritten, one deleted."""
    instance = placed(registry, name)
    opened = await ended.keys.open(instance.id)
    for key in ("config", "config", "data/00/pack", "locks/one"):
        root.put_object(Bucket=NAME, Key=f"{opened.repository.prefix}/{key}", Body=b"sealed")
    root.delete_object(Bucket=NAME, Key=f"{opened.repository.prefix}/locks/one")
    registry.backups.record(Backup(f"{name}0", instance.id, NOON, "last", 1, 1, State({})))
    return instance


def _left(root: "S3Client", instance: Instance) -> int:
    listed = root.list_object_versions(Bucket=NAME, Prefix=f"test/{instance.id}/")
    return len(listed.get("Versions", [])) + len(listed.get("DeleteMarkers", []))


async def test_it_goes_after_its_time_and_nobody_elses_does(
    ended: Ended, registry: Registry, clock: TurnedClock, root: "S3Client"
) -> None:
    ada, bob = [await _filled(ended, registry, root, name) for name in ("ada", "bob")]
    registry.terminations.terminate(ada.id)
    clock.turn(29 * DAY)
    assert ended.backups.due() == []
    clock.turn(DAY)
    assert [instance.id for instance in ended.backups.due()] == [ada.id]
    await ended.backups.erase(ended.backups.due()[0])
    assert (_left(root, ada), _left(root, bob)) == (0, 5)
    assert registry.backups.repository_keys(ada.id) is None
    assert (registry.backups.list(ada.id), len(registry.backups.list(bob.id))) == ((), 1)
    assert ended.backups.due() == []


async def test_cut_short_the_next_run_finishes_it(
    ended: Ended, registry: Registry, clock: TurnedClock, root: "S3Client", store: ServedStore
) -> None:
    ada = await _filled(ended, registry, root, "ada")
    held = registry.backups.repository_keys(ada.id)
    assert held
    assert held.credential
    registry.terminations.terminate(ada.id)
    clock.turn(30 * DAY)
    ended.is_cut = True
    with pytest.raises(UnavailableError, match="cut short"):
        await ended.backups.erase(ada)
    assert [instance.id for instance in ended.backups.due()] == [ada.id]
    ended.is_cut = False
    await ended.backups.erase(ada)
    assert _left(root, ada) == 0
    assert not await asyncio.to_thread(store.platform._has, f"hermesops-test-{ada.id}")


async def test_who_lives_keeps_everything(ended: Ended, registry: Registry, root: "S3Client") -> None:
    ada = await _filled(ended, registry, root, "ada")
    with pytest.raises(RefusedError, match="is not terminated"):
        await ended.backups.erase(ada)
    assert _left(root, ada) == 5
