"""Refusals of addresses that would show or lose a secret."""

from collections.abc import Mapping

from pydantic import SecretStr

from hermesops.base.network import web_address
from hermesops.errors import UsageError
from hermesops.settings.fields import SECRET_KEYS, Settings, value_of, variable_of

_ADDRESSES = (
    "api_url",
    "router.url",
    "backup.endpoint",
    "backup.iam_endpoint",
    "prometheus_url",
    "rollout.webhook",
    "oidc.issuer",
)

_OF_USERS = (
    "web.issuer",
    "web.keys_url",
    "web.authorize_url",
    "web.token_url",
    "web.redis_url",
    "console.issuer",
    "console.keys_url",
    "console.authorize_url",
    "console.token_url",
    "connections.base_url",
    "messengers.telegram_url",
    "messengers.slack_url",
    "messengers.whatsapp_url",
    "messengers.discord_url",
)
"""Addresses that decide about people or carry their words, checked in the local world, too: its platform gets them."""


_NAMES_A_USER = frozenset({"web.redis_url"})
"""Addresses whose user is no secret; their pattern lets no password through."""

_STORES = ("releases", "pulumi.backend")


def refuse_user_info(values: Mapping[str, object], sources: Mapping[str, str]) -> None:
    """Refuse a password in a URL: it is shown wherever the URL is, in errors too. Hidden settings may have one.

    Raises:
        UsageError: There is one; it names the key and where it was set.
    """
    for key, value in values.items():
        texts = value.values() if isinstance(value, Mapping) else [value]
        if key not in SECRET_KEYS | _NAMES_A_USER and any(
            isinstance(text, str) and web_address.has_user_info(text) for text in texts
        ):
            raise UsageError(
                f"{key} (from {_place(key, sources)}): a URL in it has a user or a password before its host",
                hint=f"take that out of {key}: URLs are shown and logged, secrets stand in files that a *_file setting "
                "names",
            )


def refuse_exposed(settings: Settings, sources: Mapping[str, str], *, is_local: bool) -> None:
    """Refuse addresses that get secrets, or decide about users, and are not encrypted.

    Args:
        is_local: Whether it is the local world, whose own addresses are this computer's or its machines'.

    Raises:
        UsageError: One is; it names the key and where it was set.
    """
    keyed = ("model.base_url",) if settings.model.api_key else ()
    for key in (*_OF_USERS, *keyed, *(() if is_local else _ADDRESSES)):
        value = value_of(settings, key)
        url = value.get_secret_value() if isinstance(value, SecretStr) else value
        why = web_address.exposure(url) if url else ""
        if why:
            raise UsageError(
                f"{key} (from {_place(key, sources)}): {why}",
                hint=f"set {key} to an address that begins with {_encrypted(key)}",
            )
    for key in () if is_local else _STORES:
        why = web_address.bucket_exposure(value_of(settings, key))
        if why:
            raise UsageError(
                f"{key} (from {_place(key, sources)}): {why}", hint=f"let the endpoint in {key} begin with https://"
            )


def _encrypted(key: str) -> str:
    return "rediss://" if key == "web.redis_url" else "https://"


def _place(key: str, sources: Mapping[str, str]) -> str:
    """Where a setting was set, in words."""
    return f"variable {variable_of(key)}" if sources[key] == "environment" else sources[key]
