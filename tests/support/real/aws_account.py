"""An empty AWS account on this computer, served by moto, with who asks and ways to make AWS fail."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
import httpx
import pytest

from hermesops.platform.bootstrap.account import Account
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole
from tests.support.real.stores.bucket import s3_server, use_credentials

ACCOUNT = "123456789012"
"""The one that moto gives everybody."""

REGION = "eu-central-1"
ISSUER = "https://token.actions.githubusercontent.com"
AUDIENCE = "hermesops"
SUBJECTS = {
    PipelineRole.PREVIEW: ("repo:helium/hermes:environment:production-read",),
    PipelineRole.APPLY: ("repo:helium/hermes:environment:production",),
}


@dataclass(frozen=True)
class MotoAccount:
    """Where AWS is served."""

    url: str

    def client(self, service: Any) -> Any:  # noqa: ANN401 - boto3 has an overload for each service
        return _client(self.url, service)

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let every AWS program of this process ask here, in an account where nothing is yet."""
        httpx.post(f"{self.url}/moto-api/reset", trust_env=False).raise_for_status()
        use_credentials(monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", self.url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)

    def variables(self) -> dict[str, str]:
        """What a child needs, to ask here."""
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_EC2_METADATA_DISABLED")
        return {name: os.environ[name] for name in names}  # noqa: TID251 - as ``use`` put them there


@cache
def _client(url: str, service: Any) -> Any:  # noqa: ANN401 - as above
    """Made once: that takes longer than all that it is asked."""
    return boto3.client(service, endpoint_url=url, region_name=REGION)


@contextmanager
def aws_account() -> Iterator[MotoAccount]:
    with s3_server() as url:
        yield MotoAccount(url)


def spec_of(environment: str = "production", **changed: Any) -> BootstrapSpec:  # noqa: ANN401 - its fields
    """What a bootstrap makes; each bucket has a name of its own."""
    given = {
        "account": ACCOUNT,
        "region": REGION,
        "bucket": f"hermesops-state-{uuid.uuid4().hex[:12]}",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "subjects": SUBJECTS,
    }
    return BootstrapSpec(environment=environment, **{**given, **changed})


def asked(region: str = REGION) -> Account:
    return Account(region)
