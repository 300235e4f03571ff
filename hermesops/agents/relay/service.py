"""Relays requests of the platform's services to the API of one agent each, and the answers back.

The token that opens the machine is read for each request and sent only to the vendor's proxy. No content is kept or
logged. Whatever an agent answers affects that request alone.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import structlog

from hermesops.agents.relay.places import Places, Tally
from hermesops.agents.relay.routes import (
    Wanted,
    headers_from_agent,
    headers_to_agent,
    unavailable,
    until_in,
    wanted,
)
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, RefusedError, UnknownOutcomeError, UsageError
from hermesops.model.access.certificate import Caller
from hermesops.model.access.token import PLATFORM
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.serving.error_body import error_body
from hermesops.serving.exchange import Exchange, Head, RefusedRequestError
from hermesops.store.registry import Registry
from hermesops.vendor.channel.agent import AGENT_PORT
from hermesops.vendor.justavps.proxy import Port, ProxyClient, ProxyStream

T = TypeVar("T")

LARGEST_BODY = 10 << 20
"""Bytes of a request's body; the limit of hermes-agent 0.19.0 too."""

FROM = "x-relay-from"
"""Header of every answer: ``agent``, or ``relay`` where the relay itself answers."""

_ROWS_S = 10.0
"""Seconds that the registry may take for one request."""

_MOST_PIECES = 250_000
"""Pieces of an answer: an hour of seventy words a second, each sent alone."""

_IN_A_ROW, _REST_S = 8, 0.005
"""Pieces after which an answer pauses, and seconds of that: many small pieces cost much processor time."""

_SUCCESS_OR_FAULT = (*range(200, 300), *range(400, 600))
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED})
_AWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE})

log = structlog.get_logger()


@dataclass(frozen=True)
class Agent:
    """Address and key of an agent's API.

    Attributes:
        api_key: Bearer of its API.
    """

    id: InstanceId
    port: Port
    api_key: str = field(repr=False)


@dataclass
class RequestRecord:
    """Log entry of one request, without its content and without names of sessions.

    Attributes:
        outcome: ``relayed``, or the code of a refusal.
    """

    caller: str = ""
    instance: str = ""
    route: str = ""
    status: int = 0
    outcome: str = "relayed"
    why: str = ""
    sent: int = 0


@dataclass(frozen=True)
class _AgentRequest:
    """A request as the agent is to get it.

    Attributes:
        until: See ``until_in``.
    """

    wanted: Wanted
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    until: float


