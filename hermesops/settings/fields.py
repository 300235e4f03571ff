"""Every setting, with its default and bounds, and the names by which files and variables set it."""

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from hermesops.model.plan import Plan
from hermesops.settings.sections import (
    _MOST_DAYS,
    BackupSettings,
    BillingSettings,
    ConnectionSettings,
    ConsoleSettings,
    LocalSettings,
    MessengerSettings,
    ModelSettings,
    MonitoringSettings,
    OidcSettings,
    PlatformSettings,
    PulumiSettings,
    RegistrySettings,
    RelaySettings,
    ReleaseSettings,
    RolloutSettings,
    RouterSettings,
    SecretsSettings,
    Section,
    WebSettings,
)

PREFIX = "HERMESOPS_"


SECRET_PREFIX = "HERMESOPS_SECRET_"  # noqa: S105 - a name's beginning
"""Of variables that hold secrets, where the environment is their home."""


_Word = Annotated[str, Field(pattern=r"^\S+$")]
"""A name of the vendor's."""


class Settings(Section):
    """All settings of an environment, with defaults, bounds and descriptions."""

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
        "", description="Addresses of JustAVPS's broker, comma-separated; empty: the local world's"
    )
    daemon_port: int = Field(7070, gt=0, lt=65536, description="Port of JustAVPS's daemon on machines")
    region: _Word = Field("hel1", description="Region of new machines")
    plan_regions: Mapping[Plan, _Word] = Field(
        default={}, description="Region of new machines by plan; a plan without one uses region"
    )
    server_types: Mapping[Plan, _Word] = Field(
        default={Plan.LIGHT: "starter", Plan.HEAVY: "basic"}, description="Server type of each plan"
    )
    cell_size: int = Field(40, ge=1, le=500, description="Machines in a cell at most")
    pool_size: Mapping[Plan, Annotated[int, Field(ge=0, le=500)]] = Field(
        default={}, description="Machines of each plan that every cell keeps ready for new users; 0: none"
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
        "stopped",
        description="Whether a suspended agent's machine is kept with its disk, or removed; its backup is kept",
    )
    previous_days: float = Field(
        1,
        ge=0,
        le=_MOST_DAYS,
        description="Days for which an instance's previous machine is kept, with its gateway fenced",
    )
    plans_apart: bool = Field(False, description="Whether a new cell takes one plan only")
    parallel_cells: int = Field(4, ge=1, le=64, description="Cells whose stacks one command runs at the same time")
    parallel_provisions: int = Field(16, ge=1, le=256, description="Agents that one command provisions at a time")
    changed_share: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Share of a cell's machines that one run may change without confirmation; at least one machine",
    )
    monthly_budget: Decimal | None = Field(
        None,
        ge=0,
        le=100_000_000,
        description="Monthly budget of all machines in US dollars; higher costs need an explicit limit",
    )
    operators: Literal["named", "verified"] = Field(
        "named",
        description="Operators that may change anything: any user of the computer, or only those with a key or token",
    )
    operator_key: Path | None = Field(
        None,
        description="SSH key that signs your saved files and verifies you as operator; a public key: ssh-agent's",
    )
    allowed_signers: Path | None = Field(None, description="File of allowed signers, in OpenSSH's format")
    revoked_signers: Path | None = Field(None, description="File of keys whose signatures are revoked")
    approvals: Literal["none", "required"] = Field(
        "none", description="Whether changes beyond a run's limits need a preview that another operator approved"
    )
    unapproved_changes: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Agents that may end or change plan in 24 h without an approval, where approvals are required",
    )
    two_person_above: float = Field(
        60,
        ge=0,
        le=1_000_000,
        description="Blast radius of a rollout above which a second operator approves each further stage",
    )
    preview_life_h: float = Field(
        24, gt=0, le=8_760, description="Hours for which a saved preview or an approval is valid"
    )
    image: str = Field("hermes-base", description="Name of the image new machines boot from")
    gateway_timeout_s: float = Field(60, gt=0, le=3_600, description="Seconds a new gateway has to become healthy")

    prometheus_url: str = Field(
        "",
        description="Base URL of a Prometheus that gates query besides the nodes; empty: monitoring.url's, if any",
    )

    ended_backups_days: float = Field(
        30,
        ge=0,
        le=_MOST_DAYS,
        description="Days for which backups of a terminated agent are kept; 36500: for ever",
    )
    drill_days: float = Field(
        7,
        ge=0,
        le=_MOST_DAYS,
        description="Days between restore drills of an instance's backup onto a machine; 0: only by hand",
    )
    parallel_backups: int = Field(8, ge=1, le=64, description="Instances that one command backs up at the same time")

    releases: str = Field(
        "", description="Folder or s3:// URL of releases, spelled as pulumi.backend; empty: releases/"
    )
    without_jobs: str = Field("", description="Jobs that workers here do not start, comma-separated; all: every job")

    platform_url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="hermesops identity serve as machines reach it; empty: the local world's, else machines get no "
        "certificates",
    )
    authority_key_file: Path | None = Field(
        None, description="Key that signs machines' certificates; empty: keys/authority.key, made on first use"
    )
    certificate_days: float = Field(7, gt=0, le=90, description="Days for which a machine's certificate is valid")

    cache: Path | None = Field(
        None, description="Folder of downloads and bases that can be made again; empty: ~/.cache/hermesops"
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
    relay: RelaySettings = RelaySettings.model_validate({})
    web: WebSettings = WebSettings.model_validate({})
    connections: ConnectionSettings = ConnectionSettings.model_validate({})
    messengers: MessengerSettings = MessengerSettings.model_validate({})
    console: ConsoleSettings = ConsoleSettings.model_validate({})

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


SECTIONS = {
    name: value.annotation
    for name, value in Settings.model_fields.items()
    if isinstance(value.annotation, type) and issubclass(value.annotation, Section)
}


FIELDS: Mapping[str, FieldInfo] = {
    **{key: value for key, value in Settings.model_fields.items() if key not in SECTIONS},
    **{f"{name}.{key}": value for name, section in SECTIONS.items() for key, value in section.model_fields.items()},
}
"""Every setting by its name: ``region``, or ``backup.region`` for one in a table of settings.toml."""


NAMES = frozenset({name for key in FIELDS for name in (key, key.rpartition(".")[2])})
"""As lines of a file may begin."""


OF_VARIABLE = {key.replace(".", "_"): key for key in FIELDS}
"""Settings by what follows ``HERMESOPS_`` in a variable, in small letters."""


SECRET_KEYS = frozenset(key for key, value in FIELDS.items() if value.annotation in {SecretStr, SecretStr | None})
"""Settings that are secrets themselves, not names of files of them."""


def value_of(settings: Settings, key: str) -> Any:  # noqa: ANN401 - whatever type the setting has
    """The value of a setting by its name."""
    return reduce(getattr, key.split("."), settings)


def variable_of(key: str) -> str:
    """The variable that sets a setting."""
    return PREFIX + key.replace(".", "_").upper()


def is_secret(variable: str) -> bool:
    """Whether a variable of ours holds a secret."""
    return variable.startswith(SECRET_PREFIX) or OF_VARIABLE.get(variable.removeprefix(PREFIX).lower()) in SECRET_KEYS
