"""Role ``hermes_platform_control``: hermesops itself on the platform's host, its settings and its keys."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from hermesops.access.secrets.catalog import (
    API_KEY,
    AUTHORITY_KEY,
    BILLING_KEY,
    BILLING_SECRET,
    CONNECTIONS_KEY,
    CONNECTOR_KEY,
    MESSAGES_KEY,
    PULUMI_PASSPHRASE,
    REGISTRY_KEY,
    ROUTER_KEY,
)
from hermesops.access.secrets.endpoint import Endpoint
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.access.secrets.store import Secrets
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.machines.image.bundles.control import ControlBundle
from hermesops.platform.host import CertificatePairs, HostAddress
from hermesops.platform.parts.connector_keys import made_key
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS, value_of
from hermesops.store.registry.schema import role_grants

AUTHORITIES = "/etc/hermes-platform/tls/authorities.crt"
"""Where role ``hermes_platform_tls`` puts the authorities that certificates may be signed by."""

PROCESSES = {name: f"/var/lib/{name}" for name in ("hermesops", "hermesops-identity", "hermesops-relay")}
"""Users of hermesops' processes, with their homes; the names in the certificates by which they reach the registry."""

OPERATOR = "hermesops-operator"
"""Name of an operator's computer in the certificate by which it reaches the registry."""

DATABASE_USER = "hermesops"
"""Role of the database that owns the registry."""

DATABASE_CLIENTS = {
    DATABASE_USER: [*PROCESSES, OPERATOR],
    role_grants.ROUTER: ["hermesops-router"],
    role_grants.API: ["hermesops-api"],
    role_grants.CONNECTIONS: ["hermesops-connections"],
    role_grants.CONNECTOR: ["hermesops-connector"],
    role_grants.CONSOLE: ["hermesops-console"],
}
"""Names in certificates by roles of the database."""

STORE_KEYS = "object-store.keys"
"""File of the keys to buckets of releases and of Pulumi's state, a profile each; in ``keys/``."""

IAM_ON_HOST = "https://127.0.0.1:8447"
"""IAM of the host's object store."""

HANDED_OVER = (
    API_KEY,
    REGISTRY_KEY,
    MESSAGES_KEY,
    AUTHORITY_KEY,
    ROUTER_KEY,
    PULUMI_PASSPHRASE,
    BILLING_SECRET,
    BILLING_KEY,
    CONNECTIONS_KEY,
    CONNECTOR_KEY,
)
"""Secrets that processes on the platform cannot work without; the role says which gets which."""


@dataclass(frozen=True)
class ControlPart:
    """Role ``hermes_platform_control``: hermesops as a service of the host.

    Args:
        bundle: Makes the archive that hermesops is installed from; blocks.
        registry_url: Without certificates, which each process adds.
        settings: As settings.toml has them.
        keys: Texts of secrets by their names; those that are not there are left out.
        proof: Variables that say who may act, and whose signatures count; see ``host_proof``.
        vendor_api: ``HOST:PORT`` of a local world's API; empty for a vendor that is reached by itself.
        vendor_api_port: On the host's loopback, as on the computer of the world.
        is_connected: Whether the host's registry has the environment's rows. Two registries over one vendor would work
            against each other, so no process runs before.
    """

    environment: str
    bundle: Callable[[], ControlBundle]
    registry_url: str
    settings: Mapping[str, object]
    keys: Callable[[], Mapping[str, str]]
    proof: Mapping[str, str]
    vendor_api: str
    vendor_api_port: int
    is_connected: bool
    role: str = "hermes_platform_control"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role; adds a certificate for each process without a good one."""
        del at
        bundle = await asyncio.to_thread(self.bundle)
        certificates = {}
        for name, home in PROCESSES.items():
            certificate, key = await pairs.client(name, f"{home}/registry-client.crt")
            certificates[name] = {"certificate": certificate, "key": key}
        return {
            "environment": self.environment,
            "bundle": bundle.file,
            "version": bundle.version,
            "registry_url": self.registry_url,
            "certificates": certificates,
            "settings": self.settings,
            "keys": self.keys(),
            **self.proof,
            "object_store": True,
            "processes": ["worker", "monitor", "identity", "relay"] if self.is_connected else [],
            "vendor_api": self.vendor_api,
            "vendor_api_port": self.vendor_api_port,
        }


def keys_of(
    endpoint: Endpoint, router_keys: Sequence[bytes], passphrase: str, secrets: Secrets, *, has_connector: bool = False
) -> dict[str, str]:
    """Secrets of the platform's processes by name; missing ones are left out, but for keys of messages, which are made.

    Args:
        router_keys: The newest first.
        passphrase: Of Pulumi's state.
        has_connector: Whether agents open sockets, whose secrets are derived from a key.
    """
    values = {
        API_KEY.name: endpoint.api_key,
        MESSAGES_KEY.name: secrets.made(MESSAGES_KEY, Ring.fresh().to_text()),
        CONNECTIONS_KEY.name: project_key(endpoint, secrets),
        CONNECTOR_KEY.name: made_key(secrets) if has_connector else "",
        ROUTER_KEY.name: "\n".join(key.decode() for key in router_keys),
        PULUMI_PASSPHRASE.name: passphrase,
    }
    return {key.name: text for key in HANDED_OVER if (text := values.get(key.name) or secrets.find(key))}


def project_key(endpoint: Endpoint, secrets: Secrets) -> str:
    """The key of the project at Composio, or of a local world's stand-in; empty for neither."""
    return (secrets.find(CONNECTIONS_KEY) or "").strip() or endpoint.composio_key


