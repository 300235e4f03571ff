"""The agent's own HTTP API, reached through the vendor's authenticated proxy.

What a user says passes through here and is kept nowhere: not in a log, an error message or a record.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.ids import MachineId
from hermesops.vendor.justavps.errors import JustAvpsError
from hermesops.vendor.justavps.proxy import Port, ProxyAnswer, ProxyClient
from hermesops.vendor.justavps.wire import Machine
from hermesops.wire import strict_json
from hermesops.wire.protocol import says_ok

AGENT_PORT = 8642
"""Port of hermes-agent's API, on loopback only."""

_REFUSALS = frozenset({401, 403})
_HEALTH_S = 5.0
_TURN_S = 600.0
"""Seconds of silence after which an answer counts as lost; the agent may think, and run tools, for long."""

_WHOLE_TURN_S = 3600.0
"""Seconds of a whole turn."""

_STATUS = re.compile(r"\b(?:HTTP|Error code:|status(?: code)?:?) ?([45]\d\d)\b", re.IGNORECASE)
_CLASS = re.compile(r"agent_error|output_truncated|[a-z]{2,20}(?:_[a-z]{2,20}){0,3}_error|[A-Z][A-Za-z]{2,40}")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_KNOWN_CLASSES = re.compile(
    r"\b(authentication_error|invalid_api_key|permission_error|rate_limit_error|rate_limit_exceeded|overloaded_error"
    r"|api_error|server_error|not_found_error|model_not_found|invalid_request_error|insufficient_quota|budget_exceeded"
    r"|context_length_exceeded|content_policy_blocked|AuthenticationError|PermissionDeniedError|RateLimitError"
    r"|InternalServerError|API(?:Connection|Timeout|Status)Error|BadRequestError|NotFoundError|ConnectError)\b"
    r"|(No inference provider configured|Connection error|Request timed out|Invalid API response)",
)
"""Classes of errors of models' providers, exceptions of their libraries, and sentences of hermes-agent's own.

Source: OpenAI's and Anthropic's documents of errors; hermes-agent 0.19.0, ``agent/conversation_loop.py``.
"""

_CLASSES = 3
"""Classes that are named of one failure."""


@dataclass(frozen=True)
class Piece:
    """A piece of an answer.

    Attributes:
        is_tool: Whether it is the name of a running tool instead of text for the user.
    """

    text: str = field(repr=False)
    is_tool: bool = False


class Tokens(Protocol):
    """Hands out proxy tokens; see ``proxy_tokens.issue``."""

    async def token(self, machine_id: MachineId, *, purpose: str, instead_of: str = "") -> str:
        """A token for a purpose; ``instead_of`` names one that was refused."""

    async def use(
        self,
        machine_id: MachineId,
        *,
        purpose: str,
        call: Callable[[str], Awaitable[ProxyAnswer]],
        refused: Callable[[ProxyAnswer], bool],
    ) -> ProxyAnswer:
        """Call with a token, once more with a fresh one when it is refused."""


class AgentApi:
    """Client of agents' HTTP API, through the vendor's proxy."""

    def __init__(self, proxy: ProxyClient, tokens: Tokens) -> None:
        self._proxy = proxy
        self._tokens = tokens

    async def health(self, machine: Machine, api_key: str) -> GatewayHealth:
        """Ask the gateway for its health; changes nothing, raises nothing.

        Source: hermes-agent 0.19.0 answers ``/health/detailed`` with 200 also when it is degraded.
        """

        async def ask(token: str) -> ProxyAnswer:
            return await self._proxy.request(
                Port.of(machine, AGENT_PORT, token),
                "GET",
                "/health/detailed",
                headers=_bearer(api_key),
                timeout_s=_HEALTH_S,
            )

        try:
            answer = await self._tokens.use(MachineId(machine.id), purpose="health", call=ask, refused=_is_refusal)
        except JustAvpsError:
            return GatewayHealth.SILENT
        return health_of(answer)

    async def opens(self, machine: Machine, token: str) -> bool:
        """Return whether the proxy accepts a token for a machine, whatever the gateway behind it answers.

        Raises:
            JustAvpsError: The proxy did not answer.
        """
        answer = await self._proxy.request(Port.of(machine, AGENT_PORT, token), "GET", "/health", timeout_s=_HEALTH_S)
        return not _is_refusal(answer)

    async def chat(self, machine: Machine, api_key: str, text: str, *, session_id: str = "") -> AsyncIterator[Piece]:
        """Send a message to the agent and yield its answer as it comes.

        ``session_id`` is of the conversation to continue; empty begins a new one.

        Raises:
            RefusedError: The agent refuses the key, the model or the turn.
            UnavailableError: It is draining, or does not answer.
            UnknownOutcomeError: The message was sent, and no answer came.
        """
        headers = _bearer(api_key) | ({"X-Hermes-Session-Id": session_id} if session_id else {})
        body = {"model": "hermes-agent", "stream": True, "messages": [{"role": "user", "content": text}]}
        token = await self._tokens.token(MachineId(machine.id), purpose="chat")
        for is_last in (False, True):
            async with self._proxy.stream(
                Port.of(machine, AGENT_PORT, token),
                "POST",
                "/v1/chat/completions",
                headers=headers,
                body=body,
                timeout_s=_TURN_S,
                total_s=_WHOLE_TURN_S,
            ) as stream:
                if stream.status == 200:  # noqa: PLR2004 - HTTP
                    async for event in stream.events():
                        if piece := piece_of(event.event, event.data):
                            yield piece
                    return
                answer = await stream.read()
            if is_last or not _is_refusal(answer):
                raise refusal_of(answer)
            token = await self._tokens.token(MachineId(machine.id), purpose="chat", instead_of=token)


