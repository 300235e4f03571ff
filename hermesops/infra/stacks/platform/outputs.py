"""Outputs of a stack of the project ``platform``: the same names in every environment."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from hermesops.errors import Hint, RefusedError

Text = TypeVar("Text")
"""``str`` once a stack was read, Pulumi's ``Input[str]`` while its program runs."""


@dataclass(frozen=True, kw_only=True)
class PlatformOutputs(Generic[Text]):
    """Addresses and credentials' places of a platform's services; empty for a service that is not there.

    Attributes:
        database_host: Name or address of PostgreSQL.
        database_port: Its TCP port.
        database_name: The registry's database.
        database_secret: ARN of the secret in Secrets Manager that holds user and password; empty where a client
            certificate of our authority is the way in.
        redis_host: Name or address of Redis, which accepts TLS only.
        redis_port: Its TCP port.
        redis_secret: ARN of the secret that holds its token; empty where a client certificate is the way in.
        releases_url: URL of releases, ``s3://bucket``; the setting ``releases``.
        backup_bucket: Name of the bucket of users' backups; the setting ``backup.bucket``.
        pulumi_state_url: URL of Pulumi's state, ``s3://bucket``; the setting ``pulumi.backend``.
        object_store_endpoint: ``https://host:port`` of an S3 store of our own; empty for Amazon's.
        region: Region of the buckets, as S3's signatures name it.
        router_url: URL of the LLM router, ``https://host:port/v1``.
        monitoring_url: ``https://host:port`` of Prometheus, Alertmanager and Grafana, for readers.
        ingest_url: ``https://host:port`` to which machines write metrics and logs.
        identity_url: ``https://host:port`` of the service that gives machines their certificates; the setting
            ``platform_url``.
        auth_issuer: Issuer of users' and operators' tokens; empty where there is none.
        auth_audience: Required audience of these tokens: client ids, separated by commas.
        host_names: Names of the machines that the platform runs on, separated by commas; empty where they come and go.
    """

    database_host: Text
    database_port: Text
    database_name: Text
    database_secret: Text
    redis_host: Text
    redis_port: Text
    redis_secret: Text
    releases_url: Text
    backup_bucket: Text
    pulumi_state_url: Text
    object_store_endpoint: Text
    region: Text
    router_url: Text
    monitoring_url: Text
    ingest_url: Text
    identity_url: Text
    auth_issuer: Text
    auth_audience: Text
    host_names: Text

    def by_name(self) -> dict[str, Text]:
        """Each under its name, as a program exports them: ``for name, value in …: pulumi.export(name, value)``."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def platform_outputs(outputs: Mapping[str, Any]) -> PlatformOutputs[str]:
    """Parse the outputs that an engine returns for a platform's stack; further outputs are ignored.

    Raises:
        RefusedError: An output is missing or no text, as when the stack was never applied, or by another version.
    """
    names = [field.name for field in fields(PlatformOutputs)]
    wrong = [name for name in names if not isinstance(outputs.get(name), str)]
    if wrong:
        raise RefusedError(
            f"the platform's stack has no output {', '.join(wrong)}", hint=Hint(("stack", "up", "platform"))
        )
    return PlatformOutputs(**{name: outputs[name] for name in names})
