"""Files in an S3 bucket, found by the same URLs as the CLI's ``s3://`` backend.

A PUT is atomic and durable once answered, so nothing more has to be done against a power cut.
Source: Go CDK ``blob/s3blob`` and ``aws`` (query parameters, both its SDK generations), which Pulumi's backend opens
its buckets with; pulumi ``pkg/backend/diy`` (the URL's path is a folder in the bucket), 3.259.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from hermesops.base import blocking
from hermesops.base.network.aws_client import open_client, open_session, unasked
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UsageError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CopySourceTypeDef

T = TypeVar("T")

_OLD_NAMES = {"disableSSL": "disable_https", "s3ForcePathStyle": "use_path_style"}
"""Their names in Go's first AWS SDK; Pulumi accepts both."""

_FLAGS = frozenset(
    {"disable_https", "use_path_style", "hostname_immutable", "anonymous", "dualstack", "fips", "accelerate"}
)
_TEXTS = frozenset({"region", "endpoint", "profile", "prefix", "ssetype", "kmskeyid"})
_WITHOUT_MEANING_HERE = frozenset({"awssdk", "rate_limiter_capacity"})
_TRUE, _FALSE = frozenset({"1", "t", "true"}), frozenset({"0", "f", "false"})

_MISSING = frozenset({"NoSuchKey", "NoSuchVersion", "404"})
"""What servers answer where there is no such object. No version is ever asked for; versitygw says so all the same
where a copy's source is missing in a bucket with versions."""

_CONNECT_S, _READ_S, _TRIES = 10, 60, 5
_WHOLE_S = 600.0
"""Seconds for one file, tries included."""


@dataclass(frozen=True)
class Bucket:
    """Parsed backend URL of a bucket.

    Attributes:
        prefix: Prefix of every name; empty, or with a slash at its end.
        flags: Names of the flags that are true.
    """

    name: str
    prefix: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    @property
    def endpoint(self) -> str | None:
        """URL of the bucket's server; None for Amazon's own."""
        address = self.texts.get("endpoint")
        if not address or "://" in address:
            return address or None
        return f"{'http' if 'disable_https' in self.flags else 'https'}://{address}"

    @property
    def in_path(self) -> bool:
        """True if the bucket's name is in the path and not before the host's."""
        return bool(self.flags & {"use_path_style", "hostname_immutable"})


def parse_bucket(url: str, setting: str = "pulumi.backend") -> Bucket:
    """Read a backend URL.

    Raises:
        UsageError: It names no bucket, or has a parameter that Pulumi would not understand.
    """
    parts = urlsplit(url)
    if not parts.netloc:
        raise UsageError(f"{url}: names no bucket", hint="spell it s3://BUCKET/FOLDER?region=REGION")
    texts: dict[str, str] = {}
    flags: set[str] = set()
    for parameter, value in parse_qsl(parts.query, keep_blank_values=True):
        name = _OLD_NAMES.get(parameter, parameter)
        if name in _FLAGS and value.lower() in _TRUE | _FALSE:
            if value.lower() in _TRUE:
                flags.add(name)
        elif name in _TEXTS:
            texts[name] = value
        elif name not in _WITHOUT_MEANING_HERE:
            known = ", ".join(sorted(_FLAGS | _TEXTS))
            what = f"{parameter}={value} is neither true nor false" if name in _FLAGS else f"no parameter {parameter!r}"
            raise UsageError(f"{setting} {url}: {what}", hint=f"an s3:// URL has: {known}")
    folder = parts.path.strip("/")
    return Bucket(parts.netloc, texts.get("prefix", "") + (f"{folder}/" if folder else ""), texts, frozenset(flags))


