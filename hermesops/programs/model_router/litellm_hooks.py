"""Hooks that LiteLLM calls: authentication (``custom_auth``) and cost of answers (``CustomLogger``).

LiteLLM names both in its configuration and imports this module by that name. Source: LiteLLM 1.108, "Custom Auth" and
"Custom Callbacks" of the proxy's documentation.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import ProxyException, UserAPIKeyAuth
from litellm.types.router import RouterRateLimitError

from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ModelRoute
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.metrics import Metrics
from hermesops.programs.model_router.requests.gate import CALLER, RESERVATION

_CHARS_PER_TOKEN = 4


async def authenticate(request: Any, api_key: str) -> UserAPIKeyAuth:  # noqa: ANN401, ARG001 - LiteLLM's signature
    """Return the instance that the gate admitted; refuse requests that bypass the gate.

    Raises:
        ProxyException: The request did not come through the gate.
    """
    caller = request.scope.get("state", {}).get(CALLER, "")
    if not caller:
        raise ProxyException(message="not through the gate", type="auth_error", param=None, code=401)
    # A key of its own for each instance, which is no secret: LiteLLM counts by it, and stores and logs it.
    metadata = {RESERVATION: str(request.scope["state"].get(RESERVATION, ""))}
    return UserAPIKeyAuth(api_key=f"instance-{caller}", user_id=str(caller), metadata=metadata)


class UsageLogger(CustomLogger):
    """Records the cost of each answer of a provider."""

    def __init__(
        self,
        routes: Mapping[str, ModelRoute],
        metrics: Metrics,
        use: Callable[[Usage, str], None],
    ) -> None:
        super().__init__(turn_off_message_logging=True)
        self._routes = routes
        self._metrics = metrics
        self._use = use

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ANN401, ARG002 - LiteLLM's signature
        """Count an answer, including one that the client cancelled."""
        self._count(kwargs, "200", getattr(response_obj, "usage", None))

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ANN401, ARG002 - LiteLLM's signature
        """Count a failed attempt at one provider; another may answer after it."""
        # Nobody was asked, and LiteLLM names the route that answered instead.
        if not isinstance(kwargs.get("exception"), RouterRateLimitError):
            self._count(kwargs, status_of(kwargs.get("exception")), None)

    def _count(self, kwargs: Mapping[str, Any], outcome: str, usage: object) -> None:
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        instance = InstanceId(str(metadata.get("user_api_key_user_id") or ""))
        route = self._routes.get(str(metadata.get("model_group") or ""))
        if not instance or route is None:
            self._metrics.count("hermes_router_unattributed_total")
            return
        read, written = _number(usage, "prompt_tokens"), _number(usage, "completion_tokens")
        cached, cached_hour = _cached(usage)
        micros = route.micros(read, written, cached=cached, cached_hour=cached_hour)
        labels = {"provider": route.provider, "model": route.name}
        self._metrics.count("hermes_router_provider_answers_total", **labels, status=outcome)
        self._metrics.count("hermes_router_tokens_total", read, **labels, direction="input")
        self._metrics.count("hermes_router_tokens_total", written, **labels, direction="output")
        today = datetime.now(UTC).date()
        reservation = str((metadata.get("user_api_key_metadata") or {}).get(RESERVATION) or "")
        self._use(Usage(instance, today, route.name, route.provider, outcome, 1, read, written, micros), reservation)


def _cached(usage: object) -> tuple[int, int]:
    """Tokens that a provider began to keep, for five minutes and for an hour.

    Source: LiteLLM 1.108, ``types/utils.py``: ``Usage``, ``CacheCreationTokenDetails``.
    """
    details = getattr(usage, "prompt_tokens_details", None)
    written = _number(usage, "cache_creation_input_tokens") or _number(details, "cache_creation_tokens")
    hour = _number(getattr(details, "cache_creation_token_details", None), "ephemeral_1h_input_tokens")
    return max(0, written - hour), hour


def _number(of: object, name: str) -> int:
    return max(0, int(getattr(of, name, 0) or 0))


def status_of(exception: object) -> str:
    """The HTTP status of a provider's failure; ``timeout`` without an answer, ``unreadable`` without a valid status."""
    if "Timeout" in type(exception).__name__:
        return "timeout"
    status = getattr(exception, "status_code", None)
    return str(status) if isinstance(status, int) else "unreadable"
