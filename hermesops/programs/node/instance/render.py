"""The managed files of an instance: the base configuration and the instance's part, merged. Pure.

They are hermes-agent's managed scope: they win over the user's own file key by key, and other keys stay the user's.
"""

import json
from collections.abc import Mapping
from typing import Any

from hermesops.programs.node.instance.agent.installation import Base, Route
from hermesops.wire.errors import BadRequestError
from hermesops.wire.layout import Layout
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.protocol import Payload
from hermesops.wire.settings import adapters_for, merged, quotable

PROVIDER = "helium"
"""Name of the model provider in hermes-agent's configuration: the platform's router."""

OWN_PROVIDER = "own"
"""Name of the user's own model provider there."""

TOKEN_VARIABLE = "AUXILIARY_HELIUM_API_KEY"  # noqa: S105 - the name of a variable
"""Holds the instance's token for the router.

hermes-agent leaves other names in the environment of terminal commands, and always strips names of this form.

Source: ``_is_hermes_internal_secret`` in ``tools/environments/local.py`` of hermes-agent 0.19.0.
"""

OWN_KEY_VARIABLE = "AUXILIARY_OWN_API_KEY"
"""Holds the key of the user's own provider; named as above for the same reason.

Under its vendor's name, as ``OPENAI_API_KEY``, the key would decide which provider hermes-agent asks wherever none is
named: 0.19.0 sends it to OpenRouter. A key of the same name in the user's own ``.env`` would come before it.

Source: ``resolve_provider`` in ``hermes_cli/auth.py``, ``_seed_from_env`` in ``agent/credential_pool.py``.
"""

HOME_CHAT = "home"
"""Chat of the user's to which the agent writes of itself; the connector knows it by this name."""


def route_of(base: Base, payload: Payload) -> Route:
    """The model an instance uses.

    Raises:
        BadRequestError: The router does not have the one in the settings.
    """
    name = payload.settings.model
    for route in base.routes:
        if name in {"", route.name}:
            return route
    offered = ", ".join(route.name for route in base.routes)
    raise BadRequestError(f"settings.model: no route {name!r}; there are {offered}")


def managed_config(base: Base, payload: Payload) -> bytes:
    """``config.yaml`` of the managed scope; JSON, which is YAML that needs no YAML library to write."""
    settings = payload.settings
    needed = adapters_for(settings.messengers)
    ours: dict[str, Any] = {
        **(_own_model(settings.endpoint) if settings.endpoint else _routed_model(base, payload)),
        "plugins": {"disabled": [name for name in _adapters(base) if name not in needed]},
    }
    if settings.mcp_servers:
        ours["mcp_servers"] = dict(settings.mcp_servers)
    else:
        # Without many tools there is nothing to search, and finding out costs a question to openrouter.ai on the first
        # turn (model_tools.py of 0.19.0 looks up the context length without the providers' own).
        ours["tools"] = {"tool_search": {"enabled": "off"}}
    if settings.disabled_tools:
        ours["agent"] = {"disabled_toolsets": sorted(settings.disabled_tools)}
    return json.dumps(merged(base.config, ours), indent=1, sort_keys=True).encode() + b"\n"


def _routed_model(base: Base, payload: Payload) -> dict[str, Any]:
    """The platform's router as the agent's provider."""
    return {
        "model": {"default": route_of(base, payload).name, "provider": f"custom:{PROVIDER}"},
        "providers": {
            PROVIDER: {
                "name": "Helium",
                "base_url": payload.model_base_url,
                "key_env": TOKEN_VARIABLE,
                "api_mode": "chat_completions",
                "discover_models": False,
                **_trust(payload.model_base_url),
                # By model, not once under model: a user who switches with /model gets the right length.
                "models": {route.name: {"context_length": route.context_tokens} for route in base.routes},
            }
        },
    }


