"""A way for a browser to the platform's monitoring: a proxy on loopback that presents a certificate of the operator.

It lives as long as the command that started it. Other programs of this computer can reach the port, and other websites
can make the browser send requests to it, so that nothing is answered without a cookie, which one address with a token
gives once. Other servers on the same loopback address are of the same origin for cookies: they must not be hostile.
"""

import asyncio
import json
import re
import secrets
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from hmac import compare_digest
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import httpx

from hermesops.base.network.http import own_client
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.serving.exchange import Exchange, Head, RefusedRequestError
from hermesops.serving.listener import Bounds, Connection, Listener

LOOPBACK = "127.0.0.1"

_WITHIN_S = 60.0
_LARGEST_QUESTION = 1 << 20
_LARGEST_ANSWER = 64 << 20
_BOUNDS = Bounds(at_once=64, per_host=64, time_s=2 * _WITHIN_S, body_bytes=_LARGEST_QUESTION)

_METHODS = frozenset({"GET", "HEAD", "POST"})
_ASKED = frozenset({"accept", "accept-language", "content-type", "if-none-match", "if-modified-since"})
_OWN_ASKED = ("x-grafana-", "x-datasource-", "x-dashboard-", "x-panel-")
"""Headers of a browser that are passed on; no cookie is, and nothing that says who asks."""

_ANSWERED = frozenset({"content-type", "content-encoding", "content-language", "etag", "last-modified", "location"})
_CLIMBS = re.compile(r"\.\.|%2e|%2f|%5c|\\|//", re.IGNORECASE)
"""In a path: a way out of the service's part of monitoring."""


@dataclass
class BrowserGate:
    """Admits the requests of one browser.

    Args:
        authority: ``ADDRESS:PORT`` of the proxy, as the browser must name it: no other name leads here.
        prefix: Of paths that are passed on, as ``/grafana/``.
    """

    authority: str
    prefix: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), init=False, repr=False)

    @property
    def url(self) -> str:
        """The address that gives the cookie, once."""
        return f"http://{self.authority}/?token={self.token}"

    @property
    def _cookie(self) -> str:
        return f"hermesops-{self.authority.rpartition(':')[2]}"

    def admit(self, head: Head) -> str:
        """The cookie to set for a request with the token; empty for one that has the cookie and is passed on.

        Raises:
            RefusedRequestError: It is neither, or of another website, or for another path.
        """
        headers = dict(head.headers)
        if headers.get("host") != self.authority:
            raise RefusedRequestError(HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", "this is no address of this server")
        address = urlsplit(head.target)
        if head.method == "GET" and address.path == "/" and address.query:
            return self._cookie_for(parse_qs(address.query).get("token", [""])[0])
        shown = _cookies(headers.get("cookie", "")).get(self._cookie, "")
        if not compare_digest(shown.encode(), self._session.encode()):
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "no_cookie", "open the address that the command printed")
        self._refuse_foreign(head, headers)
        if not head.target.startswith(self.prefix) or _CLIMBS.search(address.path):
            raise RefusedRequestError(HTTPStatus.NOT_FOUND, "not_there", f"only {self.prefix} is served")
        return ""

    def _cookie_for(self, token: str) -> str:
        if not self.token or not compare_digest(token.encode(), self.token.encode()):
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "wrong_token", "this address was used; repeat the command")
        self.token = ""
        return f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def _refuse_foreign(self, head: Head, headers: Mapping[str, str]) -> None:
        """Refuse requests that another website made the browser send."""
        if head.method not in _METHODS:
            raise RefusedRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "method", "GET, HEAD and POST are served")
        own = f"http://{self.authority}"
        if headers.get("origin", own if head.method != "POST" else "") != own:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "foreign", "another website asks")


@dataclass(frozen=True)
class BrowserProxy:
    """Passes a browser's requests on to the platform's monitoring.

    Args:
        base_url: Of monitoring, ``https://host:port``.
        tls: TLS with the operator's certificate; asked for each request, as a certificate runs out.
    """

    base_url: str
    tls: Callable[[], ssl.SSLContext]
    gate: BrowserGate

    async def serve(self, listener: socket.socket) -> None:
        """Serve until cancelled. The listener must not block."""
        await Listener(self._converse, None, _BOUNDS).serve(listener)

    async def _converse(self, connection: Connection) -> None:
        exchange = Exchange(connection.reader, connection.writer, largest_body=_LARGEST_QUESTION)
        try:
            head = await exchange.head()
            cookie = self.gate.admit(head)
            if cookie:
                await exchange.answer(HTTPStatus.SEE_OTHER, {"location": self.gate.prefix, "set-cookie": cookie}, b"")
                return
            await self._pass_on(exchange, head, await exchange.body(head.size))
        except RefusedRequestError as refused:
            if not exchange.has_begun:
                body = json.dumps({"error": refused.words}).encode()
                await exchange.answer(refused.status, {"content-type": "application/json"}, body)
                await exchange.linger()

    async def _pass_on(self, exchange: Exchange, head: Head, body: bytes) -> None:
        headers = {name: value for name, value in head.headers if name in _ASKED or name.startswith(_OWN_ASKED)}
        try:
            async with (
                asyncio.timeout(_WITHIN_S),
                own_client(verify=self.tls(), timeout=_WITHIN_S) as client,
                client.stream(
                    head.method,
                    f"{self.base_url}{head.target}",
                    content=body or None,
                    headers={**headers, "accept-encoding": "identity"},
                ) as response,
            ):
                passed = {name: value for name, value in response.headers.items() if name in _ANSWERED}
                if not passed.get("location", "/").startswith("/"):
                    del passed["location"]  # elsewhere the browser would go without this proxy
                await exchange.begin(response.status_code, passed)
                async with aclosing(_bounded(response)) as pieces:
                    async for piece in pieces:
                        await exchange.go_on(piece)
                await exchange.end()
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, TimeoutError) as error:
            words = f"monitoring gives no answer: {type(error).__name__}"
            raise RefusedRequestError(HTTPStatus.BAD_GATEWAY, "no_answer", words) from error


async def require_service(base_url: str, tls: ssl.SSLContext, prefix: str) -> None:
    """Return where monitoring serves the paths of a service.

    Raises:
        RefusedError: It does not.
        UnavailableError: It does not answer.
    """
    try:
        async with own_client(verify=tls, timeout=10.0) as client:
            response = await client.head(f"{base_url}{prefix}")
    except (httpx.HTTPError, ssl.SSLError) as error:
        raise UnavailableError(f"monitoring at {base_url} gives no answer: {type(error).__name__}") from error
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise RefusedError(
            f"monitoring at {base_url} serves no {prefix.strip('/')}",
            hint=Hint(
                "hermes_platform_monitoring_grafana of role hermes_platform_monitoring serves it; without it:",
                ("fleet", "top"),
                "shows figures,",
                ("alert", "list"),
                "alerts",
            ),
        )


async def _bounded(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    passed = 0
    async for piece in response.aiter_raw():
        passed += len(piece)
        if passed > _LARGEST_ANSWER:
            raise httpx.ReadError("the answer is too large")
        yield piece


def _cookies(header: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, _, value in pairs if name}
