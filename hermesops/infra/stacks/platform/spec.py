"""Settings of one environment's platform on AWS: place and sizes. Read from ``Pulumi.<stack>.yaml``."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from hermesops.errors import UsageError

PROJECT = "platform"
"""Pulumi project of platforms; an environment's stack has the environment's name."""

_OF_PULUMI = {"encryptionsalt", "encryptedkey", "secretsprovider"}
"""What Pulumi's CLI writes into a stack's file beside ``config``."""

_DOMAIN = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}")
_SIGNER = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}")
_SSM_IMAGE = "resolve:ssm:/aws/service/debian/release/12/latest/amd64"
"""The newest official Debian 12 in a region; source: Debian's wiki, "Cloud/AmazonEC2Image"."""


def _domain(text: str) -> str:
    if not _DOMAIN.fullmatch(text):
        raise ValueError("is no domain of lower-case letters, digits, hyphens and dots")
    return text


def _private_network(text: str) -> str:
    network = ipaddress.ip_network(text)
    if network.version != 4 or network.prefixlen != 16 or not network.is_private:  # noqa: PLR2004 - IPv4, /16
        raise ValueError("is no private IPv4 network of 16 bits, as 10.60.0.0/16")
    return text


def _signer(text: str) -> str:
    if not _SIGNER.fullmatch(text):
        raise ValueError("is no public key 'ssh-ed25519 AAAA…' without a comment")
    return text


def _page(text: str) -> str:
    if not text.startswith("https://") and not re.match(r"http://localhost(:\d+)?/", text):
        raise ValueError("is neither an https address nor one of localhost")
    return text


Domain = Annotated[str, AfterValidator(_domain)]
Page = Annotated[str, AfterValidator(_page)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NetworkSpec(_Part):
    """Addresses and zones of the VPC."""

    cidr: Annotated[str, AfterValidator(_private_network)] = Field(description="Its addresses, a private /16")
    zones: tuple[str, str, str] = Field(description="Letters of the region's zones, as a, b, c", strict=False)
    endpoints: tuple[str, ...] = Field(
        (), description="Services of AWS that are reached without leaving the network, as kms", strict=False
    )

    @model_validator(mode="after")
    def _three(self) -> Self:
        if len(set(self.zones)) != len(self.zones) or not all(re.fullmatch("[a-z]", zone) for zone in self.zones):
            raise ValueError("zones are three different letters")
        return self


class DatabaseSpec(_Part):
    """Size, backups and rotation of PostgreSQL."""

    size: str = Field(pattern=r"^db\.[a-z0-9]+\.[a-z0-9]+$", description="Instance class")
    storage_gib: int = Field(ge=20, le=16384, description="GiB at first")
    most_storage_gib: int = Field(ge=20, le=65536, description="GiB to which it grows by itself")
    two_zones: bool = Field(description="Whether a standby in another zone takes over")
    backup_days: int = Field(ge=1, le=35, description="Days back to which it can be restored, at any second")
    rotation_days: int = Field(30, ge=1, le=365, description="Days after which its password changes")

    @model_validator(mode="after")
    def _grows(self) -> Self:
        if self.most_storage_gib < self.storage_gib:
            raise ValueError("most_storage_gib is less than storage_gib")
        return self


class RedisSpec(_Part):
    """Size, snapshots and rotation of Redis."""

    size: str = Field(pattern=r"^cache\.[a-z0-9]+\.[a-z0-9]+$", description="Node type")
    replicas: int = Field(ge=0, le=5, description="Further nodes, in other zones, of which one takes over")
    snapshot_days: int = Field(1, ge=1, le=35, description="Days for which daily snapshots are kept")
    rotation_days: int = Field(30, ge=1, le=365, description="Days after which its password changes")


class HostSpec(_Part):
    """The machine that hermesops' own services run on."""

    size: str = Field(pattern=r"^[a-z0-9-]+\.[a-z0-9]+$", description="Instance type, x86-64")
    disk_gib: int = Field(ge=20, le=4096, description="GiB of its disk, where metrics and logs are")
    version: str = Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,40}$", description="Version of hermesops that it runs")
    signers: tuple[Annotated[str, AfterValidator(_signer)], ...] = Field(
        min_length=1, description="Public keys that may have signed that version's bundle", strict=False
    )
    image: str = Field(
        _SSM_IMAGE,
        pattern=r"^(ami-[0-9a-f]{8,17}|resolve:ssm:/[A-Za-z0-9/_.-]+)$",
        description="What it boots from: an AMI, or the parameter that names one",
    )


class BackupSpec(_Part):
    """Retention of the bucket of users' backups."""

    lock_days: int = Field(ge=1, le=365, description="Days for which nothing that was written can be deleted")
    kept_days: int = Field(ge=2, le=3650, description="Days for which what was deleted or overwritten is kept")

    @model_validator(mode="after")
    def _outlives(self) -> Self:
        if self.kept_days <= self.lock_days:
            raise ValueError("kept_days is not more than lock_days")
        return self


