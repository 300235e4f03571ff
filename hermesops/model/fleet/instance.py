"""One user's Hermes: the row that outlives its machines, its settings, services and rollout policy."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, time
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, UserId
from hermesops.model.plan import Plan
from hermesops.model.providers.choice import ProviderChoice, from_values


class InstanceStatus(StrEnum):
    """The seed's four values of ``hermes_instances.status``."""

    PROVISIONING = "provisioning"
    RUNNING = "running"
    SUSPENDED = "suspended"
    TERMINATED = "terminated"


@dataclass(frozen=True)
class InstanceSettings:
    """A user's settings of their agent; every field has a default.

    Attributes:
        model: Name of a route of the model router; empty means the platform's default.
        personality: Text for SOUL.md; empty keeps the agent's own.
        messengers: Environment variables of messengers by name (``TELEGRAM_BOT_TOKEN`` …); secret.
        mcp_servers: hermes-agent's ``mcp_servers`` entries by name; may hold secrets.
        cron: Jobs made on the first start: ``{"cron": …, "prompt": …, "enabled": …}``.
        provider: The user's own model provider; ``None`` for the platform's router, where alone ``model`` counts.
    """

    model: str = ""
    personality: str = ""
    messengers: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp_servers: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    cron: tuple[Mapping[str, object], ...] = ()
    disabled_tools: tuple[str, ...] = ()
    provider: ProviderChoice | None = None

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "InstanceSettings":
        """Settings as they are stored.

        Raises:
            TypeError: There is a field that this hermesops does not know.
        """
        raw = dict(values)
        for name in ("cron", "disabled_tools"):
            raw[name] = tuple(raw.get(name, ()))
        if provider := raw.pop("provider", None):
            raw["provider"] = from_values(provider)
        return cls(**raw)

    def to_values(self) -> dict[str, Any]:
        """The settings to be stored; without a field that hermesops of before did not know, unless it is used."""
        values = asdict(self)
        if self.provider is None:
            del values["provider"]
        return values


@dataclass(frozen=True)
class Instance:
    """A row of ``hermes_instances``, with the data that hermesops records beside it.

    Attributes:
        user_alias: The operators' name of the user; empty when only the id is known.
        machine_id: ``None`` until a machine is known.
        machine_name: The name a machine of this instance has or will have; written before it is ordered.
        epoch: Counts changes of machine; hermes-node refuses an older one.
        grace_until: When an agent is terminated unless that is cancelled; ``None`` for one that stays.
    """

    id: InstanceId
    user_id: UserId
    user_alias: str
    plan: Plan
    status: InstanceStatus
    cell: CellName
    machine_name: MachineName
    machine_id: MachineId | None
    epoch: int
    created_at: datetime
    last_heartbeat: datetime | None = None
    reported_gateway: GatewayHealth | None = None
    grace_until: datetime | None = None

    @property
    def title(self) -> str:
        """The operators' name of its user: the alias, else the id."""
        return self.user_alias or self.user_id


@dataclass(frozen=True)
class InstanceSecrets:
    """Secrets that only the registry (encrypted) and the instance's machine may have.

    Attributes:
        api_server_key: Bearer of the agent's own HTTP API.
        model_token: The instance's token for the model router.
    """

    api_server_key: str = field(repr=False)
    model_token: str = field(repr=False)


@dataclass(frozen=True)
class ServiceConnection:
    """A row of ``hermes_connections``.

    Attributes:
        service: ``google``, ``notion``, ``github`` …
        refresh_token: Empty where the service gives none.
        scopes: What was granted.
        expires_at: When the access token ends; ``None`` when it does not.
    """

    instance_id: InstanceId
    service: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: datetime | None
    connected_at: datetime


@dataclass(frozen=True)
class QuietHours:
    """Hours of the user's own day in which the agent is left alone.

    Attributes:
        begin: On the user's clock.
        end: Likewise; before ``begin`` where the hours span midnight.
        timezone: An IANA name.
    """

    begin: time
    end: time
    timezone: str = "UTC"

    def hold_at(self, now: datetime) -> bool:
        """Whether that moment is quiet; ``begin`` belongs to the hours, ``end`` does not."""
        there = now.astimezone(ZoneInfo(self.timezone)).time()
        if self.begin <= self.end:
            return self.begin <= there < self.end
        return there >= self.begin or there < self.end


@dataclass(frozen=True)
class InstancePolicy:
    """A row of ``instance_policies``, or the default: when and in which order rollouts may change an instance.

    Attributes:
        opted_in: Gets new releases first.
        protected: Gets them last.
    """

    opted_in: bool = False
    protected: bool = False
    quiet: QuietHours | None = None
