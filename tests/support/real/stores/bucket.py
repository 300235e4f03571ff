"""An S3 bucket on this computer, served by moto; each asked for is a new one."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto.server import ThreadedMotoServer


@contextmanager
def s3_server() -> Iterator[str]:
    """A server of S3 for the length of a ``with``; its address with scheme."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request, else
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def use_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put keys where every AWS program looks; nothing of this computer's own is read."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": uuid.uuid4().hex,
        "AWS_SECRET_ACCESS_KEY": uuid.uuid4().hex,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }.items():
        monkeypatch.setenv(name, value)


def new_bucket(endpoint: str, folder: str = "") -> str:
    """Make a bucket; its backend URL as Pulumi spells it, for a folder in it."""
    name = f"state-{uuid.uuid4().hex[:12]}"
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=name)
    return f"s3://{name}/{folder}?region=us-east-1&endpoint={endpoint}&s3ForcePathStyle=true"


def new_bucket_for_backups(endpoint: str) -> dict[str, str]:
    """Make a bucket that keeps versions; what an environment is set to, to back up into it."""
    name = f"backups-{uuid.uuid4().hex[:12]}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return {
        "HERMESOPS_BACKUP_BUCKET": name,
        "HERMESOPS_BACKUP_ENDPOINT": endpoint,
        "HERMESOPS_BACKUP_IAM_ENDPOINT": endpoint,
    }
