"""Clients of AWS for a bootstrap, and readers of its answers."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hermesops.base.network.aws_client import asking, bound_answers, client_options, open_client, open_session
from hermesops.errors import Hint

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client

AWS = "AWS"
_HINT = Hint("aws sts get-caller-identity shows the identity")
MISSING = frozenset(
    {
        "404",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchEntity",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "NotFoundException",
        "OwnershipControlsNotFoundError",
        "ServerSideEncryptionConfigurationNotFoundError",
    }
)
"""Codes by which AWS says that something is not there; some come with another status than 404."""


class AwsClients:
    """Clients for one region, asked as every AWS program asks; each is made when it is first needed."""

    def __init__(self, region: str) -> None:
        self._region = region

    @cached_property
    def s3(self) -> "S3Client":
        """The client of S3 in this region."""
        client: S3Client = self.open("s3")
        return client

    @cached_property
    def kms(self) -> "KMSClient":
        """The client of KMS in this region."""
        client: KMSClient = self.open("kms")
        return client

    @cached_property
    def iam(self) -> "IAMClient":
        """The client of IAM, which has no region."""
        client: IAMClient = self.open("iam")
        return client

    def open(self, service: Any, *, tries: int = 0) -> Any:  # noqa: ANN401 - boto3 has an overload for each service
        """A client of a service; ``tries`` bounds how often a call is sent, 0 as AWS's library does."""
        from botocore.config import Config  # noqa: PLC0415 - loads for half a second

        config: Config = client_options(is_local=False)["config"]
        if tries:
            config = config.merge(Config(retries={"mode": "standard", "total_max_attempts": tries}))
        client = open_client(self._session, service, config=config)
        bound_answers(client, AWS)
        return client

    @cached_property
    def _session(self) -> "boto3.Session":
        return open_session(region=self._region)


@contextmanager
def asking_aws(what: str) -> Iterator[None]:
    """Raise AWS's errors within as errors of hermesops; ``what`` is what was asked."""
    with asking(what, whom=AWS, hint=_HINT):
        yield


def found_or_none(get: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it gets
    """Call AWS; ``None`` when AWS reports that the requested thing does not exist."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - loads for half a second

    try:
        return get()
    except ClientError as error:
        if code_of(error) in MISSING:
            return None
        raise


def code_of(error: Any) -> str:  # noqa: ANN401 - of a library that loads late
    """The code of an error of AWS; empty where it has none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def tags_of(tags: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Tags of a resource, by their names."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def decoded(document: Any) -> Any:  # noqa: ANN401 - botocore decodes it, or does not
    """A policy, decoded where AWS returned it as text."""
    return json.loads(unquote(document)) if isinstance(document, str) else document


def statements_of(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The statements of a policy, also where it has only one."""
    statements = policy.get("Statement", [])
    return [statements] if isinstance(statements, Mapping) else list(statements)
