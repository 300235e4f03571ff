"""Where an instance's backups are, and the file by which hermes-node is told. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.model.backup import Credential
from hermesops.model.ids import InstanceId

PAYLOAD_VERSION = 1


@dataclass(frozen=True)
class Bucket:
    """A bucket, as it is set.

    Attributes:
        endpoint: Base URL of S3; empty for Amazon's own in ``region``.
        iam_endpoint: Base URL of IAM; empty for Amazon's own.
        ca: Certificates, in PEM, that machines trust for ``endpoint``; empty for those of their distribution.
    """

    name: str
    region: str
    endpoint: str = ""
    iam_endpoint: str = ""
    ca: str = ""

    def repository(self, environment: str, instance_id: InstanceId) -> "Repository":
        """The repository of one instance."""
        return Repository(self, f"{environment}/{instance_id}")


@dataclass(frozen=True)
class Repository:
    """One instance's part of a bucket.

    Attributes:
        prefix: Begins the name of everything in it; no slash at its end.
    """

    bucket: Bucket
    prefix: str

    @property
    def url(self) -> str:
        """As restic spells it."""
        endpoint = self.bucket.endpoint or f"https://s3.{self.bucket.region}.amazonaws.com"
        return f"s3:{endpoint}/{self.bucket.name}/{self.prefix}"


def payload_of(
    repository: Repository, password: str, credential: Credential, *, tags: Sequence[str] = (), snapshot: str = ""
) -> bytes:
    """The file that ``hermes-node backup`` and ``restore`` read. It holds secrets: mode 0600, on a tmpfs, read once.

    Args:
        repository: Where backups are.
        password: Of the repository.
        credential: The instance's own, which can do little.
        tags: What a new snapshot is marked with.
        snapshot: Which one is put back.
    """
    return json.dumps(
        {
            "version": PAYLOAD_VERSION,
            "repository": repository.url,
            "password": password,
            "access_key": credential.access_key,
            "secret_key": credential.secret_key,
            "tags": list(tags),
            "snapshot": snapshot,
            "ca": repository.bucket.ca,
        }
    ).encode()
