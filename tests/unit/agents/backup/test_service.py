"""Backups go to the bucket that settings name, or to the local world's own object store."""

from pathlib import Path

import pytest

from hermesops.agents.backup.service import Backups, BackupStore
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.app.adapters import WorldAdapters
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.ids import InstanceId
from hermesops.settings.environment import Environment
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part

WHERE = {"region": "r", "endpoint": "http://store", "iam_endpoint": "http://iam", "key_file": "/keys/store"}


class LocalStore:
    """The local world's object store."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self) -> ObjectStore:
        async def start() -> dict[str, str]:
            self.asked += 1
            return WHERE

        return await WorldAdapters().local_store(start)


def environment(name: str, **variables: str) -> Environment:
    given = {f"HERMESOPS_{key}": value for key, value in variables.items()}
    return Environment.load(name, {"HOME": "/nowhere", "HERMESOPS_HOME": "/nowhere", **given})


def store(env: Environment, local: LocalStore) -> BackupStore:
    return BackupStore(env, part(find=lambda _: None), local)


async def test_the_local_worlds_store_is_asked_for_once() -> None:
    local = LocalStore()
    kept = store(environment("local"), local)
    assert kept.exists
    object_store = await kept.find()
    assert object_store is await kept.find()
    assert (object_store.bucket.endpoint, local.asked) == ("http://store", 1)


async def test_a_bucket_that_is_set_is_taken_in_the_local_environment_too() -> None:
    local = LocalStore()
    for name in ("local", "staging"):
        object_store = await store(environment(name, BACKUP_BUCKET="ours", BACKUP_REGION="eu"), local).find()
        assert (object_store.bucket.name, object_store.bucket.region) == ("ours", "eu")
    assert local.asked == 0


async def test_an_environment_without_a_bucket_keeps_no_backups() -> None:
    kept = store(environment("staging"), LocalStore())
    assert not kept.exists
    with pytest.raises(UsageError, match=r"no backup\.bucket"):
        await kept.find()


def test_no_key_file_is_needed_where_aws_programs_find_one(tmp_path: Path) -> None:
    assert store(environment("staging", BACKUP_KEY_FILE=str(tmp_path / "k")), LocalStore())._key_file == tmp_path / "k"
    assert store(environment("staging"), LocalStore())._key_file is None


async def test_a_recovery_record_that_cannot_be_saved_is_reported_and_ends_no_provision() -> None:
    async def save(_: InstanceId) -> None:
        raise UnavailableError("the object store does not answer")

    reported: dict[bool, list[str]] = {True: [], False: []}
    for holds_anything, report in reported.items():
        backups = part(store=part(holds_anything=holds_anything), records=part(save=save), report=report.append)
        await Backups.save_first_record(backups, ADA)
    assert [message.partition(": ")[2] for message in reported[True]] == ["the object store does not answer"]
    assert reported[False] == [], "a local world whose object store was never started"
