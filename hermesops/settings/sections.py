"""Tables of settings.toml: a model for each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from hermesops.model.billing.metering import Meter
from hermesops.model.messaging.messenger import Messenger
from hermesops.model.plan import Plan

_PINNED = r"https://[^\s,#]+#sha256=[0-9a-f]{64}"
_PINNED_FILE = r"(https:/)?/[^\s,#]+#sha256=[0-9a-f]{64}"


_HTTPS = r"^(https://[^\s#]{1,512})?$"
_WEB = r"^(https?://[^\s#]{1,512})?$"
"""Of an address that ``settings.checks`` refuses unless it is encrypted or this computer's own."""

_MOST_DAYS = 36_500
"""A hundred years: what "for ever" is given as, and no date that follows from it ends in an overflow."""


class Section(BaseModel):
    """A table of settings.toml. Frozen; paths are absolute once loaded; text has no white space around it."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class RegistrySettings(Section):
    """Table ``[registry]``: database of the registry and its TLS."""

    url: SecretStr | None = Field(
        None, description="SQLAlchemy URL of the registry; empty: SQLite in the environment's folder"
    )
    key_file: Path | None = Field(
        None, description="Key that encrypts secrets in the registry; empty: keys/registry.key, made on first use"
    )
    copies: int = Field(
        14, ge=1, le=10_000, description="Copies of an SQLite registry to keep of each kind: hourly, daily, others"
    )


class PulumiSettings(Section):
    """Table ``[pulumi]``: engine of Pulumi programs, and backend of their state."""

    engine: Literal["auto", "cli", "embedded"] = Field(
        "auto", description="Engine of Pulumi programs; auto never picks embedded in production"
    )
    backend: str = Field(
        "", description="Folder or s3:// URL of Pulumi's state, as PULUMI_BACKEND_URL spells it; empty: pulumi/"
    )
    passphrase_file: Path | None = Field(
        None, description="Passphrase of secrets in Pulumi's state; empty: keys/pulumi.passphrase, made on first use"
    )


class SecretsSettings(Section):
    """Table ``[secrets]``: home of secrets without a file of their own."""

    home: str = Field(
        "", description="Home of secrets without a *_file setting: age:FILE, aws:PREFIX or environment; empty: keys/"
    )
    identity: Path | None = Field(
        None, description="File of age identities, or an SSH key, that opens an age file of secrets"
    )


class OidcSettings(Section):
    """Table ``[oidc]``: OpenID Connect identities of pipelines."""

    token_file: Path | None = Field(
        None, description="File of a pipeline's OpenID Connect token, which verifies the pipeline"
    )
    issuer: str = Field("", description="Issuer of the pipelines' tokens: an https URL")
    audience: str = Field("", description="Audience of the pipelines' tokens")
    subjects: str = Field("", description="Pipelines that may act, comma-separated; * is anything")
    preview_subjects: str = Field(
        "",
        description="Pipelines of main that may only read the platform's account; spelled as oidc.subjects",
    )
    keys_file: Path | None = Field(None, description="The issuer's keys (JWKS); empty: as it publishes them")


class BackupSettings(Section):
    """Table ``[backup]``: bucket of backups, and their retention."""

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


class ReleaseSettings(Section):
    """Table ``[release]``: key that signs releases, and sources of their parts."""

    key_file: Path | None = Field(
        None, description="SSH key that signs releases; empty: operator_key, in the local world keys/release.key"
    )
    sqlite: str = Field(
        "",
        pattern=rf"^({_PINNED}( *, *{_PINNED})*)?$",
        description="Sources of SQLite for releases, comma-separated, your own mirror first: URL#sha256=DIGEST of "
        "upstream's amalgamation; after them the one that the image pins",
    )
    interpreter: str = Field(
        "",
        pattern=rf"^({_PINNED_FILE}( *, *{_PINNED_FILE})*)?$",
        description="Python that releases built from source bring: sources of one archive install_only of "
        "python-build-standalone, comma-separated, your own mirror first: URL#sha256=DIGEST or /PATH#sha256=DIGEST; "
        "empty: their machines' own",
    )


class RolloutSettings(Section):
    """Table ``[rollout]``: notifications and gates of rollouts."""

    webhook: SecretStr | None = Field(
        None, description="URL that gets one message for each change of a rollout's state"
    )
    hooks: Mapping[str, str] = Field(
        {},
        description="Commands that rollouts may name as gates (hook NAME), by name; settings.toml alone defines them",
    )
    hook_hosts: str = Field(
        "", description="Hosts that a hook NAME=https://… may ask, comma-separated; HOST:PORT where it is not 443"
    )


class RouterSettings(Section):
    """Table ``[router]``: address and keys of the model router."""

    url: str = Field("", description="Model router as machines reach it, with /v1; empty: the local world's")
    key_file: Path | None = Field(None, description="Key that signs router tokens; empty: the local world's")


class ModelSettings(Section):
    """Table ``[model]``: tokens, budgets and limits of agents for models."""

    token_days: float = Field(
        7, gt=0, le=30, description="Days for which an agent's token for the model router is valid; renewed at half"
    )
    usd_per_month: Mapping[Plan, Annotated[float, Field(ge=0, le=1_000_000)]] = Field(
        default={Plan.LIGHT: 20, Plan.HEAVY: 60},
        description="US dollars of models that an agent of each plan may use in a month; absent: no limit",
    )
    tokens_per_month: Mapping[Plan, Annotated[int, Field(ge=0, le=10**15)]] = Field(
        default={}, description="Tokens of models that an agent of each plan may use in a month; absent: no limit"
    )
    base_url: str = Field(
        "", description="OpenAI-compatible endpoint the local world's router forwards to; empty: scripted answers"
    )
    api_key: SecretStr | None = Field(None, description="Key for model.base_url")
    providers_key_file: Path | None = Field(
        None, description="Keys of model providers for the platform's model router; empty: keys/providers.key"
    )


class LocalSettings(Section):
    """Table ``[local]``: driver and limits of the local world."""

    driver: Literal["", "nspawn", "sim"] = Field(
        "", description="Driver of the local world's machines: nspawn, or sim for simulated ones; empty: as created"
    )
    base: str = Field("base-debian12", description="Base of the local world's machines: a folder base-* of images/")


class PlatformSettings(Section):
    """Table ``[platform]``: account, region and host of the shared platform."""

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


class MonitoringSettings(Section):
    """Table ``[monitoring]``: addresses of the platform's monitoring, and limits of the monitor's repairs."""

    url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="Monitoring of the platform, https://HOST:PORT; empty: the local world's, where it has one",
    )
    ingest_url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="URL at which machines send metrics and logs; empty: monitoring.url",
    )
    profile: Literal["auto", "lean", "full"] = Field(
        "auto",
        description="Profile of new images: lean forwards metrics and logs, full also keeps them for a day; "
        "auto: full when a Loki is available",
    )
    loki: str = Field(
        "",
        pattern=rf"^({_PINNED}( *, *{_PINNED})*)?$",
        description="Sources of Loki for images, comma-separated, your own mirror first: URL#sha256=DIGEST of the "
        "program or of Grafana's zip; empty: the one built on this computer, if any",
    )
    time_scale: float = Field(
        1.0,
        ge=0.2,
        le=10,
        description="Factor of the waiting times of alerts and of the machines' metrics intervals in the local "
        "world; below 1 for tests and drills",
    )
    actions: Literal["none", "restart", "all"] = Field(
        "restart", description="Automatic repairs of the monitor: none, restart machines, or replace them as well"
    )
    reboots_per_hour: int = Field(2, ge=1, le=6, description="Reboots of one machine by the monitor, an hour")
    replacements_per_day: int = Field(1, ge=1, le=4, description="Replacements of one machine by the monitor, a day")
    cell_repairs_per_hour: int = Field(
        5, ge=1, le=500, description="Machines of one cell that the monitor repairs, an hour"
    )
    repairs_per_hour: int = Field(20, ge=1, le=100_000, description="Machines that the monitor repairs in all, an hour")
    silent_share: float = Field(
        0.2, ge=0, le=1, description="Share of silent agents above which the monitor repairs none"
    )


class RelaySettings(Section):
    """Table ``[relay]``: the relay as one of its callers finds it, and the caller's certificate."""

    url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]+)?$",
        description="Relay by which the users' API reaches agents, https://HOST:PORT; empty: the local world's API is "
        "its own",
    )
    credential_file: Path | None = Field(
        None, description="Key, certificate and authorities of this caller of the relay, PEM, one behind the other"
    )
    renewed_file: Path | None = Field(
        None, description="File that takes them once they are renewed; empty: relay.credential_file"
    )