class AuthSpec(_Part):
    """Pages for the sign-in of users and operators."""

    callback_pages: tuple[Page, ...] = Field(
        min_length=1, description="Pages of the app that users come back to", strict=False
    )
    logout_pages: tuple[Page, ...] = Field((), description="Pages that users see after signing out", strict=False)


class UsersSpec(_Part):
    """The load balancer before the users' half; there is one where the environment has a ``web.origin``."""

    log_days: int = Field(default=30, ge=1, le=365, description="Days for which its access logs are kept")
    most_log_gib: int = Field(
        default=20, ge=1, le=10_000, description="GiB of its access logs above which a ticket opens"
    )


class AlarmSpec(_Part):
    """Budget, and receivers of e-mails from alarms."""

    monthly_usd: int = Field(ge=1, description="What a month may cost")
    emails: tuple[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")], ...] = Field(
        min_length=1, description="Who is written to when alarms cannot reach Alertmanager", strict=False
    )


class Sizes(_Part):
    """The part of a platform that its stack's file says."""

    domain: Domain = Field(description="Of the platform; its zone is made here and has to be delegated to")
    network: NetworkSpec
    database: DatabaseSpec
    redis: RedisSpec
    host: HostSpec
    backups: BackupSpec
    auth: AuthSpec
    alarms: AlarmSpec
    users: UsersSpec = UsersSpec.model_validate({})
    logs_days: int = Field(90, ge=1, le=3653, description="Days for which CloudWatch keeps logs")


@dataclass(frozen=True)
class Place:
    """AWS account and region of a platform, from the environment's settings.

    Attributes:
        environment: Lower-case letters and digits; begins every name that AWS sees.
        account: 12 digits.
        region: As ``eu-central-1``.
        state_bucket: Bucket of Pulumi's state, which ``hermesops platform bootstrap`` makes.
    """

    environment: str
    account: str
    region: str
    state_bucket: str

    @property
    def prefix(self) -> str:
        """Prefix of all names at AWS, as ``hermesops-staging``."""
        return f"hermesops-{self.environment}"

    @property
    def path(self) -> str:
        """IAM's path of roles and policies, below which alone the pipeline's role may make any."""
        return f"/hermesops/{self.environment}/"

    @property
    def boundary(self) -> str:
        """ARN of the policy beyond which no role of ours reaches; bootstrap makes it."""
        return f"arn:aws:iam::{self.account}:policy/{self.prefix}-boundary"

    @property
    def users_boundary(self) -> str:
        """ARN of the policy beyond which no user of backups reaches; bootstrap makes it, too."""
        return f"arn:aws:iam::{self.account}:policy/{self.prefix}-backup-user"

    @property
    def tags(self) -> dict[str, str]:
        """Tags of every resource of the platform."""
        return {"hermesops:environment": self.environment, "hermesops:made-by": "pulumi-platform"}

    def arn(self, service: str, name: str) -> str:
        """ARN of something of a service that has regions."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{name}"

    def bucket(self, purpose: str) -> str:
        """Name of a bucket: no other account may have it already."""
        return f"{self.prefix}-{purpose}-{self.account}"


@dataclass(frozen=True)
class PlatformSpec:
    """The platform of one environment on AWS.

    Attributes:
        settings: Tables of settings.toml that the host is handed on, as Ansible takes them.
    """

    place: Place
    sizes: Sizes
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_sizes(text: str, file: str) -> Sizes:
    """Read the sizes in a stack's file.

    Args:
        text: What is in it: Pulumi's ``config``, each key with the project before it.
        file: Its name, for errors.

    Raises:
        UsageError: It is no YAML, a key is unknown or missing, or a value is not possible; all of them are named.
    """
    wrong: list[str] = []
    config = _config_of(text, file)
    prefix = f"{PROJECT}:"
    named = {key: value for key, value in config.items() if key.startswith(prefix)}
    wrong += [f"unknown key config.{key}" for key in config if key not in named]
    try:
        sizes = Sizes.model_validate({key.removeprefix(prefix): value for key, value in named.items()})
    except ValidationError as error:
        wrong += [_told(problem) for problem in error.errors()]
    else:
        if not wrong:
            return sizes
    raise UsageError(
        f"{file}: {'; '.join(wrong)}", hint="pulumi/platform/README.md lists the settings of a stack's file"
    )


def _config_of(text: str, file: str) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    unknown = [str(key) for key in read if key not in {*_OF_PULUMI, "config"}] if isinstance(read, dict) else []
    if unknown:
        raise UsageError(f"{file}: unknown key {', '.join(unknown)}", hint="a stack's settings stand below config")
    config = read.get("config") if isinstance(read, dict) else None
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in config):
        raise UsageError(f"{file} has no mapping config")
    return config


def _told(error: Mapping[str, Any]) -> str:
    first, *rest = map(str, error["loc"])
    where = ".".join([f"config.{PROJECT}:{first}", *rest])
    if error["type"] == "extra_forbidden":
        return f"unknown key {where}"
    return f"{where}: {str(error['msg']).removeprefix('Value error, ')}"
