"""An instance's repository: its place, the rights of its credential, and hermes-node's file of both. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Credential

PAYLOAD_VERSION = 1


@dataclass(frozen=True)
class Bucket:
    """A bucket, as it is set.

    Attributes:
        endpoint: Base URL of S3; empty for Amazon's own in ``region``.
        iam_endpoint: Base URL of IAM; empty for Amazon's own.
        user_boundary: ARN of the policy that bounds the users of backups; empty for none.
        ca: Certificates, in PEM, that machines trust for ``endpoint``; empty for those of their distribution.
    """

    name: str
    region: str
    endpoint: str = ""
    iam_endpoint: str = ""
    ca: str = ""
    user_boundary: str = ""

    def repository(self, environment: str, instance_id: InstanceId) -> "Repository":
        """Name the repository of an instance: environment and instance id."""
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
        """URL of the repository for restic, with the AWS endpoint of the region by default."""
        endpoint = self.bucket.endpoint or f"https://s3.{self.bucket.region}.amazonaws.com"
        return f"s3:{endpoint}/{self.bucket.name}/{self.prefix}"


def user_of(environment: str, instance_id: InstanceId) -> str:
    """Name of the IAM user that an instance's repository belongs to; AWS's boundaries know this pattern."""
    return f"hermesops-{environment}-{instance_id}"


def payload_of(
    repository: Repository, password: str, credential: Credential, *, tags: Sequence[str] = (), snapshot: str = ""
) -> bytes:
    """The file that ``hermes-node backup`` and ``restore`` read. It holds secrets: mode 0600, on a tmpfs, read once.

    ``credential`` is the instance's own, which can do little; a new snapshot is marked with ``tags``; ``snapshot`` is
    put back.
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


def policy_of(repository: Repository) -> dict[str, Any]:
    """The IAM policy of the one user that a repository belongs to.

    It reads its repository and adds to it, and deletes nothing but restic's locks. S3 knows no right to add that is not
    one to overwrite: the bucket keeps versions, so that an overwritten object is still there.

    Source:
        restic's S3 backend (``internal/backend/s3``, 0.14: GET, HEAD, PUT, DELETE, LIST below its prefix); AWS service
        authorization reference, Amazon S3.
    """
    bucket = f"arn:aws:s3:::{repository.bucket.name}"
    everything = f"{bucket}/{repository.prefix}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ReadAndAdd",
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": [f"{everything}/*"],
            },
            {
                "Sid": "Unlock",
                "Effect": "Allow",
                "Action": ["s3:DeleteObject"],
                "Resource": [f"{everything}/locks/*"],
            },
            {
                "Sid": "ListItsOwn",
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [bucket],
                "Condition": {"StringLike": {"s3:prefix": [f"{repository.prefix}/*"]}},
            },
            {
                "Sid": "FindTheRegion",
                "Effect": "Allow",
                "Action": ["s3:GetBucketLocation"],
                "Resource": [bucket],
            },
        ],
    }