class WebSettings(Section):
    """Table ``[web]``: the users' pages and API: their address, the issuer of tokens, and the key of what users say."""

    origin: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.-]+(:[0-9]{1,5})?)?$",
        description="Origin of the users' pages and API, https://HOST; empty: http://localhost:PORT in the local world",
    )
    issuer: str = Field(
        "", pattern=_WEB, description="Issuer of users' tokens, as their claim iss has it; empty: the local world's"
    )
    issuer_kind: Literal["cognito", "supabase"] = Field("cognito", description="Kind of the issuer")
    client_id: str = Field(
        "", max_length=128, description="Client of the issuer that users' tokens are for, and by which pages sign in"
    )
    keys_url: str = Field("", pattern=_WEB, description="URL of the issuer's keys (JWKS)")
    authorize_url: str = Field("", pattern=_WEB, description="URL at which browsers sign in at the issuer")
    token_url: str = Field("", pattern=_WEB, description="URL at which the issuer gives tokens for codes")
    messages_key_file: Path | None = Field(
        None, description="Key that encrypts what users say in rows; empty: keys/messages.key, made on first use"
    )
    redis_url: str = Field(
        "",
        pattern=r"^(rediss?://([A-Za-z0-9_-]{1,64}@)?[A-Za-z0-9.-]{1,255}(:[0-9]{1,5})?)?$",
        description="Redis that carries the events of running answers between processes of the API, "
        "rediss://USER@HOST:PORT, or redis:// on this computer; empty: each process has its own alone",
    )
    redis_password_file: Path | None = Field(None, description="Password of that user of Redis; empty: none")
    redis_tls_folder: Path | None = Field(
        None, description="Folder with authorities.crt, client.crt and client.key for Redis; empty: the system's CAs"
    )
    denied: str = Field(
        "", max_length=100_000, description="Ids of users whom the API refuses, comma-separated, as for abuse"
    )


