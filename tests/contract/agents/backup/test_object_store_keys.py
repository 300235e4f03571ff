"""Users' keys and objects, of the local world's object store and of a simulated one: the same promises of both."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.simulated import SimulatedStore
from hermesops.app.adapters import SimulatedAdapters
from hermesops.base.network.aws_client import AbsentError
from hermesops.errors import UnavailableError
from hermesops.model.ids import InstanceId
from tests.support.real.stores.object_store import served_store

pytestmark = pytest.mark.turns(6)

INSTANCE = InstanceId("11111111-aaaa")
USER = "test-keys"
KeysOf = Callable[[], set[str]]


def _simulated(world: Path) -> tuple[ObjectStore, KeysOf]:
    world.mkdir()
    store = SimulatedStore(world, "backups")
    store.prepare()
    return store, lambda: store.keys_of(USER)


@pytest.fixture(params=["simulated", "served"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ObjectStore, KeysOf]]:
    """A store, and how its owner looks which keys of a user count."""
    if request.param == "simulated":
        yield _simulated(tmp_path / "world")
        return
    with served_store(tmp_path / "world") as served:
        store = served.platform

        def keys() -> set[str]:
            if not store._has(USER):
                return set()
            return {entry["AccessKeyId"] for entry in store._iam.list_access_keys(UserName=USER)["AccessKeyMetadata"]}

        yield store, keys


def test_keys_are_issued_kept_retired_and_revoked(both: tuple[ObjectStore, KeysOf]) -> None:
    store, keys = both
    repository = store.bucket.repository("test", INSTANCE)
    assert keys() == set()
    store.revoke(USER)  # absent is success
    first = store.issue(USER, repository)
    second = store.issue(USER, repository, keep=first.access_key)
    assert keys() == {first.access_key, second.access_key}
    assert first.secret_key != second.secret_key
    store.retire(USER, keep=second.access_key)
    assert keys() == {second.access_key}
    third = store.issue(USER, repository)
    assert keys() == {third.access_key}, "every other one ends"
    store.answers()
    store.erase(repository)
    store.erase(repository)
    assert store.credential().access_key
    store.revoke(USER)
    store.revoke(USER)
    assert keys() == set()


async def test_a_simulated_world_builds_and_starts_no_server(tmp_path: Path) -> None:
    async def start() -> dict[str, str]:
        raise AssertionError("the S3 server would be built from source")

    world = tmp_path / "world"
    store = await SimulatedAdapters(world).local_store(start)
    with pytest.raises(UnavailableError, match="no world"):
        store.prepare()
    world.mkdir()
    store.prepare()
    credential = store.issue(USER, store.bucket.repository("test", INSTANCE))
    (kept,) = (world / "object-store-users" / USER).iterdir()
    assert (kept.name, kept.read_text(), kept.stat().st_mode & 0o777) == (
        credential.access_key,
        credential.secret_key,
        0o600,
    )


def test_objects_are_written_listed_read_and_removed(both: tuple[ObjectStore, KeysOf]) -> None:
    store, _ = both
    assert store.names("test/recovery/") == []
    for name in ("test/recovery/b/1", "test/recovery/a/2", "test/other"):
        store.put(name, name.encode())
    assert sorted(store.names("test/recovery/")) == ["test/recovery/a/2", "test/recovery/b/1"]
    store.put("test/recovery/b/1", b"anew")
    assert store.get("test/recovery/b/1") == b"anew"
    for _ in range(2):
        store.remove("test/recovery/b/1")  # absent is success
    with pytest.raises(AbsentError, match="test/recovery/b/1"):
        store.get("test/recovery/b/1")
