"""The router's settings file, which its role writes, and the configuration that LiteLLM gets from it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hermesops.errors import UsageError
from hermesops.model.billing.route import ROUTES, ModelRoute
from hermesops.programs.model_router.requests.gate import Limits

_NEVER = 1_000_000_000
"""More failures than there are."""

_FAILURES = dict.fromkeys(
    (f"{failure}ErrorAllowedFails" for failure in ("Timeout", "InternalServer", "ServiceUnavailable", "BadGateway")), 3
)
"""So many of a kind within ten seconds, and a route is not asked for ten. What is not named here never counts.

A refusal costs a provider nothing. And LiteLLM 1.108 notes its own "all deployments are in cooldown" as a failure of
the route that answered instead: counted, one failing provider would take the others with it, one after the other.
"""


@dataclass(frozen=True)
class Configuration:
    """The settings file.

    Attributes:
        database: PostgreSQL, as libpq reads it; holds no password.
        port: Of the loopback, for tests; 0: the socket that systemd passes.
        spool: Folder of undelivered usage.
        secrets: Folder with ``router.key`` and, for each provider, a file of its name with the key.
        first_answer_s: Seconds without a byte after which a provider has failed that was asked for a stream.
        whole_answer_s: Seconds after which one has failed that was asked for no stream.
        fallbacks: Routes in the order in which they are tried after each; absent: all others, in their order.
        bases: URLs of providers in the place of their own.
        models: Names at the provider, by route, in the place of the usual ones.
    """

    database: str
    spool: Path
    secrets: Path
    port: int = 0
    metrics_port: int = 0
    first_answer_s: float = 60.0
    whole_answer_s: float = 300.0
    check_address: bool = False
    fallbacks: Mapping[str, list[str]] | None = None
    bases: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    @property
    def routes(self) -> tuple[ModelRoute, ...]:
        """All routes; the first route with a provider key also serves the routes whose provider has none.

        Empty if no provider has a key. Agents request the platform's default route, whichever provider the operator
        pays.
        """
        named = [replace(route, provider_model=self.models.get(route.name, route.provider_model)) for route in ROUTES]
        first = next((route for route in named if self._has_key(route)), None)
        if first is None:
            return ()
        return tuple(
            route if self._has_key(route) else replace(first, name=route.name, title=route.title) for route in named
        )

    def _has_key(self, route: ModelRoute) -> bool:
        return (self.secrets / route.provider).is_file()

    def key_of(self, provider: str) -> str:
        """Read a provider's key from its file."""
        return (self.secrets / provider).read_text().strip()

    def for_litellm(self) -> dict[str, Any]:
        """LiteLLM's configuration; it names keys by variables and holds none."""
        routes = self.routes
        names = [route.name for route in routes]
        models = []
        for route in routes:
            parameters: dict[str, Any] = {
                "model": f"{route.provider}/{route.provider_model}",
                "api_key": f"os.environ/{variable(route.provider)}",
                "timeout": self.whole_answer_s,
                "stream_timeout": self.first_answer_s,
                "max_retries": 0,
                "input_cost_per_token": route.input_price / 1e6,
                "output_cost_per_token": route.output_price / 1e6,
            }
            if base := self.bases.get(route.provider):
                parameters["api_base"] = base
            model_info = {"allowed_fails_policy": _FAILURES}
            models.append({"model_name": route.name, "litellm_params": parameters, "model_info": model_info})
        # Another route of the same provider would fail for the same reason.
        order = {route.name: [other.name for other in routes if other.provider != route.provider] for route in routes}
        if self.fallbacks is not None:
            order = {name: [other for other in self.fallbacks.get(name, []) if other in names] for name in names}
        return {
            "model_list": models,
            "router_settings": {
                "fallbacks": [{name: others} for name, others in order.items() if others],
                "num_retries": 0,
                "allowed_fails": _NEVER,
                "cooldown_time": 10,
                "max_fallbacks": len(names),
            },
            "litellm_settings": {
                "drop_params": True,
                "turn_off_message_logging": True,
                "redact_user_api_key_info": True,
                "json_logs": False,
                "request_timeout": self.whole_answer_s,
                "telemetry": False,
                # The gate passes no URL on; should one pass, LiteLLM asks no address of this network.
                "user_url_validation": True,
            },
            "general_settings": {
                "custom_auth": "hermesops.programs.model_router.litellm_hooks.authenticate",
                "disable_spend_logs": True,
                "disable_error_logs": True,
                "allow_client_side_credentials": False,
                "background_health_checks": False,
            },
        }


def variable(provider: str) -> str:
    """The variable of LiteLLM's process that holds a provider's key."""
    return f"HERMES_ROUTER_{provider.upper()}_KEY"


def read(path: Path) -> Configuration:
    """Read the settings file.

    Raises:
        UsageError: It is missing, is no JSON, lacks a field or has an unknown one.
    """
    try:
        raw = json.loads(path.read_text())
        limits = Limits(**raw.pop("limits", {}))
        for name in ("spool", "secrets"):
            raw[name] = Path(raw[name])
        configuration = Configuration(**raw, limits=limits)
    except (OSError, ValueError, TypeError, KeyError) as error:
        known = ", ".join(setting.name for setting in fields(Configuration))
        raise UsageError(f"{path}: {error}; known fields: {known}") from error
    if not limits.output_tokens or any(
        not isinstance(limit, int) or limit < 1 for limit in limits.output_tokens.values()
    ):
        raise UsageError(f"{path}: limits.output_tokens: not a limit in tokens for each plan")
    routes = {route.name for route in ROUTES}
    strange = {
        *(name for name in configuration.models if name not in routes),
        *(name for name in (configuration.fallbacks or {}) if name not in routes),
        *(name for names in (configuration.fallbacks or {}).values() for name in names if name not in routes),
        *(name for name in configuration.bases if name not in {route.provider for route in ROUTES}),
    }
    if strange:
        raise UsageError(f"{path}: no such route or provider: {', '.join(sorted(strange))}")
    return configuration
