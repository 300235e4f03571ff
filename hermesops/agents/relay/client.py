"""Requests of a platform service to agents, through the relay; it holds no token of any machine.

It must not import the registry: the process that the internet reaches uses it.
"""

import math
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx

from hermesops.agents.relay.routes import UNTIL
from hermesops.base import foreign_json
from hermesops.base.network.http import own_client
from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire.foreign_text import one_line
from hermesops.wire.strict_json import MalformedJSONError

_CONNECT_S = 5.0
_QUICK_S = 20.0
_LONGEST_STREAM_S = 3700.0
_SILENCE_S = 90.0
"""Seconds without a byte of an event stream: hermes-agent 0.19.0 sends a comment every 30 s."""

_LARGEST_ANSWER = 8 << 20
_LARGEST_STREAM = 64 << 20

_MOST_VALUES = 200_000
"""Values of an answer: a transcript of 8 MiB with 10,000 messages has as many, and takes a thread 0.3 s."""

_MOST_OF_EVENT, _MOST_OF_ERROR = 10_000, 1_000
"""Values of what is parsed on the event loop."""

_FROM = "x-relay-from"
"""Header of every answer: ``agent``, or ``relay`` where the relay itself answers."""

_NOT_TAKEN = frozenset(
    {
        *("relay_full", "agent_busy", "agent_away", "agent_not_ready", "relay_not_ready", "agent_refuses"),
        *("not_a_caller", "too_late"),
    }
)
"""Codes with which the relay says that the agent did not get a request, and may get it later: also where this caller's
certificate has expired, until an operator admits it again."""


class NoSuchThingError(RefusedError):
    """The agent answered 404: it knows no such run, session or job."""


class AgentEndedError(RefusedError):
    """The relay knows no such agent, or the agent is suspended."""


class AgentBusyError(UnavailableError):
    """The agent, or the relay, takes no further request now; it did not get this one."""


class RelayClient:
    """The relay, as one of its callers sees it. Each request has a connection of its own, as the relay wants it.

    Args:
        url: Of the relay, as ``https://127.0.0.1:8448``; called for each request.
        context: TLS with the caller's certificate; called for each request, since certificates are renewed.
    """

    def __init__(self, url: Callable[[], str], context: Callable[[], Awaitable[ssl.SSLContext]]) -> None:
        self._url = url
        self._context = context

    async def get(self, agent: str, path: str) -> Mapping[str, Any]:
        """Read something of an agent's API.

        Args:
            agent: Instance id.
            path: As ``/v1/runs/run_1``.

        Raises:
            NoSuchThingError: The agent answers 404.
            AgentEndedError: There is no such agent, or it is suspended.
            AgentBusyError: Neither agent nor relay took the request.
            UnavailableError: Nobody answers, or the answer is malformed.
        """
        try:
            return await self._exchange("GET", agent, path)
        except UnknownOutcomeError as error:  # reading changes nothing
            raise UnavailableError(error.message) from error

    async def send(
        self,
        method: str,
        agent: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        key: str = "",
        until: float = math.inf,
    ) -> Mapping[str, Any]:
        """Change something by an agent's API; raises as ``get``.

        The agent gets it before ``until`` or never, whichever process hangs meanwhile; this client waits 20 s at most.

        Args:
            key: By which newer agents know a repeated request; hermes-agent 0.19.0 ignores it.
            until: Seconds since 1970.

        Raises:
            UnknownOutcomeError: The agent may have got it.
        """
        moment = min(until, time.time() + _QUICK_S)
        headers = {UNTIL: f"{moment:.3f}", **({"idempotency-key": key} if key else {})}
        return await self._exchange(method, agent, path, body, headers)

    @asynccontextmanager
    async def events(self, agent: str, path: str) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Read the events of a run; each is an object. The iterator ends where the stream ends. Raises as ``get``.

        Raises:
            UnavailableError: The stream broke off, or is malformed.
        """
        try:
            async with await self._connection() as client, client.stream("GET", _target(agent, path)) as response:
                deadline = Deadline(_LONGEST_STREAM_S)
                body = AnswerBody(response, deadline=deadline, largest=_LARGEST_STREAM)
                if response.status_code != HTTPStatus.OK:
                    _refuse(response, await body.whole())
                yield _events_of(body)
        except UnknownOutcomeError as error:
            raise UnavailableError(error.message) from error
        except (httpx.HTTPError, UnreadableAnswerError, OSError) as error:
            raise UnavailableError(f"the agent's events broke off: {type(error).__name__}") from error

    async def _exchange(
        self,
        method: str,
        agent: str,
        path: str,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        deadline = Deadline(_QUICK_S)
        try:
            async with (
                await self._connection() as client,
                client.stream(method, _target(agent, path), json=body, headers=headers) as response,
            ):
                answer = await AnswerBody(response, deadline=deadline, largest=_LARGEST_ANSWER).whole()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise AgentBusyError(f"the relay does not answer: {type(error).__name__}") from error
        except (httpx.HTTPError, UnreadableAnswerError, OSError) as error:
            raise UnknownOutcomeError(f"the relay's answer was lost: {type(error).__name__}") from error
        _refuse(response, answer)
        return await _object(answer)

    async def _connection(self) -> httpx.AsyncClient:
        timeout = httpx.Timeout(connect=_CONNECT_S, read=_SILENCE_S, write=_QUICK_S, pool=_CONNECT_S)
        headers = {"accept-encoding": "identity"}
        return own_client(verify=await self._context(), base_url=self._url(), timeout=timeout, headers=headers)


def _target(agent: str, path: str) -> str:
    return f"/agents/{agent}{path}"


async def _object(answer: bytes) -> Mapping[str, Any]:
    try:
        return await foreign_json.parsed_object(answer, most=_MOST_VALUES, largest=_LARGEST_ANSWER)
    except MalformedJSONError as error:
        raise UnavailableError(f"the agent's answer is malformed: {error}") from error


def _refuse(response: httpx.Response, answer: bytes) -> None:
    """Raise for an answer that is no success. Pure."""
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST:
        return
    code, words = _words(answer)
    words = words or f"HTTP {status}"
    if response.headers.get(_FROM) != "agent":
        _refuse_of_relay(status, code, words)
    if status == HTTPStatus.NOT_FOUND:
        raise NoSuchThingError(words)
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        raise AgentBusyError(words)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnknownOutcomeError(words)
    raise RefusedError(words)


def _refuse_of_relay(status: int, code: str, words: str) -> None:
    """Raise for the relay's own refusal."""
    if code in {"no_agent", "agent_suspended"}:
        raise AgentEndedError(words)
    if code in _NOT_TAKEN:
        raise AgentBusyError(words)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnknownOutcomeError(words)
    raise RefusedError(words)


def _words(answer: bytes) -> tuple[str, str]:
    """Code and words of an error, of the relay (``error``) or of the agent (``error.message``)."""
    try:
        body = foreign_json.object_in(answer, most=_MOST_OF_ERROR)
    except MalformedJSONError:
        return "", ""
    code, error = body.get("code"), body.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return str(code or "")[:64], one_line(message) if isinstance(message, str) else ""


async def _events_of(body: AnswerBody) -> AsyncIterator[Mapping[str, Any]]:
    async for line in body.lines():
        if not line.startswith("data:"):
            continue
        try:
            yield foreign_json.object_in(line.removeprefix("data:").strip().encode(), most=_MOST_OF_EVENT)
        except MalformedJSONError as error:
            raise UnavailableError(f"the agent's events are malformed: {error}") from error