class Relay:
    """Answers connections.

    Args:
        caller_of: Identifies the caller by its certificate (DER).
        renew: Gives a caller another certificate, for a request in PEM; the answer as JSON.
        proxy: The vendor's proxy, with a connection for each request.
        clock: Seconds since 1970; the callers' clock, since they run on this host.
    """

    def __init__(
        self,
        registry: Registry,
        caller_of: Callable[[bytes], Caller],
        renew: Callable[[Caller, str], bytes],
        proxy: ProxyClient,
        places: Places | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._caller_of = caller_of
        self._renew = renew
        self._proxy = proxy
        self._places = places or Places()
        self._clock = clock
        self._tally = Tally()

    async def converse(self, certificate: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the client with this certificate.

        Args:
            certificate: DER; the listener has verified that an authority of ours signed it.
            writer: To the client; its owner closes it, or aborts it when this raises, so that no partial answer
                looks complete.
        """
        exchange, record, began = Exchange(reader, writer, largest_body=LARGEST_BODY), RequestRecord(), time.monotonic()
        try:
            await self._answer(certificate, exchange, record)
        except RefusedRequestError as refused:
            record.outcome, record.status, record.why = refused.code, refused.status, refused.words
            if exchange.has_begun:
                raise ConnectionAbortedError(refused.words) from refused
            await _say(exchange, refused)
        except OSError as lost:
            record.outcome = "caller_gone"
            raise ConnectionAbortedError("the caller does not read the answer") from lost
        finally:
            self._tally.count(record.outcome)
            log.info("request_ended", **vars(record), seconds=round(time.monotonic() - began, 3))

    async def _answer(self, certificate: bytes, exchange: Exchange, record: RequestRecord) -> None:
        head = await exchange.head()
        caller = await self._allowed(lambda: self._caller_of(certificate))
        record.caller = caller.name
        with self._places.of_caller(caller.name), self._places.of_body(head.size):
            match head.method, head.target:
                case "POST", "/certificate":
                    text = (await exchange.body(head.size)).decode(errors="replace")
                    answer = await self._allowed(lambda: self._renew(caller, text))
                    await _whole(exchange, "application/json", answer)
                case "GET", "/metrics":
                    await _whole(exchange, "text/plain", self._tally.text(self._places.taken))
                case _:
                    await self._relay(exchange, head, record)

    async def _relay(self, exchange: Exchange, head: Head, record: RequestRecord) -> None:
        request = wanted(head.method, head.target, record.caller)
        record.route = request.route.title
        headers, until = headers_to_agent(head.headers), until_in(head.headers)
        if head.size and not request.route.has_body:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "not_http", f"{head.method} takes no body on this route")
        agent = await self._find(request.agent)
        record.instance = agent.id
        with self._places.of_agent(agent.id):
            body = await exchange.body(head.size)
            agent_request = _AgentRequest(request, headers, body, until)
            await _unless_gone(self._carry(exchange, agent, agent_request, record), exchange)

    async def _carry(
        self, exchange: Exchange, agent: Agent, agent_request: _AgentRequest, record: RequestRecord
    ) -> None:
        async with self._requested(agent, agent_request) as stream:
            record.status = stream.status
            await exchange.begin(stream.status, {**_head_of(stream), FROM: "agent"})
            number = 0
            async for piece in stream.pieces():
                await exchange.go_on(piece)
                record.sent += len(piece)
                number += 1
                if number % _IN_A_ROW == 0:
                    await pause(_REST_S)
                if number > _MOST_PIECES:
                    raise RefusedRequestError(
                        HTTPStatus.BAD_GATEWAY, "bad_answer", "the agent's answer has too many chunks"
                    )
            await exchange.end()

    @asynccontextmanager
    async def _requested(self, agent: Agent, agent_request: _AgentRequest) -> AsyncIterator[ProxyStream]:
        kind = {"Content-Type": "application/json"} if agent_request.body else {}
        route = agent_request.wanted.route
        try:
            async with self._proxy.stream(
                agent.port,
                route.method,
                agent_request.wanted.target,
                headers={**agent_request.headers, "Authorization": f"Bearer {agent.api_key}", **kind},
                body=agent_request.body or None,
                timeout_s=route.silence_s,
                total_s=route.total_s,
                before_send=lambda: self._refuse_late(agent_request.until),
            ) as stream:
                yield stream
        except UnknownOutcomeError as lost:
            words = "the agent received the request and did not answer correctly: its effect is unknown"
            raise RefusedRequestError(HTTPStatus.GATEWAY_TIMEOUT, "outcome_unknown", words) from lost
        except HermesError as away:
            raise unavailable("agent_away", "the agent does not answer correctly") from away

    def _refuse_late(self, until: float) -> None:
        """Refuse what its caller has given up: this process, or the caller, hung meanwhile."""
        if self._clock() > until:
            raise unavailable("too_late", "the request came too late to reach the agent", retry_after_s=1)

    async def _find(self, text: str) -> Agent:
        try:
            return await self._of_rows(lambda: self._agent(text))
        except RefusedError as sealed:
            log.warning("registry_not_read", why=sealed.message)
            raise unavailable("relay_not_ready", "the relay cannot read the registry") from sealed

    def _agent(self, text: str) -> Agent:
        try:
            instance = self._registry.instances.find(text)
        except UsageError:
            raise _no_agent() from None
        match instance.status:
            case InstanceStatus.TERMINATED:
                raise _no_agent()
            case InstanceStatus.SUSPENDED:
                raise RefusedRequestError(HTTPStatus.CONFLICT, "agent_suspended", "this agent is suspended")
            case InstanceStatus.PROVISIONING:
                raise unavailable("agent_not_ready", "this agent is being provisioned", retry_after_s=10)
        token = self._registry.proxy_tokens.get(instance.machine_id, PLATFORM) if instance.machine_id else None
        if token is None or not token.address or not token.is_valid_at(self._registry.now()):
            raise unavailable(
                "agent_not_ready", "the relay has no token for this agent's machine; a worker creates one"
            )
        port = Port(token.address.replace("{port}", str(AGENT_PORT)), token.token)
        return Agent(instance.id, port, self._registry.instance_secrets.api_server_key(instance.id))

    async def _allowed(self, ask: Callable[[], T]) -> T:
        try:
            return await self._of_rows(ask)
        except RefusedError as refused:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "not_a_caller", refused.message) from refused

    async def _of_rows(self, ask: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(_ROWS_S):
                return await asyncio.to_thread(ask)
        except RefusedError:
            raise
        except (HermesError, TimeoutError) as away:
            log.warning("registry_not_read", why=str(away) or f"no answer after {_ROWS_S:g} s")
            raise unavailable("relay_not_ready", "the relay cannot read the registry") from away


async def _unless_gone(work: Coroutine[Any, Any, None], exchange: Exchange) -> None:
    """Do the work while the caller waits for it."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "caller_gone", "the caller closed the connection")
        working.result()
    finally:
        await cancel(working, watching)


def _head_of(stream: ProxyStream) -> dict[str, str]:
    """The headers of an answer that the caller gets.

    Raises:
        RefusedRequestError: The answer is not the agent's answer to the caller.
    """
    if stream.status in _REFUSED:
        raise RefusedRequestError(
            HTTPStatus.BAD_GATEWAY, "agent_refuses", "the machine refuses the relay's token or key"
        )
    if stream.status in _AWAY:
        raise unavailable("agent_away", "the agent accepts no requests: it is draining or stopped")
    if stream.status == HTTPStatus.GATEWAY_TIMEOUT:
        raise RefusedRequestError(
            HTTPStatus.GATEWAY_TIMEOUT, "outcome_unknown", "the agent received the request and did not answer"
        )
    if stream.status not in _SUCCESS_OR_FAULT:
        raise RefusedRequestError(
            HTTPStatus.BAD_GATEWAY, "bad_answer", "the agent's answer has a status that the relay does not pass on"
        )
    return headers_from_agent(stream.headers)


def _no_agent() -> RefusedRequestError:
    return RefusedRequestError(HTTPStatus.NOT_FOUND, "no_agent", "unknown agent")


async def _say(exchange: Exchange, refused: RefusedRequestError) -> None:
    again = {"retry-after": str(refused.retry_after_s)} if refused.retry_after_s else {}
    body = json.dumps(error_body(refused.code, refused.words)).encode()
    await _whole(exchange, "application/json", body, status=refused.status, more=again)
    await exchange.linger()


async def _whole(
    exchange: Exchange,
    kind: str,
    body: bytes,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    more: dict[str, str] | None = None,
) -> None:
    await exchange.answer(status, {"content-type": kind, FROM: "relay", **(more or {})}, body)
