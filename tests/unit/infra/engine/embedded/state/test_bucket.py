"""Backend URLs of buckets, as Pulumi spells them."""

import pytest

from hermesops.errors import UsageError
from hermesops.infra.engine.embedded.state.bucket import parse_bucket
from hermesops.infra.engine.embedded.state.storage import open_storage
from tests.support.suite.cases import each_case


@each_case(
    ("url", "name", "prefix", "endpoint", "in_path"),
    [
        ("s3://b", "b", "", None, False),
        ("s3://b/", "b", "", None, False),
        ("s3://b/some/folder?region=eu-central-1", "b", "some/folder/", None, False),
        ("s3://b/c?prefix=a/&region=r", "b", "a/c/", None, False),
        ("s3://b?endpoint=host:9000&disableSSL=true&s3ForcePathStyle=true", "b", "", "http://host:9000", True),
        ("s3://b?endpoint=https://host&awssdk=v2&use_path_style=1", "b", "", "https://host", True),
        ("s3://b?endpoint=host&hostname_immutable=true", "b", "", "https://host", True),
        ("s3://b?endpoint=host&disable_https=false", "b", "", "https://host", False),
    ],
)
def test_a_url_is_read_as_pulumi_reads_it(
    url: str, name: str, prefix: str, endpoint: str | None, *, in_path: bool
) -> None:
    bucket = parse_bucket(url)
    assert (bucket.name, bucket.prefix, bucket.endpoint, bucket.in_path) == (name, prefix, endpoint, in_path)


@each_case(
    ("url", "message"),
    [
        ("s3://", "names no bucket"),
        ("s3:///folder", "names no bucket"),
        ("s3://b?regoin=x", "no parameter 'regoin'"),
        ("s3://b?disableSSL=perhaps", "disableSSL=perhaps is neither true nor false"),
        ("gs://b", "cannot be kept in gs://"),
        ("https://api.pulumi.com", "cannot be kept in https://"),
    ],
)
def test_what_is_not_understood_is_said(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_storage(url)
