"""The only reader of the environment and of settings files.

An environment (``local``, ``staging``, ``production``) is a folder ``<home>/<environment>`` that holds its
``settings.toml``, keys and state. A value comes from ``HERMESOPS_<NAME>``, else from that file, else from the default.
It must not build anything from what it read: that is ``hermesops.app``.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from math import inf
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError

from hermesops.base import child_environment, web_address
from hermesops.base.private_file import refuse_readable_by_others
from hermesops.errors import Hint, UsageError
from hermesops.model.plan import Plan
from hermesops.model.rollout_spec import HOOK_FACTS
from hermesops.model.unknown_name import unknown_name

LOCAL = "local"
"""The environment that is always there."""

PREFIX = "HERMESOPS_"
SECRET_PREFIX = "HERMESOPS_SECRET_"  # noqa: S105 - a name's beginning
"""Of variables that hold secrets, where the environment is their home."""
_PLAN_TABLES = {
    "server_types",
    "plan_regions",
    "pool_size",
    "data_gb",
    "billing.prices",
    "model.usd_per_month",
    "model.tokens_per_month",
}
_ADDRESSES = (
    "api_url",
    "router.url",
    "backup.endpoint",
    "backup.iam_endpoint",
    "prometheus_url",
    "rollout.webhook",
    "oidc.issuer",
)
_STORES = ("releases", "pulumi.backend")
_PINNED = r"https://[^\s,#]+#sha256=[0-9a-f]{64}"
_MOST_BYTES = 32 * 1024
_AT_LINE = re.compile(r"\(at line (\d{1,9}), column \d{1,9}\)$")
_CURLED = "“”„‟‘’‚‛«»"  # noqa: RUF001 - what word processors make of quotes
_QUOTES = f"{_CURLED}\"'"
_MOST_DAYS = 36_500
"""A hundred years: what "for ever" is given as, and no date that follows from it ends in an overflow."""

_SELECTORS = {"HERMESOPS_ENV", "HERMESOPS_HOME"}


_Word = Annotated[str, Field(pattern=r"^\S+$")]
"""A name of the vendor's."""


