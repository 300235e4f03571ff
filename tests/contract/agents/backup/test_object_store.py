"""What a machine's credential opens in the object store, and everything that it does not."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from hermesops.agents.backup.store.object_store import ObjectStore, read_key_file
from hermesops.agents.backup.store.repository import Bucket
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.ids import InstanceId
from tests.support.real.stores.object_store import ServedStore, served_store
from tests.support.worlds.local.served import served_world

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.turns(8)

NAME = "backups"
OWN, OTHER = InstanceId("11111111-aaaa"), InstanceId("11111111-aaaa-b")
"""The one's name begins the other's: what is allowed for one must not match the other by that."""

PREFIX, OTHERS = f"test/{OWN}", f"test/{OTHER}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    with served_store(tmp_path_factory.mktemp("store") / "world") as up:
        yield up


@pytest.fixture(scope="module")
def root(store: ServedStore) -> "S3Client":
    return store.s3(store.platform.credential())


@pytest.fixture(scope="module")
def machine(store: ServedStore, root: "S3Client") -> "S3Client":
    """As an instance's machine asks; its repository and its neighbour's hold something."""
    for prefix in (PREFIX, OTHERS):
        for name in ("config", "data/00/pack", "snapshots/one", "locks/of-another"):
            root.put_object(Bucket=NAME, Key=f"{prefix}/{name}", Body=b"first")
    return store.s3(store.platform.issue("test-own", store.bucket.repository("test", OWN)))


def test_it_reads_and_adds_and_unlocks_in_its_own_repository(machine: "S3Client") -> None:
    machine.put_object(Bucket=NAME, Key=f"{PREFIX}/data/01/new", Body=b"added")
    assert machine.get_object(Bucket=NAME, Key=f"{PREFIX}/data/01/new")["Body"].read() == b"added"
    listed = machine.list_objects_v2(Bucket=NAME, Prefix=f"{PREFIX}/snapshots/")["Contents"]
    assert [stored["Key"] for stored in listed] == [f"{PREFIX}/snapshots/one"]
    machine.put_object(Bucket=NAME, Key=f"{PREFIX}/locks/mine", Body=b"lock")
    machine.delete_object(Bucket=NAME, Key=f"{PREFIX}/locks/mine")
    assert "Contents" not in machine.list_objects_v2(Bucket=NAME, Prefix=f"{PREFIX}/locks/mine")


def _copy(s3: "S3Client", source: str, target: str) -> object:
    return s3.copy_object(Bucket=NAME, Key=target, CopySource={"Bucket": NAME, "Key": source})


def _delete_many(s3: "S3Client") -> object:
    answer = s3.delete_objects(Bucket=NAME, Delete={"Objects": [{"Key": f"{PREFIX}/data/00/pack"}]})
    if errors := answer.get("Errors"):
        raise ClientError({"Error": {"Code": str(errors[0].get("Code")), "Message": ""}}, "DeleteObjects")
    return answer


def _delete_version(s3: "S3Client", root: "S3Client", key: str) -> object:
    version = root.list_object_versions(Bucket=NAME, Prefix=key)["Versions"][0]["VersionId"]
    return s3.delete_object(Bucket=NAME, Key=key, VersionId=version)


POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{NAME}/*"}],
    }
)
FORBIDDEN: dict[str, Callable[["S3Client", "S3Client"], Any]] = {
    "read another's": lambda s3, _: s3.get_object(Bucket=NAME, Key=f"{OTHERS}/config"),
    "head another's": lambda s3, _: s3.head_object(Bucket=NAME, Key=f"{OTHERS}/config"),
    "add to another's": lambda s3, _: s3.put_object(Bucket=NAME, Key=f"{OTHERS}/data/x", Body=b""),
    "add beside all": lambda s3, _: s3.put_object(Bucket=NAME, Key="x", Body=b""),
    "climb out": lambda s3, _: s3.put_object(Bucket=NAME, Key=f"{PREFIX}/../{OTHER}/data/x", Body=b""),
    "list another's": lambda s3, _: s3.list_objects_v2(Bucket=NAME, Prefix=f"{OTHERS}/"),
    "list by the beginning of its name": lambda s3, _: s3.list_objects_v2(Bucket=NAME, Prefix=PREFIX),
    "list the environment": lambda s3, _: s3.list_objects_v2(Bucket=NAME, Prefix="test/"),
    "list all": lambda s3, _: s3.list_objects_v2(Bucket=NAME),
    "list versions": lambda s3, _: s3.list_object_versions(Bucket=NAME, Prefix=f"{PREFIX}/"),
    "unlock another's": lambda s3, _: s3.delete_object(Bucket=NAME, Key=f"{OTHERS}/locks/of-another"),
    "delete data": lambda s3, _: s3.delete_object(Bucket=NAME, Key=f"{PREFIX}/data/00/pack"),
    "delete many": lambda s3, _: _delete_many(s3),
    "delete a snapshot": lambda s3, _: s3.delete_object(Bucket=NAME, Key=f"{PREFIX}/snapshots/one"),
    "delete config": lambda s3, _: s3.delete_object(Bucket=NAME, Key=f"{PREFIX}/config"),
    "delete a version": lambda s3, root: _delete_version(s3, root, f"{PREFIX}/data/00/pack"),
    "delete a lock's version": lambda s3, root: _delete_version(s3, root, f"{PREFIX}/locks/of-another"),
    "copy from another's": lambda s3, _: _copy(s3, f"{OTHERS}/config", f"{PREFIX}/data/stolen"),
    "copy to another's": lambda s3, _: _copy(s3, f"{PREFIX}/config", f"{OTHERS}/data/planted"),
    "turn versions off": lambda s3, _: s3.put_bucket_versioning(
        Bucket=NAME, VersioningConfiguration={"Status": "Suspended"}
    ),
    "change the bucket's policy": lambda s3, _: s3.put_bucket_policy(Bucket=NAME, Policy=POLICY),
    "read the bucket's policy": lambda s3, _: s3.get_bucket_policy(Bucket=NAME),
    "delete the bucket": lambda s3, _: s3.delete_bucket(Bucket=NAME),
    "make a bucket": lambda s3, _: s3.create_bucket(Bucket="another"),
    "change rights of an object": lambda s3, _: s3.put_object_acl(
        Bucket=NAME, Key=f"{PREFIX}/config", ACL="public-read"
    ),
    "tag an object": lambda s3, _: s3.put_object_tagging(
        Bucket=NAME, Key=f"{PREFIX}/config", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_it_may_do_nothing_else(machine: "S3Client", root: "S3Client", what: str) -> None:
    with pytest.raises(ClientError) as refused:
        FORBIDDEN[what](machine, root)
    assert refused.value.response["Error"]["Code"] in {"AccessDenied", "403", "Forbidden"}
    for prefix in (PREFIX, OTHERS):
        assert root.get_object(Bucket=NAME, Key=f"{prefix}/config")["Body"].read() == b"first"


def test_what_it_overwrites_is_still_there(machine: "S3Client", root: "S3Client") -> None:
    key = f"{PREFIX}/snapshots/one"
    machine.put_object(Bucket=NAME, Key=key, Body=b"overwritten")
    versions = root.list_object_versions(Bucket=NAME, Prefix=key)["Versions"]
    bodies = [
        root.get_object(Bucket=NAME, Key=key, VersionId=version["VersionId"])["Body"].read() for version in versions
    ]
    assert sorted(bodies) == [b"first", b"overwritten"]


def test_it_has_no_say_in_accounts(store: ServedStore) -> None:
    own = store.platform.issue("test-accounts", store.bucket.repository("test", OWN))
    session = boto3.Session(own.access_key, own.secret_key, region_name=store.bucket.region)
    iam = session.client("iam", endpoint_url=store.bucket.iam_endpoint)
    calls: tuple[Callable[[], object], ...] = (
        lambda: iam.put_user_policy(UserName="test-accounts", PolicyName="more", PolicyDocument=POLICY),
        lambda: iam.create_access_key(UserName="test-accounts"),
        iam.list_users,
    )
    for ask in calls:
        with pytest.raises(ClientError, match=r"AccessDenied|not authorized"):
            ask()


def test_a_new_key_ends_all_but_the_one_in_use(store: ServedStore) -> None:
    repository = store.bucket.repository("test", OWN)
    key = f"{PREFIX}/config"
    first = store.platform.issue("test-rotated", repository)
    second = store.platform.issue("test-rotated", repository, keep=first.access_key)
    for credential in (first, second):
        store.s3(credential).get_object(Bucket=NAME, Key=key)
    store.platform.retire("test-rotated", keep=second.access_key)
    with pytest.raises(ClientError):
        store.s3(first).get_object(Bucket=NAME, Key=key)
    store.platform.revoke("test-rotated")
    store.platform.revoke("test-rotated")
    with pytest.raises(ClientError):
        store.s3(second).get_object(Bucket=NAME, Key=key)


def test_no_answer_is_told_as_that(store: ServedStore) -> None:
    nowhere = Bucket("backups", "us-east-1", "http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match="does not answer"):
        ObjectStore(nowhere, store.key_file, is_local=True).prepare()


def test_one_that_was_there_is_asked_again(store: ServedStore, root: "S3Client") -> None:
    root.create_bucket(Bucket="passing")
    passing = ObjectStore(Bucket("passing", store.bucket.region, store.bucket.endpoint), store.key_file, is_local=True)
    passing.prepare()
    passing.answers()
    root.delete_bucket(Bucket="passing")
    passing.prepare()
    with pytest.raises(UsageError, match="bucket passing: 404"):
        passing.answers()


def test_one_that_somebody_made_a_moment_ago_is_there(store: ServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket("wanted-by-two", store.bucket.region, store.bucket.endpoint)
    first, second = (ObjectStore(bucket, store.key_file, is_local=True) for _ in range(2))
    with pytest.raises(ClientError) as absent:
        second._s3.head_bucket(Bucket=bucket.name)
    answer = second._s3.head_bucket

    def before(**words: str) -> object:
        monkeypatch.setattr(second._s3, "head_bucket", answer)
        first.prepare()
        assert words == {"Bucket": "wanted-by-two"}
        raise absent.value

    monkeypatch.setattr(second._s3, "head_bucket", before)
    second.prepare()
    second.answers()


def test_a_bucket_without_versions_is_refused(store: ServedStore, root: "S3Client") -> None:
    root.create_bucket(Bucket="forgetful")
    bucket = Bucket("forgetful", store.bucket.region, store.bucket.endpoint)
    with pytest.raises(RefusedError, match="has no versioning"):
        ObjectStore(bucket, store.key_file).prepare()
    missing = Bucket("missing", store.bucket.region, store.bucket.endpoint)
    with pytest.raises(UsageError, match="no bucket missing"):
        ObjectStore(missing, store.key_file).prepare()


def test_the_root_key_is_its_owners_alone(store: ServedStore, tmp_path: Path) -> None:
    assert store.key_file.stat().st_mode & 0o777 == 0o600
    copied = tmp_path / "key"
    copied.write_text(store.key_file.read_text())
    copied.chmod(0o644)
    with pytest.raises(RefusedError, match="read by others"):
        read_key_file(copied)
    for secret in read_key_file(store.key_file):
        assert secret not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_whoever_asks_for_the_store_does_not_choose_what_runs_as_root(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    with served_world(tmp_path / "world") as up:
        url = f"{up.api_url}/local/object-store"
        answer = httpx.post(url, json={"program": str(program)}, headers=up.headers, timeout=30, trust_env=False)
    assert (answer.status_code, "no program /nonexistent" in answer.text) == (503, True)
    assert not ran.exists()