class ConsoleSettings(Section):
    """Table ``[console]``: the served console: its address, the issuer of operators' tokens, and roles by groups."""

    origin: str = Field(
        "",
        pattern=r"^(https://[a-z0-9.-]+(:[0-9]{1,5})?)?$",
        description="Origin of the served console, https://HOST, a name of its own; empty: it is not served",
    )
    networks: str = Field(
        "",
        max_length=1000,
        pattern=r"^(anywhere|[0-9a-f.:]{2,39}/[0-9]{1,3}(,[0-9a-f.:]{2,39}/[0-9]{1,3})*)?$",
        description="Networks whose browsers reach the served console, as 203.0.113.0/24,198.51.100.7/32, or anywhere: "
        "then the sign-in alone keeps others out; empty: anywhere in the local world, and refused on AWS",
    )
    issuer: str = Field("", pattern=_WEB, description="Issuer of operators' tokens, as their claim iss has it")
    client_id: str = Field(
        "", max_length=128, description="Client of the issuer by which operators sign in; their tokens are for it"
    )
    keys_url: str = Field("", pattern=_WEB, description="URL of the issuer's keys (JWKS)")
    authorize_url: str = Field("", pattern=_WEB, description="URL at which operators' browsers sign in at the issuer")
    token_url: str = Field("", pattern=_WEB, description="URL at which the issuer gives tokens for codes")
    scope: str = Field(
        "openid email",
        pattern=r"^openid( [A-Za-z0-9:/._-]{1,128}){0,15}$",
        description="Scope of operators' tokens, so that they have the claims named below",
    )
    name_claim: str = Field("email", max_length=64, description="Claim that names an operator in audit entries")
    groups_claim: str = Field("groups", max_length=64, description="Claim with an operator's groups")
    viewers: str = Field("", max_length=10_000, description="Groups that see every page, comma-separated")
    operators: str = Field(
        "", max_length=10_000, description="Groups that also make changes that can be undone, comma-separated"
    )
    admins: str = Field(
        "", max_length=10_000, description="Groups that also make changes that destroy something, comma-separated"
    )
    allowed: str = Field(
        "",
        max_length=10_000,
        description="The only operators who may use the served console, comma-separated; empty: all of these groups",
    )
    tls_folder: Path | None = Field(
        None, description="Folder with authorities.crt, client.crt and client.key by which it asks monitoring"
    )


class ConnectionSettings(Section):
    """Table ``[connections]``: services that agents may use for their users, by a project at Composio."""

    key_file: Path | None = Field(
        None, description="Key of the project at Composio; empty: secrets.home, and without one no service is offered"
    )
    services: str = Field(
        "",
        pattern=r"^([a-z0-9]{1,64}=[A-Za-z0-9_-]{1,128}(,|$))*$",
        description="Services that are offered, as gmail=ac_ID,slack=ac_ID with their configurations at Composio",
    )
    base_url: str = Field("", pattern=_WEB, description="URL of Composio's API; empty: its own, or the local world's")
    agents_url: str = Field(
        "",
        pattern=_HTTPS,
        description="URL of agents' calls as machines reach it, https://HOST/mcp; empty: agents are told of none",
    )


BOT_SETTINGS: Mapping[Messenger, str] = {
    Messenger.TELEGRAM: "telegram_bot",
    Messenger.SLACK: "slack_app",
    Messenger.WHATSAPP: "whatsapp_number",
    Messenger.DISCORD: "discord_app",
}
"""Settings of table ``[messengers]`` that name the bots: a messenger whose setting is empty is not offered."""


