"""AWS Secrets Manager as a backend of secrets: ``PREFIX/name``, in the account and region that AWS programs find.

Source: Secrets Manager's API reference, "CreateSecret", "PutSecretValue", "ListSecrets", 2026-11.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - its own, no child of Python's
    HTTPClientError,
    ProxyConnectionError,
)

from hermesops.base.network.aws_client import open_client, open_session, unasked
from hermesops.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

_AGAIN = frozenset({"InternalServiceError", "ThrottlingException", "RequestTimeout", "ServiceUnavailable"})
_HINT = "aws sts get-caller-identity shows the identity; it needs secretsmanager:GetSecretValue, ListSecrets and others"


class AwsBackend:
    """Secrets in AWS Secrets Manager. A secret's earlier text stays there as ``AWSPREVIOUS`` until the next one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.strip("/")

    @property
    def title(self) -> str:
        """Name of the backend for people: ``aws:`` and the prefix."""
        return f"aws:{self._prefix}"

    def names(self) -> frozenset[str]:
        """Return the names of the secrets below the prefix."""
        return frozenset(self._listed())

    def read(self, name: str) -> str | None:
        """Return the text of a secret's current version."""
        with _asking(self.title):
            try:
                return self._client.get_secret_value(SecretId=self._id(name)).get("SecretString", "").strip()
            except ClientError as error:
                if _code(error) == "ResourceNotFoundException":
                    return None
                raise

    def write(self, name: str, text: str) -> None:
        """Make a new version of it the current one; the secret is made on the way."""
        if not self._created(name, text):
            with _asking(self.title):
                self._client.put_secret_value(SecretId=self._id(name), SecretString=text)

    def make(self, name: str, text: str) -> str:
        """Make it; of two at once, one wins."""
        return text if self._created(name, text) else (self.read(name) or "")

    def changed_at(self, name: str) -> datetime | None:
        """Return the time of a secret's current version."""
        return self._listed().get(name)

    def path(self, name: str) -> Path | None:  # noqa: ARG002 - the Protocol's signature
        """Return ``None``: no file contains a secret of AWS."""
        return None

    def _created(self, name: str, text: str) -> bool:
        with _asking(self.title):
            try:
                self._client.create_secret(Name=self._id(name), SecretString=text)
            except ClientError as error:
                if _code(error) == "ResourceExistsException":
                    return False
                raise
        return True

    def _listed(self) -> dict[str, datetime]:
        beginning = f"{self._prefix}/"
        with _asking(self.title):
            pages = self._client.get_paginator("list_secrets").paginate(
                Filters=[{"Key": "name", "Values": [beginning]}]
            )
            listed = [secret for page in pages for secret in page["SecretList"]]
        # The filter is by words and takes more than what begins so.
        return {
            secret["Name"].removeprefix(beginning): secret["LastChangedDate"].astimezone(UTC)
            for secret in listed
            if secret["Name"].startswith(beginning)
        }

    def _id(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    @cached_property
    def _client(self) -> "SecretsManagerClient":
        with _asking(self.title):
            config = Config(connect_timeout=10, read_timeout=20, retries={"max_attempts": 3})
            client: SecretsManagerClient = open_client(open_session(), "secretsmanager", config=config)
            return client


@contextmanager
def _asking(title: str) -> Iterator[None]:
    """Convert AWS's errors in the block to errors of hermesops."""
    try:
        yield
    except ProxyConnectionError as error:
        raise unasked(title, error) from error
    except (ConnectionError, HTTPClientError) as error:
        raise UnavailableError(f"{title}: Secrets Manager does not answer: {error}") from error
    except ClientError as error:
        code = _code(error)
        if code in _AGAIN:
            raise UnavailableError(f"{title}: Secrets Manager answers {code}") from error
        raise RefusedError(f"{title}: Secrets Manager answers {code}", hint=_HINT) from error
    except BotoCoreError as error:
        raise RefusedError(f"{title}: {error}", hint="set AWS_REGION and AWS_PROFILE, or a role") from error


def _code(error: Exception) -> str:
    answer = getattr(error, "response", {})
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""
