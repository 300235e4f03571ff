"""Reaches ports on machines' loopback through the vendor's authenticated proxy.

The service there is not the vendor's: its answers, errors included, are passed on as they are. Tokens go in a header,
never in a URL, since URLs end up in logs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from hermesops.base.network.web_address import is_loopback
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline
from hermesops.vendor.justavps.connections import CONNECT_S, Closing, http_client
from hermesops.vendor.justavps.errors import ReadNotJsonError, UnreachableError
from hermesops.vendor.justavps.own_connection import begin_head
from hermesops.vendor.justavps.sse import ServerSentEvent, events_of
from hermesops.vendor.justavps.transport import NOT_ANSWERED, Call, lost
from hermesops.vendor.justavps.wire import Machine
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

_READS = frozenset({"GET", "HEAD", "OPTIONS"})

_BEFORE_HEAD = "http11.send_request_headers.started"

_LARGEST = 1 << 20
"""Bytes of an answer that is read at once; an agent's health is some two kilobytes."""

_LARGEST_STREAM = 64 << 20
"""Bytes of a stream: a turn of an agent's with all that its tools printed."""


@dataclass(frozen=True)
class Port:
    """A port of a machine, and the token that opens it.

    Attributes:
        url: As the vendor's template gives it, without a slash at its end.
        token: Sent as ``X-Proxy-Token``.
    """

    url: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, machine: Machine, port: int, token: str) -> Self:
        """Build the address of a machine's port ``port``.

        Raises:
            ReadNotJsonError: The vendor's answer has no template of the machine's proxy addresses.
        """
        url = machine.url_of_port(port)
        if url is None:
            raise ReadNotJsonError(f"GET /machines/{machine.id}", "no urls.port_template in the answer", status=200)
        return cls(url, token)


@dataclass(frozen=True)
class ProxyAnswer:
    """Answer of a service behind the proxy, or of the proxy itself.

    Attributes:
        status: 401 and 403 may be the proxy's, about the token, or the service's; 502, 503 and 504 are the proxy's.
        headers: Values by lower-case name.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def ok(self) -> bool:
        """True for a status of success."""
        return httpx.codes.is_success(self.status)

    def json(self) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """The body as JSON; ``None`` when it is something else."""
        try:
            return strict_json.parse(self.body)
        except strict_json.MalformedJSONError:
            return None


class ProxyStream:
    """Answer with a body that is still being received."""

    def __init__(self, response: httpx.Response, body: AnswerBody) -> None:
        self.headers = response.headers
        self._body = body
        self.status = response.status_code

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces, as they arrive."""
        async for piece in self._body.pieces():
            yield piece

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """Yield server-sent events, as they arrive."""
        async for event in events_of(self._body.lines()):
            yield event

    async def read(self) -> ProxyAnswer:
        """The whole body at once, as of an error answer."""
        return ProxyAnswer(self.status, dict(self.headers), await self._body.whole())


class ProxyClient(Closing):
    """Connections through the proxy, for any number of machines. Use as an async context manager.

    Args:
        base_url: Of the API. Names under ``localhost`` are reached at its address, because not every resolver knows
            them (Debian's does not); the proxy tells machines apart by the name in ``Host``.
        domain: Parent domain of machines' ports; empty means below the API's own host. The vendor says where a
            port is, and tokens and agents' keys are sent there: it must not be anywhere.
        transport: Replaces the network in tests.
        alone: True for one connection a request, see ``http_client``.
    """

    def __init__(
        self, base_url: str, *, domain: str = "", transport: httpx.AsyncBaseTransport | None = None, alone: bool = False
    ) -> None:
        self._api = httpx.URL(base_url)
        self._domain = (domain or self._api.host).strip(".").lower()
        self._http = http_client(self._api, transport=transport, alone=alone)

    async def aclose(self) -> None:
        """Close all connections to the proxy."""
        await self._http.aclose()

    async def request(
        self,
        port: Port,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        timeout_s: float = 30,
    ) -> ProxyAnswer:
        """Send one request to a port and read the whole answer.

        ``path`` has its leading slash, and the query; ``body`` is sent as JSON. ``timeout_s`` is for the whole
        exchange: a service may send single bytes for ever.

        Raises:
            UnreachableError: Nothing was sent; also when the vendor names a port that is not served where it should be.
            LostAnswerError: No answer; of a POST it may have had its effect.
        """
        asking = self.stream(
            port, method, path, headers=headers, body=body, timeout_s=timeout_s, total_s=timeout_s, largest=_LARGEST
        )
        async with asking as stream:
            return await stream.read()

    @asynccontextmanager
    async def stream(  # noqa: PLR0913 - one exchange has so many bounds
        self,
        port: Port,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        timeout_s: float = 30,
        total_s: float = 600,
        largest: int = _LARGEST_STREAM,
        before_send: Callable[[], None] | None = None,
    ) -> AsyncIterator[ProxyStream]:
        """As ``request``, with the body streamed; leaving the context hangs up.

        Bytes as ``body`` are sent as they are. ``timeout_s`` is without a byte of the answer until it counts as lost,
        ``total_s`` for the whole exchange; ``largest`` is the body's, in bytes. ``before_send`` is called once the
        connection is open, before anything is sent; what it raises is raised here, and nothing was sent.
        """
        url, host = self._address(port.url + path)
        request = self._http.build_request(
            method,
            url,
            headers={**(headers or {}), **host, "X-Proxy-Token": port.token},
            **({"content": body} if isinstance(body, bytes) else {"json": body}),
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
            extensions={"trace": _tracing(before_send)} if before_send else {},
        )
        try:
            deadline, head = Deadline(total_s), begin_head()
            response = await deadline.bound(self._http.send(request, stream=True))
            head.end()
            try:
                yield ProxyStream(response, AnswerBody(response, deadline=deadline, largest=largest))
            finally:
                await response.aclose()
        except NOT_ANSWERED as cause:
            shown = Call(method, f"{port.url}{path.partition('?')[0]}", changes=method.upper() not in _READS)
            raise lost(shown, cause, "") from cause

    def _address(self, text: str) -> tuple[httpx.URL, dict[str, str]]:
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL:
            raise _elsewhere("which is no URL") from None
        if url.scheme != self._api.scheme:
            raise _elsewhere(f"with {one_line(url.scheme)} where the API has {self._api.scheme}")
        if is_loopback(self._api.host) and url.host.endswith(".localhost"):
            return url.copy_with(host=self._api.host, port=url.port or self._api.port), {"Host": url.netloc.decode()}
        if url.userinfo or not (url.host == self._api.host or url.host.endswith(f".{self._domain}")):
            raise _elsewhere(f"on {one_line(url.host)}, which is not below {self._domain}")
        return url, {}


def _tracing(before_send: Callable[[], None]) -> Callable[[str, Mapping[str, object]], Awaitable[None]]:
    """Call something before a request's first byte. Source: httpcore's documentation, "Request extensions: trace"."""

    async def trace(event: str, _info: Mapping[str, object]) -> None:
        if event == _BEFORE_HEAD:
            before_send()

    return trace


def _elsewhere(why: str) -> UnreachableError:
    return UnreachableError(
        "urls.port_template of a machine",
        f"it names a port {why}; no token is sent there",
        hint="if that is where JustAVPS serves machines, set proxy_domain in settings.toml",
    )