@dataclass(frozen=True)
class BucketAccess:
    """Files with the credentials of buckets, and with the authorities of their servers.

    Attributes:
        key_file: A file like ~/.aws/credentials, with the profile in the URL; ``None`` for the default of AWS programs.
        ca_file: Authorities in PEM; ``None`` for the distribution's.
    """

    key_file: Path | None = None
    ca_file: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the files as environment variables of AWS programs."""
        named = {"AWS_SHARED_CREDENTIALS_FILE": self.key_file, "AWS_CA_BUNDLE": self.ca_file}
        return {name: str(file) for name, file in named.items() if file}


DEFAULT_ACCESS = BucketAccess()


class BucketStorage:
    """A bucket as ``Storage``. Connects at the first file."""

    def __init__(
        self, url: str, bucket: Bucket, setting: str = "pulumi.backend", access: BucketAccess = DEFAULT_ACCESS
    ) -> None:
        self.url = url
        self._bucket = bucket
        self._setting = setting
        self._access = access

    @cached_property
    def _client(self) -> "S3Client":
        from botocore import UNSIGNED  # noqa: PLC0415  loads for half a second
        from botocore.config import Config  # noqa: PLC0415  as above

        bucket = self._bucket
        style: dict[str, Any] = {"use_accelerate_endpoint": "accelerate" in bucket.flags}
        if bucket.in_path:
            style["addressing_style"] = "path"
        config = Config(
            # Named, since links are signed by the version before it unless asked, which few servers take any more.
            signature_version=UNSIGNED if "anonymous" in bucket.flags else "s3v4",
            s3=style,  # type: ignore[arg-type]  # the stub wants a literal of each key
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            retries={"mode": "standard", "total_max_attempts": _TRIES},
            use_dualstack_endpoint="dualstack" in bucket.flags,
            use_fips_endpoint="fips" in bucket.flags,
            # Servers other than Amazon's often lack newer checksums than those that S3 demands.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )

        def connect() -> "S3Client":
            session = open_session(
                region=bucket.texts.get("region"),
                profile=bucket.texts.get("profile"),
                credentials_file=self._access.key_file,
            )
            client: S3Client = open_client(
                session, "s3", endpoint=bucket.endpoint or "", ca_file=self._access.ca_file, config=config
            )
            return client

        return self._request("", connect)

    def at(self, name: str) -> str:
        """Return the object's URL, without parameters."""
        return f"s3://{self._bucket.name}/{self._key(name)}"

    def make(self) -> None:
        """Do nothing: the owner of a bucket makes it."""

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        """Read an object, up to ``at_most`` bytes; None if it does not exist."""

        def get() -> bytes:
            body = self._client.get_object(Bucket=self._bucket.name, Key=self._key(name))["Body"]
            with contextlib.closing(body):
                return body.read() if at_most is None else body.read(at_most)

        try:
            return self._request(name, get)
        except _NoSuchObjectError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace an object whole; durable when this returns."""
        self._request(
            name,
            lambda: self._client.put_object(
                Bucket=self._bucket.name, Key=self._key(name), Body=content, **self._encryption()
            ),
        )

    def keep(self, name: str, also: str) -> None:
        """Copy the object within the bucket."""
        source: CopySourceTypeDef = {"Bucket": self._bucket.name, "Key": self._key(name)}
        with contextlib.suppress(_NoSuchObjectError):
            self._request(
                also,
                lambda: self._client.copy_object(
                    Bucket=self._bucket.name, Key=self._key(also), CopySource=source, **self._encryption()
                ),
            )

    def list(self, folder: str) -> list[str]:
        """Return the names of the objects directly in a folder, sorted."""

        def get() -> list[str]:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket.name, Prefix=self._key(folder) + "/", Delimiter="/"
            )
            return [item["Key"] for page in pages for item in page.get("Contents", ())]

        return sorted(key.removeprefix(self._bucket.prefix) for key in self._request(folder, get))

    def delete(self, name: str) -> None:
        """Delete an object; one that is gone already is success."""
        self._request(name, lambda: self._client.delete_object(Bucket=self._bucket.name, Key=self._key(name)))

    def link(self, name: str, *, life_s: int) -> str:
        """Return a presigned URL to download an object, good for ``life_s`` seconds."""
        what = {"Bucket": self._bucket.name, "Key": self._key(name)}
        return self._request(
            name, lambda: self._client.generate_presigned_url("get_object", Params=what, ExpiresIn=life_s)
        )

    def _key(self, name: str) -> str:
        return self._bucket.prefix + name

    def _encryption(self) -> dict[str, Any]:
        texts = self._bucket.texts
        options = {"ServerSideEncryption": texts.get("ssetype"), "SSEKMSKeyId": texts.get("kmskeyid")}
        return {key: value for key, value in options.items() if value}

    def _request(self, name: str, send: Callable[[], T]) -> T:
        from botocore.exceptions import (  # noqa: PLC0415  only where a bucket is asked
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            PartialCredentialsError,
            ProfileNotFound,
            ProxyConnectionError,
        )

        where = self.at(name)
        try:
            return blocking.wait(send, whom=where, within_s=_WHOLE_S)
        except ClientError as error:
            raise _refusal(where, error, self._setting) from error
        except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
            raise UsageError(
                f"{where}: no AWS credentials: {error}",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            ) from error
        except ValueError as error:  # of an endpoint or a region that is none
            raise UsageError(
                f"{where}: {error}", hint=Hint(("settings", "show"), f": check {self._setting}")
            ) from error
        except ProxyConnectionError as error:
            raise unasked(where, error) from error
        except BotoCoreError as error:
            raise UnavailableError(f"{where}: {error}", hint="run the same command again") from error


class _NoSuchObjectError(HermesError):
    """The bucket has no object of that name."""


def _refusal(where: str, error: "ClientError", setting: str) -> HermesError:
    problem = error.response.get("Error", {})
    code, message = str(problem.get("Code", "")), str(problem.get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    what = f"{where}: {code} {message}".strip()
    if code in _MISSING:
        return _NoSuchObjectError(what)
    if code == "NoSuchBucket":
        return UsageError(what, hint=f"create the bucket, or correct {setting}")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in {0, HTTPStatus.TOO_MANY_REQUESTS}:
        return UnavailableError(what, hint="run the same command again")
    return RefusedError(what, hint=Hint(("settings", "show"), f": check {setting} and the AWS identity"))