def _own_model(endpoint: ModelEndpoint) -> dict[str, Any]:
    """The user's own provider as the agent's only one: named, with its address and its form of requests.

    Auxiliary work (summaries, titles, pictures) goes where ``model`` goes, unless the user's own file names another
    provider for it.

    Source: ``_resolve_named_custom_runtime`` in ``hermes_cli/runtime_provider.py`` and ``_resolve_auto`` in
    ``agent/auxiliary_client.py`` of hermes-agent 0.19.0.
    """
    return {
        "model": {"default": endpoint.model, "provider": f"custom:{OWN_PROVIDER}"},
        "providers": {
            OWN_PROVIDER: {
                "name": OWN_PROVIDER,
                "base_url": endpoint.base_url,
                "key_env": OWN_KEY_VARIABLE,
                "api_mode": endpoint.api_mode,
                "discover_models": False,
            }
        },
    }


def _adapters(base: Base) -> list[str]:
    """Adapters that are imported unless disabled: those of the role, and those that the release adds."""
    plugins = base.config.get("plugins")
    more = plugins.get("disabled") if isinstance(plugins, Mapping) else None
    return list(dict.fromkeys((*base.adapters, *(more if isinstance(more, list) else ()))))


def _trust(model_base_url: str) -> dict[str, str]:
    """The setting that names the file with the router's authorities; hermes-agent ignores a missing file.

    Source: ``agent/ssl_verify.py`` of hermes-agent 0.19.0.
    """
    is_https = model_base_url.startswith("https://")
    return {"ssl_ca_cert": str(Layout().router_authorities)} if is_https else {}


def managed_environment(base: Base, payload: Payload, *, authorities: str = "") -> bytes:
    """``.env`` of the managed scope, which beats the process's environment and the user's own ``.env``.

    Args:
        authorities: File with the platform's authorities and the public ones; empty where there is none.

    Raises:
        BadRequestError: A value cannot be written so that every reader of the file reads the same.
    """
    variables = {
        **payload.settings.messengers,
        **base.environment,
        "API_SERVER_ENABLED": "true",
        "API_SERVER_HOST": "127.0.0.1",
        "API_SERVER_PORT": str(base.port),
        **_trusted_socket(payload, authorities),
        **_secrets(payload),
    }
    return b"".join(_lines(variables))


def payload_environment(payload: Payload) -> list[bytes]:
    """The lines of ``managed_environment`` with the keys of a payload.

    Raises:
        BadRequestError: As ``managed_environment``.
    """
    return _lines(_secrets(payload))


def _secrets(payload: Payload) -> dict[str, str]:
    endpoint = payload.settings.endpoint
    # The router's token is of no use beside the user's own key; without it, its renewal asks the agent for no turn.
    model = {OWN_KEY_VARIABLE: endpoint.key} if endpoint else {TOKEN_VARIABLE: payload.secrets.model_token}
    keys = {"API_SERVER_KEY": payload.secrets.api_server_key, **model}
    return keys | _socket(payload)


def _socket(payload: Payload) -> dict[str, str]:
    """Variables by which the gateway opens its socket to the connector.

    Without a home channel, the gateway writes a notice about it into each new chat.

    Source: ``gateway/relay/__init__.py`` and ``gateway/config.py`` of hermes-agent 0.19.0.
    """
    connector = payload.connector
    if connector is None:
        return {}
    bots = {messenger: {"botId": name, "username": name} for messenger, name in sorted(connector.bots.items())}
    return {
        "GATEWAY_RELAY_URL": connector.url,
        "GATEWAY_RELAY_ID": payload.identity.instance,
        "GATEWAY_RELAY_SECRET": connector.secret,
        "GATEWAY_RELAY_PLATFORMS": ",".join(bots),
        "GATEWAY_RELAY_BOT_IDS": json.dumps(bots),
        "RELAY_HOME_CHANNEL": HOME_CHAT,
    }


def _trusted_socket(payload: Payload, authorities: str) -> dict[str, str]:
    """The variable by which the socket trusts a certificate of the platform's own authority.

    The socket has no setting of its own for that: ``gateway/relay/ws_transport.py`` of hermes-agent 0.19.0 dials with
    Python's default context. The agent's other connections trust that authority, too.
    """
    return {"SSL_CERT_FILE": authorities} if payload.connector and authorities else {}


def _lines(variables: Mapping[str, str]) -> list[bytes]:
    return [f"{name}='{quotable(name, value)}'\n".encode() for name, value in sorted(variables.items())]


def user_config(base: Base) -> bytes:
    """The user's first ``config.yaml``: one key a line, so that people can edit it."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in base.user_config.items()).encode()
