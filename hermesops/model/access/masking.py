"""Secrecy of an instance's settings. Pure.

Messengers' variables are secret. So is all of an MCP server's entry that is not known to be harmless: keys are found
in headers, environments, arguments, and in the paths and queries of addresses.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from urllib.parse import urlsplit

from hermesops.model.fleet.instance import InstanceSettings

MASK = "***"

_HARMLESS = frozenset(
    {
        *("auth", "command", "connect_timeout", "enabled", "exclude", "include", "ssl_verify", "timeout"),
        "transport",
    }
)
"""Keys of hermes-agent's ``mcp_servers`` entries whose values are not secret."""

_SEPARATORS = re.compile(r"[\s=&/?:@]+")

_SHORTEST = 8
"""Fewest characters of a secret: an argument as ``-y`` is none."""


def masked(settings: InstanceSettings) -> dict[str, object]:
    """The settings as an operator may see and replace them: all but the user's own model provider."""
    return {
        "model": settings.model,
        "personality": settings.personality,
        "messengers": dict.fromkeys(sorted(settings.messengers), MASK),
        "mcp_servers": {name: _cover(entry) for name, entry in sorted(settings.mcp_servers.items())},
        "cron": [dict(job) for job in settings.cron],
        "disabled_tools": list(settings.disabled_tools),
    }


def shown_provider(settings: InstanceSettings) -> dict[str, object] | None:
    """The user's own model provider without its key; ``None`` for the platform's router."""
    choice = settings.provider
    if choice is None:
        return None
    shown = {"id": choice.provider, "model": choice.model, "base_url": choice.base_url or None}
    return {**shown, "verified_at": choice.verified_at or None}


def outline(settings: InstanceSettings) -> dict[str, object]:
    """The settings as the audit log may store them: no secrets, and no user's texts."""
    return {
        "model": settings.model,
        "personality": f"{len(settings.personality)} characters",
        "messengers": sorted(settings.messengers),
        "mcp_servers": sorted(settings.mcp_servers),
        "cron": [job["cron"] for job in settings.cron],
        "disabled_tools": sorted(settings.disabled_tools),
        **({"provider": shown_provider(settings)} if settings.provider else {}),
    }


def changed(before: InstanceSettings, after: InstanceSettings) -> list[str]:
    """Names of the fields that differ."""
    values_before, values_after = asdict(before), asdict(after)
    return [field.name for field in fields(InstanceSettings) if values_before[field.name] != values_after[field.name]]


def secrets_in(settings: InstanceSettings) -> tuple[str, ...]:
    """Every text in the settings that must not appear, as in a log."""
    texts = [*settings.messengers.values(), *((settings.provider.key,) if settings.provider else ())]
    for text in _covered(settings.mcp_servers):
        # As "Bearer KEY", "--key=KEY" or "?key=KEY": a log may repeat the key alone.
        texts += [text, *_SEPARATORS.split(text)]
    return tuple(text for text in texts if len(text) >= _SHORTEST)


def has_mask(settings: InstanceSettings) -> bool:
    """Whether a secret in the settings is the mask that was shown in its place."""
    texts = (*settings.messengers.values(), *_covered(settings.mcp_servers))
    return any(text.endswith(MASK) for text in texts)


def _cover(value: object, key: str = "") -> object:
    if isinstance(value, Mapping):
        is_all_secret = key in {"env", "headers"}
        return {name: MASK if is_all_secret else _cover(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cover(item, key) for item in value]
    if key == "url" and isinstance(value, str):
        return _origin(value)
    return value if _is_harmless(value, key) else MASK


def _is_harmless(value: object, key: str) -> bool:
    # A command of several words is one with arguments.
    return isinstance(value, bool) or (key in _HARMLESS and len(str(value).split()) < 2)  # noqa: PLR2004 - words


def _covered(value: object, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _covered(inner, key if key in {"env", "headers"} else str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _covered(item, key)
    elif key == "url" and isinstance(value, str):
        yield value.removeprefix(_origin(value).removesuffix(MASK))
    elif not _is_harmless(value, key):
        yield str(value)


def _origin(url: str) -> str:
    """Scheme, host and port of an address; the rest may be a key."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return MASK
    if not parts.hostname:
        return MASK
    origin = f"{parts.scheme}://{parts.hostname}{port}"
    return origin if url.rstrip("/") == origin else f"{origin}/{MASK}"