def health_of(answer: ProxyAnswer) -> GatewayHealth:
    """Convert an answer of ``/health/detailed`` to a health. Pure."""
    if _is_refusal(answer):
        return GatewayHealth.REFUSED
    body = answer.json()
    if not answer.ok or not isinstance(body, dict):
        return GatewayHealth.SILENT
    if body.get("gateway_state") == "draining":
        return GatewayHealth.DRAINING
    return GatewayHealth.OK if says_ok(body) else GatewayHealth.DEGRADED


def piece_of(kind: str, data: str) -> Piece | None:
    """Parse the piece in one server-sent event of a turn; ``None`` for an event without one. Pure.

    Raises:
        UnavailableError: The turn failed on the agent's side.
    """
    if data.strip() == "[DONE]":
        return None
    event = _object(data)
    if kind == "hermes.tool.progress":
        if event.get("status") != "running":
            return None
        return Piece(str(event.get("tool") or event.get("name") or "tool"), is_tool=True)
    for choice in _objects(event.get("choices")):
        if choice.get("finish_reason") == "error":
            cause = cause_of(event)
            raise UnavailableError(
                f"the agent could not finish its turn{f' ({cause})' if cause else ''}",
                hint=Hint(("instance", "verify", "USER"), "tries one,", ("instance", "logs", "USER"), "has more"),
            )
        for delta in _objects([choice.get("delta")]):
            if text := delta.get("content"):
                return Piece(str(text))
    return None


def cause_of(event: Mapping[str, Any]) -> str:
    """Return the cause of a failed turn from its last event: HTTP status and error classes, some 200 characters. Pure.

    The agent's sentence itself is not repeated: in a stream it is a provider's answer as it came, which may quote the
    user or a key. Only words that are known here are taken from it.

    Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``: ``error`` with ``message`` and ``type``.
    """
    error, more = (part if isinstance(part := event.get(name), dict) else {} for name in ("error", "hermes"))
    text = str(error.get("message") or more.get("error") or "")[:4096]
    status = _STATUS.search(text)
    named = [match[1] or match[2] for match in _KNOWN_CLASSES.finditer(text)]
    kind = str(error.get("type") or more.get("error_code") or "")
    if _CLASS.fullmatch(kind) and (kind != "agent_error" or not (named or status)):
        named.insert(0, kind)
    return ", ".join([*([f"HTTP {status[1]}"] if status else []), *list(dict.fromkeys(named))[:_CLASSES]])


def refusal_of(answer: ProxyAnswer) -> RefusedError | UnavailableError | UnknownOutcomeError:
    """Return the error for an answer that is not a success. Pure; repeats no body, which may quote the user."""
    body = answer.json()
    error = body.get("error") if isinstance(body, dict) else None
    code = _code_in(error) if isinstance(error, dict) else ""
    if _is_refusal(answer):
        return RefusedError(
            f"the agent refused our key ({answer.status})",
            hint=Hint(("instance", "verify", "USER"), "shows which key is wrong"),
        )
    if answer.status in {502, 503}:
        return UnavailableError(
            f"the agent does not take turns now ({answer.status} {code})".replace(" )", ")"),
            hint=Hint(("instance", "verify", "USER")),
        )
    if answer.status == 504:  # noqa: PLR2004 - the proxy's: passed on, and never answered
        return UnknownOutcomeError(
            "the agent received the request and did not answer (504): its effect is unknown",
            hint=Hint(("instance", "logs", "USER")),
        )
    return RefusedError(f"the agent refused the turn ({answer.status} {code})".replace(" )", ")"))


def _code_in(error: Mapping[str, Any]) -> str:
    """Code or type of an error; empty where it is no short word, as anything longer may quote the user. Pure."""
    code = error.get("code") or error.get("type")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _is_refusal(answer: ProxyAnswer) -> bool:
    return answer.status in _REFUSALS


def _bearer(api_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"}


def _object(data: str) -> dict[str, Any]:
    try:
        value = strict_json.parse(data)
    except strict_json.MalformedJSONError:
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