class _Section(BaseModel):
    """A table of settings.toml. Frozen; paths are absolute once loaded; text has no white space around it."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class RegistrySettings(_Section):
    """Where rows are kept."""

    url: SecretStr | None = Field(
        None, description="SQLAlchemy URL of the registry; empty: SQLite in the environment's folder"
    )
    key_file: Path | None = Field(
        None, description="Key that encrypts secrets in the registry; empty: keys/registry.key, made on first use"
    )
    copies: int = Field(
        14, ge=1, le=10_000, description="Copies of an SQLite registry to keep of each kind: hourly, daily, others"
    )


class PulumiSettings(_Section):
    """What runs Pulumi programs, and where their state is."""

    engine: Literal["auto", "cli", "embedded"] = Field(
        "auto", description="What runs Pulumi programs; production never picks embedded by itself"
    )
    backend: str = Field(
        "", description="Folder or s3:// URL of Pulumi's state, as PULUMI_BACKEND_URL spells it; empty: pulumi/"
    )
    passphrase_file: Path | None = Field(
        None, description="Passphrase of secrets in Pulumi's state; empty: keys/pulumi.passphrase, made on first use"
    )


class SecretsSettings(_Section):
    """Where secrets are kept."""

    home: str = Field(
        "", description="Where secrets are that no *_file names: age:FILE, aws:PREFIX or environment; empty: keys/"
    )
    identity: Path | None = Field(
        None, description="File of age identities, or an SSH key, that opens an age file of secrets"
    )


class OidcSettings(_Section):
    """How pipelines prove who they are."""

    token_file: Path | None = Field(None, description="A pipeline's OpenID Connect token; proves who it is")
    issuer: str = Field("", description="Who signs pipelines' tokens: an https URL")
    audience: str = Field("", description="For whom pipelines' tokens are made out")
    subjects: str = Field("", description="Pipelines that may act, comma-separated; * is anything")
    preview_subjects: str = Field(
        "",
        description="Pipelines of main that may only read the platform's account; spelled as oidc.subjects",
    )
    keys_file: Path | None = Field(None, description="The issuer's keys (JWKS); empty: as it publishes them")


class BackupSettings(_Section):
    """The object store that backups go to, and how many stay."""

    bucket: str = Field("", description="S3 bucket that backups go to; empty: the local world's")
    endpoint: str = Field("", description="Base URL of its S3; empty: Amazon's own")
    iam_endpoint: str = Field("", description="Base URL of the IAM that its keys come from; empty: Amazon's own")
    region: str = Field("us-east-1", description="Region of the bucket")
    key_file: Path | None = Field(
        None, description="The platform's key to it, in the form of ~/.aws/credentials; empty: as AWS programs find one"
    )
    user_boundary: str = Field(
        "", description="ARN of the policy that bounds the IAM users of backups, one an instance; empty: none"
    )
    ca_file: Path | None = Field(
        None, description="Certificates that machines trust for backup.endpoint; empty: their distribution's"
    )
    keep_daily: int = Field(14, ge=1, le=36_500, description="Days of which an instance's newest backup is kept")
    keep_weekly: int = Field(8, ge=0, le=5_200, description="Weeks of which it is kept")
    keep_monthly: int = Field(6, ge=0, le=1_200, description="Months of which it is kept; 1200 are for ever")


class ReleaseSettings(_Section):
    """How releases are signed."""

    key_file: Path | None = Field(
        None, description="SSH key that signs releases; empty: operator_key, in the local world keys/release.key"
    )


class RolloutSettings(_Section):
    """What rollouts tell, and may ask."""

    webhook: SecretStr | None = Field(
        None, description="URL that gets one message for each change of a rollout's state"
    )
    hooks: Mapping[str, str] = Field(
        {},
        description="Commands that rollouts may name as gates (--hook NAME), by name; settings.toml alone defines them",
    )
    hook_hosts: str = Field(
        "", description="Hosts that --hook NAME=https://… may ask, comma-separated; HOST:PORT where it is not 443"
    )


class RouterSettings(_Section):
    """The model router."""

    url: str = Field("", description="Model router as machines reach it, with /v1; empty: the local world's")
    key_file: Path | None = Field(None, description="Key that signs router tokens; empty: the local world's")


class ModelSettings(_Section):
    """Models, as agents reach them."""

    token_days: float = Field(
        7, gt=0, le=30, description="Days for which an agent's token for the model router counts; renewed at half"
    )
    usd_per_month: Mapping[Plan, Annotated[float, Field(ge=0, le=1_000_000)]] = Field(
        default={Plan.LIGHT: 20, Plan.HEAVY: 60},
        description="US dollars of models that an agent of each plan may use in a month; absent: no limit",
    )
    tokens_per_month: Mapping[Plan, Annotated[int, Field(ge=0, le=10**15)]] = Field(
        default={}, description="Tokens of models that an agent of each plan may use in a month, the same way"
    )
    base_url: str = Field(
        "", description="OpenAI-compatible endpoint the local world's router forwards to; empty: scripted answers"
    )
    api_key: SecretStr | None = Field(None, description="Key for model.base_url")
    providers_key_file: Path | None = Field(
        None, description="Keys of model providers for the platform's model router; empty: keys/providers.key"
    )


class LocalSettings(_Section):
    """The local world."""

    driver: Literal["", "nspawn", "sim"] = Field(
        "", description="What runs the local world's machines: nspawn, or sim for simulated ones; empty: as it was made"
    )
    base: str = Field(
        "base-debian12", description="What the local world's machines boot from: a folder base-* of images/"
    )


class PlatformSettings(_Section):
    """Where the shared platform is."""

    account: str = Field(
        "", pattern=r"^([0-9]{12})?$", description="AWS account that the platform is in, 12 digits; empty: in none"
    )
    region: str = Field("", pattern=r"^([a-z]{2}(-[a-z]+)+-[0-9])?$", description="AWS region that the platform is in")
    key_file: Path | None = Field(
        None,
        description="Keys to buckets of releases and Pulumi's state, in the form of ~/.aws/credentials, whose profile "
        "their URL names; empty: as AWS programs find them",
    )
    ca_file: Path | None = Field(
        None, description="Certificates that are trusted for those buckets' server; empty: the distribution's"
    )
    database_key_file: Path | None = Field(
        None,
        description="Key of the database's backups on a platform of one machine; empty: keys/database.key, made at its "
        "first stack up",
    )


class MonitoringSettings(_Section):
    """The platform's monitoring, and what the monitor may do by itself."""

    url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="Monitoring of the platform, https://HOST:PORT; empty: the local world's, where it has one",
    )
    ingest_url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="The same as machines reach it, who send metrics and logs there; empty: monitoring.url",
    )
    profile: Literal["auto", "lean", "full"] = Field(
        "auto",
        description="What new images do with metrics and logs: lean sends them on, full keeps a day of them besides; "
        "auto: full where there is a Loki",
    )
    loki: str = Field(
        "",
        pattern=rf"^({_PINNED}( *, *{_PINNED})*)?$",
        description="Where images get Loki from, comma-separated, one's own mirror first: URL#sha256=DIGEST of the "
        "program or of Grafana's zip; empty: the one built on this computer, if any",
    )
    time_scale: float = Field(
        1.0,
        ge=0.2,
        le=10,
        description="What waiting times of alerts, and machines' intervals of metrics, are multiplied by in the local "
        "world; below 1 for tests and drills",
    )
    actions: Literal["none", "restart", "all"] = Field(
        "restart", description="What the monitor does by itself: nothing, restart machines, or replace them as well"
    )
    reboots_per_hour: int = Field(2, ge=1, le=6, description="Reboots of one machine by the monitor, an hour")
    replacements_per_day: int = Field(1, ge=1, le=4, description="Replacements of one machine by the monitor, a day")
    cell_repairs_per_hour: int = Field(
        5, ge=1, le=500, description="Machines of one cell that the monitor repairs, an hour"
    )
    repairs_per_hour: int = Field(20, ge=1, le=100_000, description="Machines that the monitor repairs in all, an hour")
    silent_share: float = Field(
        0.2, ge=0, le=1, description="Part of the agents that may be silent at once; above it the monitor repairs none"
    )


