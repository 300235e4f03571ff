"""A user's settings, checked: model, messengers, MCP servers, cron jobs, disabled tools, own provider. Pure.

Sources: ``plugins/platforms/*/plugin.yaml``, ``gateway/config.py``, and ``parse_schedule`` and ``parse_duration`` in
``cron/jobs.py`` of hermes-agent 0.19.0.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hermesops.wire.errors import BadRequestError
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.strict_json import exactly, listed, mapping, matching, one_line, string

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
_DURATION = re.compile(r"\d{1,6}\s*(m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days)", re.IGNORECASE)
_CRON_FIELD = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/([1-9]\d?))?", re.ASCII)
_CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Minute, hour, day of month, month, day of week."""

ADAPTER_OF = {
    "BLUEBUBBLES": None,
    "DINGTALK": "dingtalk-platform",
    "DISCORD": "discord-platform",
    "EMAIL": "email-platform",
    "FEISHU": "feishu-platform",
    "GATEWAY_ALLOW": None,
    "GOOGLE_CHAT": "google_chat-platform",
    "HASS": "homeassistant-platform",
    "IRC": "irc-platform",
    "LINE": "line-platform",
    "MATRIX": "matrix-platform",
    "MATTERMOST": "mattermost-platform",
    "NTFY": "ntfy-platform",
    "PHOTON": "photon-platform",
    "QQ": None,
    "RAFT": "raft-platform",
    "SIGNAL": None,
    "SIMPLEX": "simplex-platform",
    "SLACK": "slack-platform",
    "SMS": "sms-platform",
    "TEAMS": "teams-platform",
    "TELEGRAM": "telegram-platform",
    "TWILIO": "sms-platform",
    "WECOM": "wecom-platform",
    "WEIXIN": None,
    "WHATSAPP": "whatsapp-platform",
    "YUANBAO": None,
}
"""First words of a variable's name, and the adapter's manifest name; ``None`` where it is no plugin."""


@dataclass(frozen=True)
class Settings:
    """A user's settings, as a machine needs them.

    Attributes:
        endpoint: The user's own model provider; ``None`` for the platform's router, where ``model`` names a route.
    """

    model: str = ""
    personality: str = ""
    messengers: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    cron: tuple[Mapping[str, Any], ...] = ()
    disabled_tools: tuple[str, ...] = ()
    endpoint: ModelEndpoint | None = None

    @classmethod
    def parse(cls, raw: object) -> "Settings":
        """Check a user's settings; every field may be left out.

        Raises:
            BadRequestError: A field is wrong; the message names it, never its value.
        """
        fields = mapping(raw, "settings")
        exactly(
            fields,
            "settings",
            optional={"model", "personality", "messengers", "mcp_servers", "cron", "disabled_tools", "endpoint"},
        )
        servers = mapping(fields.get("mcp_servers", {}), "settings.mcp_servers")
        return cls(
            model=string(fields.get("model", ""), "settings.model"),
            personality=string(fields.get("personality", ""), "settings.personality"),
            messengers=_messengers(fields.get("messengers", {})),
            mcp_servers={
                matching(name, _NAME, "settings.mcp_servers: a name"): _server(entry, f"settings.mcp_servers.{name}")
                for name, entry in servers.items()
            },
            cron=tuple(_job(job, n) for n, job in enumerate(listed(fields.get("cron", []), "settings.cron"))),
            disabled_tools=tuple(
                matching(name, _NAME, "settings.disabled_tools")
                for name in listed(fields.get("disabled_tools", []), "settings.disabled_tools")
            ),
            endpoint=ModelEndpoint.parse(fields["endpoint"]) if "endpoint" in fields else None,
        )


def _messengers(raw: object) -> dict[str, str]:
    variables = {}
    for name, value in mapping(raw, "settings.messengers").items():
        matching(name, _ENV_NAME, "settings.messengers: a name")
        where = f"settings.messengers.{name}"
        variables[name] = quotable(where, one_line(value, where))
    adapters_for(variables)  # refuses a variable that belongs to no messenger
    return variables


