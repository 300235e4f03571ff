"""An object store as a local world has one, with a bucket that keeps versions; built once, served for a whole run."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import httpx

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket
from hermesops.base.network.aws_client import client_options
from hermesops.model.recovery.backup import Credential
from tests.support.real.go_programs import VERSITYGW
from tests.support.worlds.local.served import served_world

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_TIMEOUT_S = 150.0


@dataclass(frozen=True)
class ServedStore:
    """A running object store."""

    bucket: Bucket
    key_file: Path

    @property
    def platform(self) -> ObjectStore:
        return ObjectStore(self.bucket, self.key_file, is_local=True)

    def s3(self, credential: Credential) -> "S3Client":
        session = boto3.Session(credential.access_key, credential.secret_key, region_name=self.bucket.region)
        return session.client("s3", endpoint_url=self.bucket.endpoint, **client_options(is_local=True))


@contextlib.contextmanager
def served_store(world: Path) -> Iterator[ServedStore]:
    """Serve one until the block ends."""
    with served_world(world, object_store_program=VERSITYGW.built()) as up:
        url = f"{up.api_url}/local/object-store"
        answer = httpx.post(url, headers=up.headers, timeout=_TIMEOUT_S, trust_env=False)
        assert answer.is_success, answer.text
        where = answer.json()
        bucket = Bucket("backups", where["region"], where["endpoint"], where["iam_endpoint"])
        store = ServedStore(bucket, Path(where["key_file"]))
        store.platform.prepare()
        yield store