class BillingSettings(_Section):
    """What Stripe's events about subscriptions ask for."""

    prices: Mapping[str, Plan] = Field({}, description="Plans by the id of their price at Stripe")
    product: str = Field(
        "", description="Id of the product that agents are sold as at Stripe; empty: the account sells nothing else"
    )
    account: str = Field("", description="Id of the Stripe account, where it is a connected one; empty: one's own")
    user_key: str = Field(
        "user_id", min_length=1, max_length=40, description="Key of a subscription's metadata that has the user's id"
    )
    secret_file: Path | None = Field(
        None,
        description="Signing secret of Stripe's webhook endpoint, two lines while it is rolled; empty: secrets.home",
    )
    key_file: Path | None = Field(
        None, description="Stripe API key that may read subscriptions, to ask before anything is done; empty: none"
    )
    livemode: Literal["auto", "live", "test"] = Field(
        "auto", description="Which of Stripe's modes events have to be of; auto: live in production, else test"
    )
    tolerance_s: float = Field(
        300, gt=0, le=3600, description="Seconds that an event's signature may be older than its receipt"
    )
    grace_days: float = Field(
        3, ge=0, le=60, description="Days from a subscription's first unpaid day until its agent is suspended"
    )
    suspending_pauses: frozenset[Literal["void", "keep_as_draft", "mark_uncollectible"]] = Field(
        frozenset({"void"}),
        description="Pauses of payment collection at Stripe that suspend the agent, by what becomes of invoices",
    )
    keep_days: float = Field(
        14, gt=0, le=90, description="Days for which an event that was not understood is kept as it was received"
    )


