"""Clients of httpx that reach an address as the home of addresses says."""

import ssl
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import httpx

from hermesops.base.network.variables import NetworkVariables, Proxy, proxy_hint

TransportT = TypeVar("TransportT")


class ProxyFailedError(httpx.ProxyError):
    """Nothing was sent: the proxy that a variable names does not answer, or lets nobody through.

    Attributes:
        hint: What to do about it.
    """

    def __init__(self, proxy: Proxy, error: Exception) -> None:
        does = "refuses" if isinstance(error, httpx.ProxyError) else "does not answer"
        super().__init__(f"the proxy {proxy.shown}, which {proxy.variable} names, {does}: {error}")
        self.hint = proxy_hint(proxy)


def blank_context() -> ssl.SSLContext:
    """A TLS context that trusts nobody, for connections without TLS: to load authorities takes 15 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def own_client(*, verify: ssl.SSLContext | None = None, **options: Any) -> httpx.AsyncClient:  # noqa: ANN401 - httpx's
    """A client for addresses of our own: no variable means anything to it.

    Args:
        verify: Trusts our own authority; without one, nobody.
        options: As httpx takes them.
    """
    return httpx.AsyncClient(verify=verify or blank_context(), trust_env=False, **options)


def client(*, limits: httpx.Limits | None = None, **options: Any) -> httpx.AsyncClient:  # noqa: ANN401 - httpx's
    """A client for any address: this computer's own directly, others as the operator's variables say.

    Its requests raise, beside httpx's errors, ``UsageError`` for a variable that cannot be used.
    """
    return httpx.AsyncClient(transport=_AsyncRoutes(limits or httpx.Limits()), trust_env=False, **options)


def blocking_client(
    *,
    verify: Callable[[], ssl.SSLContext] | None = None,
    proxy: Proxy | None = None,
    **options: Any,  # noqa: ANN401 - httpx's
) -> httpx.Client:
    """Synchronous variant of ``client``.

    Args:
        verify: Makes the TLS context in the place of the variables' one.
        proxy: In the place of the variables' one.
    """
    return httpx.Client(transport=_BlockingRoutes(verify, proxy), trust_env=False, **options)


class _Ways(Generic[TransportT]):
    """A transport for each way by which something was asked, with or without TLS and a proxy."""

    def __init__(
        self,
        make: Callable[[ssl.SSLContext, httpx.Proxy | None], TransportT],
        verify: Callable[[], ssl.SSLContext] | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._make = make
        self._variables = NetworkVariables.of_process()
        self._verify = verify or self._variables.tls_context
        self._proxy = proxy
        self._made: dict[tuple[bool, Proxy | None], TransportT] = {}

    def find(self, url: httpx.URL) -> tuple[TransportT, Proxy | None]:
        proxy = self._proxy_for(str(url))
        way = (url.scheme == "https", proxy)
        if way not in self._made:
            self._made[way] = self._transport(proxy, is_encrypted=way[0])
        return self._made[way], proxy

    def all(self) -> list[TransportT]:
        return list(self._made.values())

    def _proxy_for(self, url: str) -> Proxy | None:
        if self._proxy is None:
            return self._variables.proxy_for(url)
        return None if self._variables.is_direct(url) else self._proxy

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._verify()

    def _transport(self, proxy: Proxy | None, *, is_encrypted: bool) -> TransportT:
        if proxy is None:
            return self._make(self._context if is_encrypted else blank_context(), None)
        through = httpx.Proxy(proxy.url, ssl_context=self._context if proxy.url.startswith("https") else None)
        return self._make(self._context, through)


class _AsyncRoutes(httpx.AsyncBaseTransport):
    def __init__(self, limits: httpx.Limits) -> None:
        def make(verify: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.AsyncHTTPTransport:
            return httpx.AsyncHTTPTransport(verify=verify, limits=limits, proxy=proxy)

        self._ways = _Ways(make)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        transport, proxy = self._ways.find(request.url)
        try:
            return await transport.handle_async_request(request)
        except httpx.TransportError as error:
            if proxy is None:
                raise
            raise told(error, proxy) from error

    async def aclose(self) -> None:
        for transport in self._ways.all():
            await transport.aclose()


class _BlockingRoutes(httpx.BaseTransport):
    def __init__(self, verify: Callable[[], ssl.SSLContext] | None, proxy: Proxy | None) -> None:
        def make(verify: ssl.SSLContext, through: httpx.Proxy | None) -> httpx.HTTPTransport:
            return httpx.HTTPTransport(verify=verify, proxy=through)

        self._ways = _Ways(make, verify, proxy)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        transport, proxy = self._ways.find(request.url)
        try:
            return transport.handle_request(request)
        except httpx.TransportError as error:
            if proxy is None:
                raise
            raise told(error, proxy) from error

    def close(self) -> None:
        for transport in self._ways.all():
            transport.close()


def told(error: httpx.TransportError, proxy: Proxy) -> httpx.TransportError:
    """Add the proxy that a request went through to its error. Pure."""
    is_of_connection = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and not _is_of_tls(error)
    if is_of_connection or isinstance(error, httpx.ProxyError):
        return ProxyFailedError(proxy, error)
    return type(error)(f"{str(error) or type(error).__name__}, through the proxy {proxy.shown} of {proxy.variable}")


def _is_of_tls(error: BaseException | None) -> bool:
    """Whether an error was raised by a TLS handshake, which begins after the proxy accepted the connection."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
