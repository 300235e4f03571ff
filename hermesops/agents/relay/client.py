"""Requests of a platform service to agents, through the relay; it holds no token of any machine.

It must not import the registry: the process that the internet reaches uses it.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import httpx

from hermesops.base.network.http import own_client
from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

_CONNECT_S = 5.0
_QUICK_S = 20.0
_LONGEST_STREAM_S = 3700.0
_SILENCE_S = 90.0
"""Seconds without a byte of an event stream: hermes-agent 0.19.0 sends a comment every 30 s."""

_LARGEST_ANSWER = 8 << 20
_LARGEST_STREAM = 64 << 20


class NoSuchThingError(RefusedError):
    """The agent answered 404: it knows no such run or session."""


class AgentBusyError(UnavailableError):
    """The agent, or the relay, takes no further request now; it did not get this one."""


class RelayClient:
    """The relay, as one of its callers sees it.

    Args:
        url: Of the relay, as ``https://127.0.0.1:8448``.
        context: TLS with the caller's certificate; called for each client.
    """

    def __init__(self, url: str, context: Callable[[], ssl.SSLContext]) -> None:
        self._url = url
        self._context = context
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        timeout = httpx.Timeout(connect=_CONNECT_S, read=_SILENCE_S, write=_QUICK_S, pool=_CONNECT_S)
        limits = httpx.Limits(max_connections=300, max_keepalive_connections=0)  # the relay closes after each answer
        self._client = own_client(verify=self._context(), base_url=self._url, timeout=timeout, limits=limits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def get(self, agent: str, path: str) -> Mapping[str, Any]:
        """Read something of an agent's API.

        Args:
            agent: Instance id.
            path: As ``/v1/runs/run_1``.

        Raises:
            NoSuchThingError: The agent answers 404.
            AgentBusyError: Neither agent nor relay took the request.
            UnavailableError: Nobody answers, or the answer is malformed.
        """
        try:
            return await self._exchange("GET", agent, path, None)
        except UnknownOutcomeError as error:  # reading changes nothing
            raise UnavailableError(error.message) from error

    async def post(self, agent: str, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        """Send something to an agent's API; raises as ``get``.

        Raises:
            UnknownOutcomeError: The agent may have got it.
        """
        return await self._exchange("POST", agent, path, body)

    @asynccontextmanager
    async def events(self, agent: str, path: str) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Read the events of a run; each is an object. The iterator ends where the stream ends.

        Raises:
            NoSuchThingError: The agent answers 404.
            AgentBusyError: See ``get``.
            UnavailableError: The stream broke off, or is malformed.
        """
        try:
            async with self._open().stream("GET", _target(agent, path)) as response:
                deadline = Deadline(_LONGEST_STREAM_S)
                body = AnswerBody(response, deadline=deadline, largest=_LARGEST_STREAM)
                if response.status_code != HTTPStatus.OK:
                    _refuse(response, await body.whole())
                yield _events_of(body)
        except (httpx.HTTPError, UnreadableAnswerError) as error:
            raise UnavailableError(f"the agent's events broke off: {type(error).__name__}") from error

    async def _exchange(
        self, method: str, agent: str, path: str, body: Mapping[str, object] | None
    ) -> Mapping[str, Any]:
        deadline = Deadline(_QUICK_S)
        try:
            async with self._open().stream(method, _target(agent, path), json=body) as response:
                answer = await AnswerBody(response, deadline=deadline, largest=_LARGEST_ANSWER).whole()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise AgentBusyError(f"the relay does not answer: {type(error).__name__}") from error
        except (httpx.HTTPError, UnreadableAnswerError) as error:
            raise UnknownOutcomeError(f"the relay's answer was lost: {type(error).__name__}") from error
        _refuse(response, answer)
        return _object(answer)

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            raise RuntimeError("the client is used outside its context")
        return self._client


def _target(agent: str, path: str) -> str:
    return f"/agents/{agent}{path}"


def _object(answer: bytes) -> Mapping[str, Any]:
    try:
        return strict_json.parse_object(answer, largest=_LARGEST_ANSWER)
    except strict_json.MalformedJSONError as error:
        raise UnavailableError(f"the agent's answer is malformed: {error}") from error


def _refuse(response: httpx.Response, answer: bytes) -> None:
    """Raise for an answer that is no success. Pure."""
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST:
        return
    words = _words(answer) or f"HTTP {status}"
    if status == HTTPStatus.NOT_FOUND:
        raise NoSuchThingError(words)
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        raise AgentBusyError(words)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnknownOutcomeError(words)
    raise RefusedError(words)


def _words(answer: bytes) -> str:
    """Words about an error, of the relay (``error``) or of the agent (``error.message``)."""
    try:
        error = strict_json.parse_object(answer).get("error")
    except strict_json.MalformedJSONError:
        return ""
    message = error.get("message") if isinstance(error, dict) else error
    return one_line(message) if isinstance(message, str) else ""


async def _events_of(body: AnswerBody) -> AsyncIterator[Mapping[str, Any]]:
    async for line in body.lines():
        if not line.startswith("data:"):
            continue
        try:
            yield strict_json.parse_object(line.removeprefix("data:").strip())
        except strict_json.MalformedJSONError as error:
            raise UnavailableError(f"the agent's events are malformed: {error}") from error