class Settings(_Section):
    """Everything an operator can set."""

    api_url: str = Field("", description="Base URL of JustAVPS's API, with /api/v1; empty: the local world's")
    api_key: SecretStr | None = Field(None, description="JustAVPS API key; prefer api_key_file")
    api_key_file: Path | None = Field(None, description="File with the JustAVPS API key; empty: the local world's")

    audit_anchor: Path | None = Field(
        None, description="File outside the database that takes the audit's heads; empty: audit.anchor"
    )

    proxy_domain: str = Field(
        "", description="Domain below which JustAVPS serves ports of machines; empty: below api_url's host"
    )
    broker_addresses: str = Field(
        "", description="Where JustAVPS's broker speaks from, comma-separated; empty: the local world's"
    )
    daemon_port: int = Field(7070, gt=0, lt=65536, description="Port of JustAVPS's daemon on machines")
    region: _Word = Field("hel1", description="Where new machines are rented")
    plan_regions: Mapping[Plan, _Word] = Field(
        default={}, description="Where machines of single plans are rented; a plan without one goes to region"
    )
    server_types: Mapping[Plan, _Word] = Field(
        default={Plan.LIGHT: "starter", Plan.HEAVY: "basic"}, description="Server type of each plan"
    )
    cell_size: int = Field(40, ge=1, le=500, description="Machines in a cell at most")
    pool_size: Mapping[Plan, Annotated[int, Field(ge=0, le=500)]] = Field(
        default={}, description="Machines of each plan that every cell keeps ready for newcomers; 0 keeps none"
    )
    data_gb: Mapping[Plan, Annotated[int, Field(ge=0, le=65_536)]] = Field(
        default={Plan.LIGHT: 40, Plan.HEAVY: 80}, description="Gigabytes that the data of each plan may take"
    )
    grace_days: float = Field(
        7, ge=0, le=_MOST_DAYS, description="Days for which a termination can be cancelled; 0 terminates at once"
    )
    last_backup: Literal["required", "none"] = Field(
        "required", description="Whether an agent only ends once its last backup was made, restored and compared"
    )
    suspended_machines: Literal["stopped", "removed"] = Field(
        "stopped", description="What becomes of a suspended agent's machine: its disk is kept, or only its backup"
    )
    previous_days: float = Field(
        1,
        ge=0,
        le=_MOST_DAYS,
        description="Days for which a machine that an instance left is kept, its gateway fenced",
    )
    plans_apart: bool = Field(False, description="Whether a new cell takes one plan only")
    parallel_cells: int = Field(4, ge=1, le=64, description="Cells whose stacks one command runs at the same time")
    parallel_provisions: int = Field(16, ge=1, le=256, description="Agents that one command provisions at a time")
    changed_share: float = Field(
        0.25, ge=0, le=1, description="Part of a cell's machines that one run may change unasked; one always may be"
    )
    monthly_budget: Decimal | None = Field(
        None, ge=0, le=100_000_000, description="US dollars a month that all machines may cost; more has to be named"
    )
    operators: Literal["named", "verified"] = Field(
        "named", description="Who may change anything: whom the computer names, or only whom a key or token proves"
    )
    operator_key: Path | None = Field(
        None, description="SSH key that signs what you save, and proves who you are; a public one: ssh-agent's"
    )
    allowed_signers: Path | None = Field(None, description="Whose signatures count, in OpenSSH's format")
    revoked_signers: Path | None = Field(None, description="Keys whose signatures count no more")
    approvals: Literal["none", "required"] = Field(
        "none", description="Whether what goes beyond a run's limits needs a preview that another operator approved"
    )
    unapproved_changes: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Where approvals are required: agents that may end or change plan in 24 h without one",
    )
    two_person_above: float = Field(
        60,
        ge=0,
        le=1_000_000,
        description="Blast radius of a rollout above which a second operator approves each further stage",
    )
    preview_life_h: float = Field(
        24, gt=0, le=8_760, description="Hours for which a saved preview, or an approval, counts"
    )
    image: str = Field("hermes-base", description="Name of the image new machines boot from")
    gateway_timeout_s: float = Field(60, gt=0, le=3_600, description="Seconds a new gateway has to become healthy")

    prometheus_url: str = Field(
        "", description="Base URL of a Prometheus that gates ask besides nodes; empty: that of monitoring.url, if any"
    )

    ended_backups_days: float = Field(
        30,
        ge=0,
        le=_MOST_DAYS,
        description="Days for which the backups of an agent that has ended for good are kept; 36500 are for ever",
    )
    drill_days: float = Field(
        7,
        ge=0,
        le=_MOST_DAYS,
        description="Days from one restore of a backup onto a machine, for proof, to the next; 0: only by hand",
    )
    parallel_backups: int = Field(8, ge=1, le=64, description="Instances that one command backs up at the same time")

    releases: str = Field(
        "", description="Folder or s3:// URL of releases, spelled as pulumi.backend; empty: releases/"
    )
    without_jobs: str = Field(
        "", description="Jobs that no worker here runs by itself, comma-separated; all: none of them"
    )

    platform_url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="hermesops identity serve as machines reach it; empty: the local world's, else machines get no "
        "certificates",
    )
    authority_key_file: Path | None = Field(
        None, description="Key that signs machines' certificates; empty: keys/authority.key, made on first use"
    )
    certificate_days: float = Field(7, gt=0, le=90, description="Days for which a machine's certificate counts")

    cache: Path | None = Field(
        None, description="Downloads and bases that can be made again; empty: ~/.cache/hermesops"
    )

    registry: RegistrySettings = RegistrySettings.model_validate({})
    pulumi: PulumiSettings = PulumiSettings.model_validate({})
    secrets: SecretsSettings = SecretsSettings.model_validate({})
    oidc: OidcSettings = OidcSettings.model_validate({})
    backup: BackupSettings = BackupSettings.model_validate({})
    release: ReleaseSettings = ReleaseSettings.model_validate({})
    rollout: RolloutSettings = RolloutSettings.model_validate({})
    router: RouterSettings = RouterSettings.model_validate({})
    model: ModelSettings = ModelSettings.model_validate({})
    local: LocalSettings = LocalSettings.model_validate({})
    monitoring: MonitoringSettings = MonitoringSettings.model_validate({})
    platform: PlatformSettings = PlatformSettings.model_validate({})
    billing: BillingSettings = BillingSettings.model_validate({})

    @field_validator("server_types", "data_gb")
    @classmethod
    def _names_each_plan(cls, value: Mapping[Plan, object]) -> Mapping[Plan, object]:
        missing = [plan for plan in Plan if plan not in value]
        if missing:
            raise PydanticCustomError("plan_missing", "it has nothing for {plans}", {"plans": ", ".join(missing)})
        return value

    @property
    def highest_two_person(self) -> float:
        """The highest that a rollout's ``two_person_above`` may be."""
        return self.two_person_above if self.approvals == "required" else inf