def _server(raw: object, where: str) -> Mapping[str, Any]:
    entry = mapping(raw, where)
    transports = [name for name in ("command", "url") if name in entry]
    if len(transports) != 1:
        raise BadRequestError(f"{where}: wants either a command or a url")
    one_line(entry[transports[0]], f"{where}.{transports[0]}")
    return entry


def _job(raw: object, number: int) -> Mapping[str, Any]:
    where = f"settings.cron[{number}]"
    job = mapping(raw, where)
    exactly(job, where, required={"cron", "prompt"}, optional={"enabled"})
    if not isinstance(job.get("enabled", True), bool):
        raise BadRequestError(f"{where}.enabled: neither true nor false")
    schedule = one_line(job["cron"], f"{where}.cron")
    if not is_schedule(schedule):
        raise BadRequestError(f"{where}.cron: not a schedule such as '0 9 * * 1-5', 'every 2h' or '30m'")
    return {
        "cron": schedule,
        "prompt": string(job["prompt"], f"{where}.prompt"),
        "enabled": job.get("enabled", True),
    }


def quotable(name: str, value: str) -> str:
    """A value that every reader of an environment file reads alike within single quotes.

    hermes-agent reads the file with two parsers: python-dotenv (which knows escapes and ``${…}``) and its own, which
    only strips quotes. They agree on everything but these.

    Raises:
        BadRequestError: The value cannot be written so.
    """
    if "'" in value or "\\" in value or "${" in value or value != value.strip(" \"'"):
        raise BadRequestError(f"{name}: holds a quote, a backslash, ${{ or outer blanks")
    return value


def is_schedule(text: str) -> bool:
    """Whether a text is a schedule: five fields of cron, ``every 2h``, a delay as ``30m``, or a time in ISO 8601."""
    words, stripped = text.split(), text.strip()
    if len(words) == len(_CRON_RANGES):
        return all(_is_cron_field(word, *bounds) for word, bounds in zip(words, _CRON_RANGES, strict=True))
    duration = stripped[len("every ") :].strip() if stripped.lower().startswith("every ") else stripped
    if _DURATION.fullmatch(duration):
        return True
    try:
        datetime.fromisoformat(stripped)
    except ValueError:
        return False
    return "-" in stripped


def _is_cron_field(word: str, low: int, high: int) -> bool:
    for part in word.split(","):
        match = _CRON_FIELD.fullmatch(part)
        if match is None:
            return False
        first, last = match[1], match[2] or match[1]
        if first is not None and not low <= int(first) <= int(last) <= high:
            return False
    return True


def adapters_for(variables: Iterable[str]) -> frozenset[str]:
    """Manifest names of the hermes-agent adapters that these messenger variables need.

    Raises:
        BadRequestError: A name belongs to no messenger: it could replace one of our variables.
    """
    needed = set()
    for name in variables:
        prefixes = [prefix for prefix in ADAPTER_OF if name.startswith(f"{prefix}_")]
        if not prefixes:
            raise BadRequestError(f"settings.messengers.{name}: belongs to no messenger")
        adapter = ADAPTER_OF[max(prefixes, key=len)]
        if adapter:
            needed.add(adapter)
    return frozenset(needed)


def platforms_of(variables: Iterable[str]) -> frozenset[str]:
    """The names under which the gateway reports the messengers that these variables configure."""
    return frozenset(adapter.removesuffix("-platform") for adapter in adapters_for(variables))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` laid over ``below``, mapping by mapping; lists and scalars are replaced."""
    result = dict(below)
    for key, value in above.items():
        lower = result.get(key)
        result[key] = merged(lower, value) if isinstance(lower, Mapping) and isinstance(value, Mapping) else value
    return result
