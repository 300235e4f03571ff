"""The bucket and its IAM users, with the platform's credential: makes both, and gives each instance a key of its own.

Any S3 with any IAM: Amazon's, or the local world's. It must not know the contents of repositories.
"""

import configparser
import json
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.agents.backup.store.repository import Bucket, Repository, policy_of
from hermesops.base.files.private_file import refuse_readable_by_others
from hermesops.base.network.aws_client import AbsentError, asking, bound_answers, open_client, open_session
from hermesops.errors import RefusedError, UsageError
from hermesops.model.recovery.backup import Credential

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_s3 import S3Client

_POLICY = "repository"


class ObjectStore:
    """A bucket, used with the platform's credential.

    Args:
        key_file: That credential, in the form of ``~/.aws/credentials``; ``None`` finds one as every AWS program does.
        is_local: Whether it is this computer's own: no proxy is used, and a missing bucket is made; elsewhere whoever
            pays for it makes it.
        ca_file: Authorities that may sign its certificate; ``None`` for those of the distribution.
    """

    def __init__(
        self, bucket: Bucket, key_file: Path | None, *, is_local: bool = False, ca_file: Path | None = None
    ) -> None:
        self.bucket = bucket
        self._key_file = key_file
        self._is_local = is_local
        self._ca_file = ca_file
        self._is_ready = False

    def prepare(self) -> None:
        """Make sure that the bucket is there and keeps versions; asked once.

        Raises:
            UsageError: It is not there.
            RefusedError: It has no versioning: objects that a machine overwrites would be lost.
            UnavailableError: The object store does not answer.
        """
        if self._is_ready:
            return
        name = self.bucket.name
        try:
            with asking(f"bucket {name}"):
                self._s3.head_bucket(Bucket=name)
        except AbsentError as absent:
            if not self._is_local:
                raise UsageError(f"there is no bucket {name}", hint="create it, or correct backup.bucket") from absent
            # A backup of another agent may have created it at the same moment.
            with asking(f"creating bucket {name}"), suppress(self._s3.exceptions.BucketAlreadyOwnedByYou):
                self._s3.create_bucket(Bucket=name)
        with asking(f"versions of bucket {name}"):
            if self._is_local:
                self._s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
            elif self._s3.get_bucket_versioning(Bucket=name).get("Status") != "Enabled":
                raise RefusedError(
                    f"bucket {name} has no versioning: objects that a machine overwrites would be lost",
                    hint=f"aws s3api put-bucket-versioning --bucket {name} --versioning-configuration Status=Enabled",
                )
        self._is_ready = True

    def answers(self) -> None:
        """Ask for the bucket, whether it was prepared before or not.

        Raises:
            UnavailableError: The object store does not answer.
        """
        with asking(f"bucket {self.bucket.name}"):
            self._s3.head_bucket(Bucket=self.bucket.name)

    def credential(self) -> Credential:
        """The platform's own credential, for programs that it runs."""
        with asking("the platform's credential"):
            credentials = self._session.get_credentials()
        if credentials is None:
            raise UsageError("missing credential for the object store", hint="set backup.key_file, or AWS_PROFILE")
        now = credentials.get_frozen_credentials()
        return Credential(str(now.access_key), str(now.secret_key), now.token or "")

    def issue(self, user: str, repository: Repository, *, keep: str = "") -> Credential:
        """Give the user of a repository a new key; makes the user and its policy where they are missing.

        It may read the repository and add to it. The access key ``keep`` stays valid beside the new one; every other
        one ends.
        """
        with asking(f"user {user}"):
            if not self._has(user):
                if bound := self.bucket.user_boundary:
                    self._iam.create_user(UserName=user, PermissionsBoundary=bound)
                else:
                    self._iam.create_user(UserName=user)
            self._iam.put_user_policy(
                UserName=user, PolicyName=_POLICY, PolicyDocument=json.dumps(policy_of(repository))
            )
        self.retire(user, keep=keep)
        with asking(f"a key for {user}"):
            key = self._iam.create_access_key(UserName=user)["AccessKey"]
        return Credential(key["AccessKeyId"], key["SecretAccessKey"])

    def retire(self, user: str, *, keep: str = "") -> None:
        """End every key of a user but one."""
        with asking(f"keys of {user}"):
            for key in self._iam.list_access_keys(UserName=user)["AccessKeyMetadata"]:
                if key.get("AccessKeyId") and key["AccessKeyId"] != keep:
                    self._iam.delete_access_key(UserName=user, AccessKeyId=key["AccessKeyId"])

    def revoke(self, user: str) -> None:
        """End a user with all its keys; absent is success."""
        if not self._has(user):
            return
        self.retire(user)
        with asking(f"user {user}"):
            for policy in self._iam.list_user_policies(UserName=user)["PolicyNames"]:
                self._iam.delete_user_policy(UserName=user, PolicyName=policy)
            self._iam.delete_user(UserName=user)

    def erase(self, repository: Repository) -> None:
        """Delete everything in a repository for good, former versions included; safe to call twice."""
        name = self.bucket.name
        with asking(f"contents of {repository.prefix}"):
            pages = self._s3.get_paginator("list_object_versions").paginate(Bucket=name, Prefix=f"{repository.prefix}/")
            for page in pages:
                versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
                for version in versions:
                    self._s3.delete_object(Bucket=name, Key=version["Key"], VersionId=version["VersionId"])

    def put(self, name: str, content: bytes) -> None:
        """Write an object, the one of that name included."""
        with asking(f"writing {name}"):
            self._s3.put_object(Bucket=self.bucket.name, Key=name, Body=content)

    def get(self, name: str) -> bytes:
        """An object's content.

        Raises:
            AbsentError: There is none of that name.
        """
        with asking(f"reading {name}"):
            return self._s3.get_object(Bucket=self.bucket.name, Key=name)["Body"].read()

    def names(self, prefix: str) -> list[str]:
        """List the names of objects that begin with a prefix, the oldest first."""
        with asking(f"contents of {prefix}"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket.name, Prefix=prefix)
            objects = [entry for page in pages for entry in page.get("Contents", ())]
            return [entry["Key"] for entry in sorted(objects, key=lambda entry: entry["LastModified"])]

    def remove(self, name: str) -> None:
        """Delete an object with its former versions; those that the bucket locks are hidden until it lets them go."""
        bucket = self.bucket.name
        with asking(f"removing {name}"):
            self._s3.delete_object(Bucket=bucket, Key=name)
        with suppress(RefusedError), asking(f"removing versions of {name}"):
            for page in self._s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=name):
                for version in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
                    if version["Key"] == name:
                        self._s3.delete_object(Bucket=bucket, Key=name, VersionId=version["VersionId"])

    def _has(self, user: str) -> bool:
        try:
            with asking(f"user {user}"):
                self._iam.get_user(UserName=user)
        except AbsentError:
            return False
        return True

    @cached_property
    def _session(self) -> "boto3.Session":
        key = read_key_file(self._key_file) if self._key_file else None
        return open_session(key, region=self.bucket.region)

    @cached_property
    def _s3(self) -> "S3Client":
        client: S3Client = self._client("s3", self.bucket.endpoint)
        return client

    @cached_property
    def _iam(self) -> "IAMClient":
        client: IAMClient = self._client("iam", self.bucket.iam_endpoint)
        return client

    def _client(self, service: str, endpoint: str) -> Any:  # noqa: ANN401 - boto3 has an overload for each service
        client = open_client(self._session, service, endpoint=endpoint, ca_file=self._ca_file, is_ours=self._is_local)
        bound_answers(client)
        return client


def read_key_file(file: Path) -> tuple[str, str]:
    """Access key and secret key of profile ``default`` in a file such as ``~/.aws/credentials``.

    Raises:
        UsageError: It cannot be read, or lacks them.
        RefusedError: Others may read it.
    """
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with file.open() as opened:
            refuse_readable_by_others(opened.fileno(), file, what="object store's key")
            parser.read_string(opened.read())
        section = parser["default"]
        return section["aws_access_key_id"], section["aws_secret_access_key"]
    except (OSError, KeyError, configparser.Error, UnicodeDecodeError) as error:
        raise UsageError(
            f"no access key could be read from {file} ({type(error).__name__})",
            hint="it has a section [default] with aws_access_key_id and aws_secret_access_key",
        ) from error