_SECTIONS = {
    name: value.annotation
    for name, value in Settings.model_fields.items()
    if isinstance(value.annotation, type) and issubclass(value.annotation, _Section)
}

FIELDS: Mapping[str, FieldInfo] = {
    **{key: value for key, value in Settings.model_fields.items() if key not in _SECTIONS},
    **{f"{name}.{key}": value for name, section in _SECTIONS.items() for key, value in section.model_fields.items()},
}
"""Every setting by its name: ``region``, or ``backup.region`` for one in a table of settings.toml."""

_NAMES = frozenset({name for key in FIELDS for name in (key, key.rpartition(".")[2])})
"""As lines of a file may begin."""

_OF_VARIABLE = {key.replace(".", "_"): key for key in FIELDS}
"""Settings by what follows ``HERMESOPS_`` in a variable, in small letters."""

_SECRET_KEYS = frozenset(key for key, value in FIELDS.items() if value.annotation in {SecretStr, SecretStr | None})
"""Settings that are secrets themselves, not names of files of them."""


def value_of(settings: Settings, key: str) -> Any:  # noqa: ANN401 - whatever type the setting has
    """The value of a setting by its name."""
    return reduce(getattr, key.split("."), settings)


def variable_of(key: str) -> str:
    """The variable that sets a setting."""
    return PREFIX + key.replace(".", "_").upper()