class MessengerSettings(Section):
    """Table ``[messengers]``: the bots by which users write to their agents, and the connector of agents' sockets."""

    telegram_bot: str = Field(
        "",
        pattern=r"^([A-Za-z][A-Za-z0-9_]{4,31})?$",
        description="Name of the bot at Telegram, without @; empty: Telegram is not offered",
    )
    telegram_url: str = Field("", pattern=_WEB, description="URL of Telegram's Bot API; empty: its own")
    telegram_token_file: Path | None = Field(None, description="Token of the bot at Telegram; empty: secrets.home")
    telegram_secret_file: Path | None = Field(
        None, description="Secret of Telegram's webhook, two lines while it is changed; empty: secrets.home"
    )
    slack_app: str = Field(
        "",
        pattern=r"^(A[A-Z0-9]{6,20})?$",
        description="Id of the app at Slack, as A0123456789; empty: Slack is not offered",
    )
    slack_url: str = Field("", pattern=_WEB, description="URL of Slack's Web API; empty: its own")
    slack_token_file: Path | None = Field(None, description="Token of the bot at Slack, xoxb-…; empty: secrets.home")
    slack_secret_file: Path | None = Field(
        None, description="Signing secret of the app at Slack, two lines while it is changed; empty: secrets.home"
    )
    whatsapp_number: str = Field(
        "",
        pattern=r"^([1-9][0-9]{6,14})?$",
        description="Number at WhatsApp that users write to, with its country's code and without +; empty: not offered",
    )
    whatsapp_phone: str = Field("", pattern=r"^([0-9]{5,20})?$", description="Id of that number at Meta")
    whatsapp_account: str = Field(
        "", pattern=r"^([0-9]{5,20})?$", description="Id of the WhatsApp Business account that has the number"
    )
    whatsapp_url: str = Field("", pattern=_WEB, description="URL of Meta's Graph API, with its version; empty: its own")
    whatsapp_token_file: Path | None = Field(
        None, description="Token of a system user at Meta that may write by the number; empty: secrets.home"
    )
    whatsapp_secret_file: Path | None = Field(
        None, description="Secret of the app at Meta, two lines while it is changed; empty: secrets.home"
    )
    whatsapp_key_file: Path | None = Field(
        None, description="Key by which the digests of telephone numbers are made; empty: secrets.home"
    )
    discord_app: str = Field(
        "",
        pattern=r"^([0-9]{15,20})?$",
        description="Id of the application at Discord; empty: Discord is not offered",
    )
    discord_public_key: str = Field(
        "",
        pattern=r"^([0-9a-f]{64})?$",
        description="Public key of that application, which signs commands; empty: the bot has no commands there",
    )
    discord_url: str = Field("", pattern=_WEB, description="URL of Discord's API, with its version; empty: its own")
    discord_token_file: Path | None = Field(None, description="Token of the bot at Discord; empty: secrets.home")
    connector_key_file: Path | None = Field(
        None, description="Key from which the secrets of agents' sockets are derived; empty: secrets.home"
    )
    agents_url: str = Field(
        "",
        pattern=r"^(https://[A-Za-z0-9.\[\]:_-]{1,256})?$",
        description="URL of the connector as machines reach it, https://HOST; empty: agents open no socket",
    )

    @property
    def bots(self) -> dict[Messenger, str]:
        """The names of the bots that are set, by messenger: those are offered."""
        names = {messenger: str(getattr(self, name)) for messenger, name in BOT_SETTINGS.items()}
        return {messenger: name for messenger, name in names.items() if name}


class BillingSettings(Section):
    """Table ``[billing]``: Stripe's prices, secrets and policies."""

    prices: Mapping[str, Plan] = Field({}, description="Plans by the id of their price at Stripe")
    sold: Mapping[Plan, str] = Field(
        {}, description="Price at Stripe by which users buy a plan, by plan; without: the plan's only price"
    )
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
        None, description="Stripe API key that reads subscriptions and makes checkout pages; empty: secrets.home"
    )
    base_url: str = Field("", pattern=_WEB, description="URL of Stripe's API; empty: its own, or the local world's")
    livemode: Literal["auto", "live", "test"] = Field(
        "auto", description="Mode of the accepted events at Stripe; auto: live in production, else test"
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
    keep_days: float = Field(14, gt=0, le=90, description="Days for which the body of an unreadable event is kept")
    meters: Mapping[Meter, Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        {}, description="Names of meters' events at Stripe, by what is counted; empty: nothing is metered"
    )
    metered_since: str = Field(
        "", pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", description="Day of UTC from which usage is metered"
    )
    metered_prices: frozenset[str] = Field(
        frozenset(), description="Prices of meters at Stripe that a subscription has beside its plan's"
    )