def url_on_host(database: str) -> str:
    """SQLAlchemy's URL of the registry as processes on a local platform's host reach it, without their certificates."""
    return f"postgresql://{DATABASE_USER}@127.0.0.1:5432/{database}?sslmode=verify-full&sslrootcert={AUTHORITIES}"


_PROOF = frozenset({"operators", "approvals"})
"""Settings that the role writes itself, with the keys and files that belong to them."""

_OWN = ("registry.", "local.", "pulumi.", "secrets.", "release.", "platform.")
"""Settings that say where this computer keeps something; the host keeps its own."""


def host_settings(
    env: Environment,
    endpoint: Endpoint,
    outputs: PlatformOutputs[str],
    *,
    api_url: str,
    users: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Settings of hermesops on a local platform's host: the platform's, and those here that are no file or secret.

    Args:
        api_url: The vendor's API as the host finds it.
        users: Settings of the users' half by name.
    """
    return _tables(
        _handed_on(env)
        | dict(users or {})
        | {
            "api_url": api_url,
            "broker_addresses": ",".join(endpoint.broker_addresses),
            "daemon_port": endpoint.daemon_port,
            "platform_url": outputs.identity_url,
            "router.url": outputs.router_url,
            "monitoring.url": outputs.monitoring_url,
            "monitoring.ingest_url": outputs.ingest_url,
            "releases": outputs.releases_url,
            "pulumi.backend": outputs.pulumi_state_url,
            "platform.key_file": f"{PROCESSES['hermesops']}/{env.name}/keys/{STORE_KEYS}",
            "platform.ca_file": AUTHORITIES,
            "backup.bucket": outputs.backup_bucket,
            "backup.endpoint": outputs.object_store_endpoint,
            "backup.iam_endpoint": IAM_ON_HOST,
            "backup.region": outputs.region,
            "backup.ca_file": AUTHORITIES,
        }
    )


def handed_settings(env: Environment) -> dict[str, object]:
    """Tables of settings for hosts of any platform: all settings here that are no file or secret.

    A platform's own addresses are added to them, and win.
    """
    return _tables(_handed_on(env))


def host_users_settings(env: Environment, users: Mapping[str, object]) -> dict[str, object]:
    """Settings of the processes of users on a host: their tables of those here, and ``users`` by name."""
    handed = {name: value for name, value in _handed_on(env).items() if name.startswith(_OF_USERS)}
    return _tables(handed | dict(users))


def host_console_settings(env: Environment, console: Mapping[str, object]) -> dict[str, object]:
    """Settings of the console on a host: its tables of those here, and ``console`` by name."""
    handed = {name: value for name, value in _handed_on(env).items() if name.startswith(_OF_CONSOLE)}
    return _tables(handed | dict(console))


_OF_CONSOLE = ("console.", "monitoring.url")
"""Settings that the served console reads."""

_OF_USERS = ("web.", "connections.", "billing.", "messengers.")
"""Tables that the processes of users read."""


def _handed_on(env: Environment) -> dict[str, object]:
    return {
        name: plain
        for name in FIELDS
        if env.sources[name] != "default"
        and not name.startswith(_OWN)
        and name not in _PROOF
        and (plain := _plain(value_of(env.settings, name))) is not None
    }


def _tables(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings by their names as settings.toml has them, always in the same order."""
    top = {name: value for name, value in settings.items() if "." not in name}
    tables: dict[str, dict[str, object]] = {}
    for name in settings.keys() - top.keys():
        table, _, key = name.partition(".")
        tables.setdefault(table, {})[key] = settings[name]
    return {
        **dict(sorted(top.items())),
        **{table: dict(sorted(values.items())) for table, values in sorted(tables.items())},
    }


def host_proof(env: Environment) -> dict[str, str]:
    """Settings that name operators, approval rules and trusted signers, for the role; paths are on this computer."""
    settings = env.settings
    files = {"allowed_signers": settings.allowed_signers, "revoked_signers": settings.revoked_signers}
    return {
        "operators": settings.operators,
        "approvals": settings.approvals,
        **{name: str(file.absolute()) if file else "" for name, file in files.items()},
    }


def _plain(value: object) -> object | None:
    """A value as settings.toml spells it; ``None`` for secrets, files and empty values."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(str(item) for item in value)
    if isinstance(value, str | Decimal):
        return str(value)
    return value if isinstance(value, bool | int | float) else None