@dataclass(frozen=True)
class Environment:
    """A named set of settings with its folder.

    Attributes:
        folder: Holds settings.toml, keys/ and state of this environment.
        sources: Where each value came from: ``environment``, the file's path, or ``default``.
        variables: All that this process was given, secrets too; no child gets them, see ``for_child``.
        secrets: What variables ``HERMESOPS_SECRET_<NAME>`` hold, by name as the variable spells it.
    """

    name: str
    folder: Path
    settings: Settings
    sources: Mapping[str, str]
    variables: Mapping[str, str] = field(repr=False)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether its machines are this computer's own."""
        return self.name == LOCAL and not self.settings.api_url

    @property
    def is_production(self) -> bool:
        """Whether mistakes here hurt users."""
        return self.name == "production"

    @property
    def world(self) -> Path:
        """Folder of the local world."""
        return self.folder / "world"

    @property
    def keys(self) -> Path:
        """Folder of keys made on first use."""
        return self.folder / "keys"

    @property
    def cache(self) -> Path:
        """Folder of what can be downloaded or built again."""
        return self.settings.cache or Path(self.variables["HOME"]) / ".cache" / "hermesops"

    def for_child(self, *names: child_environment.Names, added: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a program that is not ours; see ``child_environment.made``."""
        return child_environment.made(*names, variables=self.variables, added=added)

    def for_hermesops(self, *names: child_environment.Names, secrets: Collection[str] = ()) -> dict[str, str]:
        """The environment of another process of hermesops: every setting, of the secret ones only what it needs.

        Args:
            names: Lists of what it, or a program that it starts, needs beside settings.
            secrets: Variables that hold secrets, as ``HERMESOPS_API_KEY``, which it cannot work without.
        """
        ours = {
            name: text
            for name, text in self.variables.items()
            if name.startswith(PREFIX) and (name in secrets or not is_secret(name))
        }
        return self.for_child(*names, added={**ours, "HERMESOPS_ENV": self.name})

    @classmethod
    def load(cls, name: str = "", environ: Mapping[str, str] | None = None) -> Self:
        """Read one environment.

        Args:
            name: Which; empty takes ``HERMESOPS_ENV``, else ``local``.
            environ: The process's variables; a test passes its own.

        Raises:
            UsageError: An unknown key, a bad value, an unreadable file, a bad environment name, or an address outside
                the local world that is asked in the clear, or one with a password in it.
            RefusedError: The file holds a secret and others may read it.
        """
        variables = dict(os.environ if environ is None else environ)
        if "HOME" not in variables:
            variables["HOME"] = _home_of_this_user()
        name = name or variables.get("HERMESOPS_ENV", "") or LOCAL
        if not name.isidentifier() or name.lower() != name:
            raise UsageError(f"environment {name!r} is not a name: lower-case letters, digits and _ only")
        home = _home_of_environments(variables)
        folder = home / name
        file = folder / "settings.toml"
        from_file = _read_file(file)
        from_variables = _read_variables(variables)
        merged = {**from_file, **from_variables}
        sources = {
            key: "environment" if key in from_variables else str(file) if key in from_file else "default"
            for key in FIELDS
        }
        _refuse_user_info(merged, sources)
        env = cls(name, folder, _validate(merged, sources), sources, variables, _secrets_in(variables))
        if not env.is_local:
            _refuse_exposed(env.settings, sources)
        return env


def schema() -> dict[str, Any]:
    """The JSON Schema of settings.toml: every key with its description, default and bounds."""
    found = Settings.model_json_schema(schema_generator=_TomlSchema)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **found,
        "title": "settings.toml",
        "description": "Settings of one environment of hermesops. "
        "A variable HERMESOPS_<KEY>, or HERMESOPS_<TABLE>_<KEY>, wins over the file.",
    }


class _TomlSchema(GenerateJsonSchema):
    """JSON Schema without null, which TOML does not have, and without titles that repeat keys."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - a type of pydantic's core
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
        found = super().default_schema(schema)
        says_nothing = found.get("default", "") is None or schema["schema"]["type"] == "model"  # its keys have defaults
        return {key: value for key, value in found.items() if key != "default"} if says_nothing else found

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as above
        return False


def is_secret(variable: str) -> bool:
    """Whether a variable of ours holds what must not be shown."""
    return variable.startswith(SECRET_PREFIX) or _OF_VARIABLE.get(variable.removeprefix(PREFIX).lower()) in _SECRET_KEYS


def _home_of_this_user() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # a container's user id need not have one
        raise UsageError(
            "this user has no home: neither HOME nor the user database names one",
            hint="set HOME to a folder this user may write to",
        ) from None


def _home_of_environments(variables: Mapping[str, str]) -> Path:
    given = variables.get("HERMESOPS_HOME", "")
    if not given:
        return Path(variables["HOME"], ".hermesops").absolute()
    if given == "~" or given.startswith("~/"):  # in quotes, in a unit of systemd or in a .env file no shell expands it
        given = variables["HOME"] + given[1:]
    home = Path(given)
    if not home.is_absolute():
        raise UsageError(
            f"HERMESOPS_HOME is {given!r}, another folder in each place where hermesops is started",
            hint=f"export HERMESOPS_HOME={shlex.quote(str(home.absolute()))}",
        )
    if home.exists() and not home.is_dir():
        raise UsageError(f"HERMESOPS_HOME is {given}, a file", hint="set HERMESOPS_HOME to a folder")
    return home


def _read_file(file: Path) -> dict[str, object]:
    text = ""
    try:
        with file.open("rb") as opened:
            text = _text_of(opened)
            values = _flat(tomllib.loads(text))
            if secret := next((key for key in values if _is_secret(key, values[key])), ""):
                refuse_readable_by_others(opened.fileno(), file, what=secret)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no TOML, a number of 5,000 digits
        raise UsageError(
            f"cannot read {file}: {error}{_beginning(text, str(error))}", hint=f"repair or remove {file}"
        ) from error
    for key in values:
        _known(key, f"in {file}{_line_of(key, text)}")
    return values


def _beginning(text: str, problem: str) -> str:
    """The beginning of the line at which reading TOML stopped: never a value, which may be a secret."""
    found = _AT_LINE.search(problem)
    line = [*text.splitlines(), ""][int(found[1]) - 1] if found else ""
    key, _, value = line.partition("=")
    if key.strip(f"{_QUOTES} ") not in _NAMES:
        return ""
    begin = value.strip()[:1]
    why = ', but text stands between straight quotes, as "nbg1"' if begin in _CURLED or begin.isalpha() else ""
    return f": the line begins with {key}= {begin}…{why}"


def _line_of(key: str, text: str) -> str:
    """Where a settings file sets a key, as ``:7``, which ``tomllib`` does not say; empty where it is spelled rarely."""
    table, _, name = key.rpartition(".")
    within = ""
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if said.startswith("["):
            within = said.strip("[] ")
        spelled = said.partition("=")[0].strip().strip("\"'")
        if (within, spelled) == (table, name) or (not within and spelled == key) or (not table and within == key):
            return f":{number}"
    return ""


def _flat(tables: Mapping[str, object]) -> dict[str, object]:
    """What a settings file says, by the names of settings."""
    found: dict[str, object] = {}
    for key, value in tables.items():
        if key in _SECTIONS and isinstance(value, Mapping):
            found.update({f"{key}.{name}": inner for name, inner in value.items()})
        else:
            found[key] = value
    return found


def _text_of(opened: BinaryIO) -> str:
    """What is in a settings file; ``ValueError`` where that is no UTF-8, or so much that reading TOML takes seconds."""
    data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES // 1024} KiB")
    return data.decode("utf-8-sig")  # some editors begin each file with a byte order mark


def _is_secret(key: str, value: object) -> bool:
    """Whether a value of the file is a secret itself; a path of SQLite is none."""
    return key in _SECRET_KEYS and not str(value).startswith("sqlite:")


def _place(key: str, sources: Mapping[str, str]) -> str:
    """Where a setting was set, in words."""
    return f"variable {variable_of(key)}" if sources[key] == "environment" else sources[key]


def _refuse_user_info(values: Mapping[str, object], sources: Mapping[str, str]) -> None:
    """Refuse a password in a URL: it is shown wherever the URL is, in errors too. Hidden settings may have one.

    Raises:
        UsageError: There is one; it names the key and where it was set.
    """
    for key, value in values.items():
        texts = value.values() if isinstance(value, Mapping) else [value]
        if key not in _SECRET_KEYS and any(isinstance(text, str) and web_address.has_user_info(text) for text in texts):
            raise UsageError(
                f"{key} (from {_place(key, sources)}): a URL in it has a user or a password before its host",
                hint=f"take that out of {key}: URLs are shown and logged, secrets stand in files that a *_file setting "
                "names",
            )


def _refuse_exposed(settings: Settings, sources: Mapping[str, str]) -> None:
    """Refuse addresses that get secrets, or decide about users, and are not encrypted.

    Raises:
        UsageError: One is; it names the key and where it was set.
    """
    for key in _ADDRESSES:
        value = value_of(settings, key)
        url = value.get_secret_value() if isinstance(value, SecretStr) else value
        why = web_address.exposure(url) if url else ""
        if why:
            raise UsageError(
                f"{key} (from {_place(key, sources)}): {why}", hint=f"set {key} to an address that begins with https://"
            )
    for key in _STORES:
        why = web_address.bucket_exposure(value_of(settings, key))
        if why:
            raise UsageError(
                f"{key} (from {_place(key, sources)}): {why}", hint=f"let the endpoint in {key} begin with https://"
            )


def _read_variables(variables: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, text in variables.items():
        if not variable.startswith(PREFIX) or variable in _SELECTORS or variable.startswith(SECRET_PREFIX):
            continue
        if variable in HOOK_FACTS:  # this process was started by a hook
            continue
        name = variable.removeprefix(PREFIX).lower()
        key = _OF_VARIABLE.get(name, name)
        _known(key, f"(variable {variable})")
        if key == "rollout.hooks":
            raise UsageError(
                f"{variable}: what rollouts may run stands in settings.toml alone", hint=f"unset {variable}"
            )
        values[key] = _plan_table(text) if key in _PLAN_TABLES else text
    return values


def _secrets_in(variables: Mapping[str, str]) -> dict[str, SecretStr]:
    return {
        variable.removeprefix(SECRET_PREFIX): SecretStr(text)
        for variable, text in variables.items()
        if variable.startswith(SECRET_PREFIX) and text
    }


def _plan_table(text: str) -> dict[str, str]:
    """``light=starter,heavy=basic`` as a table; what is malformed is left for validation to name."""
    parts = [part for part in text.split(",") if part.strip()]
    return {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in parts)}


def _known(key: str, where: str) -> None:
    if key in FIELDS:
        return
    raise unknown_name("setting", key, FIELDS, where=f" {where}")


def _nested(values: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section:
            found.setdefault(section, {})[name] = value
        else:
            found[key] = value
    return found


def _validate(values: Mapping[str, object], sources: Mapping[str, str]) -> Settings:
    try:
        settings = Settings.model_validate(_nested(values))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"][: 2 if first["loc"][0] in _SECTIONS else 1])
        raise UsageError(
            f"settings key {key!r} (from {sources.get(key, 'default')}): {first['msg']}",
            hint=Hint(
                f"{key}: {FIELDS[key].description}." if key in FIELDS else "",
                ("settings", "show"),
                "lists keys and defaults",
            ),
        ) from None
    if settings.approvals == "required" and settings.operators != "verified":
        raise UsageError(
            f"settings key 'approvals' (from {sources.get('approvals', 'default')}): what two operators have to want "
            "needs operators who prove who they are",
            hint='set operators = "verified" beside approvals = "required"',
        )
    return settings
