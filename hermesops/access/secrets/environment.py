"""Secrets and endpoints of an environment, from its settings."""

from dataclasses import replace
from pathlib import Path

from hermesops.access.secrets.backends.folder import EnvironmentBackend
from hermesops.access.secrets.catalog import (
    API_KEY,
    BILLING_KEY,
    BILLING_SECRET,
    CATALOG,
    CONNECTOR_KEY,
    DISCORD_TOKEN,
    ROUTER_KEY,
    SLACK_SECRET,
    SLACK_TOKEN,
    TELEGRAM_SECRET,
    TELEGRAM_TOKEN,
    WHATSAPP_KEY,
    WHATSAPP_SECRET,
    WHATSAPP_TOKEN,
    SecretSpec,
)
from hermesops.access.secrets.endpoint import Endpoint, local_endpoint
from hermesops.access.secrets.instance_keys import parse_router_keys, read_router_keys
from hermesops.access.secrets.store import Secrets, home_of
from hermesops.errors import Hint, UsageError
from hermesops.settings.environment import Environment
from hermesops.settings.fields import SECRET_PREFIX, value_of


def api_url_of(env: Environment) -> str:
    """URL of the vendor's API, for callers that need no key.

    Raises:
        UnavailableError: It is the local world, which is not up.
        UsageError: It is not set.
    """
    if env.is_local:
        return local_endpoint(env.world / "world.json").api_url
    if not env.settings.api_url:
        raise _no_url(env)
    return env.settings.api_url


def platform_url_of(env: Environment) -> str:
    """Return the URL of the platform's service for machines, without reading a key; empty if there is none.

    Raises:
        UnavailableError: The local world is not up.
    """
    url = env.settings.platform_url
    return local_endpoint(env.world / "world.json").platform_url if env.is_local and not url else url


def endpoint_of(env: Environment) -> "Endpoint":
    """Return addresses and keys of an environment's vendor and model router.

    Raises:
        UnavailableError: The local world is not up.
        UsageError: A required setting or secret is missing.
        RefusedError: The API key's file cannot be read, or may be read by others.
    """
    settings = env.settings
    if env.is_local:
        return _with_platform(local_endpoint(env.world / "world.json"), env)
    if not settings.api_url:
        raise _no_url(env)
    key, file = settings.api_key.get_secret_value() if settings.api_key else None, settings.api_key_file
    if not key:
        secrets = secrets_of(env)
        key = secrets.find(API_KEY)
        if key is None:
            raise UsageError(
                f"environment {env.name} has neither api_key_file nor api_key, and no secret api.key in "
                f"{secrets.home.title}",
                hint=Hint(("secrets", "set", "api.key", "--from", "FILE")),
            )
        file = file or secrets.home.path(API_KEY.name)
    return Endpoint(
        settings.api_url,
        key,
        file,
        settings.router.url,
        settings.router.key_file,
        tuple(address.strip() for address in settings.broker_addresses.split(",") if address.strip()),
        settings.daemon_port,
        settings.platform_url,
    )


def _with_platform(world: "Endpoint", env: Environment) -> "Endpoint":
    """A local world's endpoint, with the services that its settings have elsewhere."""
    router, platform_url = env.settings.router, env.settings.platform_url
    return replace(
        world,
        router_url=router.url or world.router_url,
        router_key_file=router.key_file or world.router_key_file,
        platform_url=platform_url or world.platform_url,
    )


def _no_url(env: Environment) -> UsageError:
    return UsageError(f"environment {env.name} has no api_url", hint=Hint(("settings", "show")))


def secrets_of(env: Environment) -> "Secrets":
    """Return an environment's secrets; reads none yet.

    Raises:
        RefusedError: The setting ``secrets.home`` names no home.
    """
    settings = env.settings
    files = {spec.name: value_of(settings, spec.setting) or _of_world(env, spec) for spec in CATALOG}
    variables = {name: text.get_secret_value() for name, text in env.secrets.items()}
    home = home_of(
        settings.secrets.home,
        keys=env.keys,
        identity=settings.secrets.identity,
        variables=EnvironmentBackend(variables, prefix=SECRET_PREFIX),
    )
    return Secrets({name: file for name, file in files.items() if file}, home)


_MADE_BY_WORLD = {
    BILLING_KEY.name: "stripe.key",
    BILLING_SECRET.name: "stripe.secret",
    TELEGRAM_TOKEN.name: "telegram.token",
    TELEGRAM_SECRET.name: "telegram.secret",
    SLACK_TOKEN.name: "slack.token",
    SLACK_SECRET.name: "slack.secret",
    WHATSAPP_TOKEN.name: "whatsapp.token",
    WHATSAPP_SECRET.name: "whatsapp.secret",
    WHATSAPP_KEY.name: "whatsapp.key",
    DISCORD_TOKEN.name: "discord.token",
    CONNECTOR_KEY.name: "connector.key",
}
"""Files of the local world by the secret that they hold."""


def _of_world(env: Environment, spec: SecretSpec) -> Path | None:
    """The file of a secret that the local world's stand-in of a vendor made; ``None`` for none."""
    name = _MADE_BY_WORLD.get(spec.name)
    file = env.world / name if env.is_local and name else None
    return file if file and file.exists() else None


def router_keys_of(env: Environment, endpoint: "Endpoint", secrets: "Secrets") -> tuple[bytes, ...]:
    """The keys of tokens for the model router; the first signs.

    Raises:
        UsageError: There is none.
        RefusedError: One is too short, or others may read them.
    """
    if endpoint.router_key_file is not None:
        return read_router_keys(endpoint.router_key_file)
    text = secrets.find(ROUTER_KEY)
    if text is None:
        raise UsageError(
            f"environment {env.name} has no router.key_file, and no secret router.key in {secrets.home.title}",
            hint=Hint(("secrets", "set", "router.key", "--from", "FILE")),
        )
    return parse_router_keys(text, secrets.home.title)
