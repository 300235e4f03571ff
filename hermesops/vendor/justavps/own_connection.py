"""Connections of one request each: an answer cannot belong to another request, and reading it is bounded.

A peer may send endless interim answers before the real one, which cost more to read than to send, and a body as fast as
the network carries it. Bytes before the answer are counted, and all are read at a bounded rate.
"""

import ssl
from collections.abc import Iterable
from contextvars import ContextVar

import httpcore
import httpx

from hermesops.base.waiting import pause

_HEAD_BYTES = 128 * 1024
_PIECE = 16 * 1024
_BYTE_S = 0.3e-6
"""Seconds of pause for each byte: some 3 MB a second."""


class Head:
    """Counts the bytes before an answer's body, up to a limit."""

    def __init__(self) -> None:
        self._left: int | None = _HEAD_BYTES

    def take(self, size: int) -> None:
        """Count bytes.

        Raises:
            httpcore.RemoteProtocolError: There were too many, and no answer yet.
        """
        if self._left is None:
            return
        self._left -= size
        if self._left < 0:
            raise httpcore.RemoteProtocolError(f"more than {_HEAD_BYTES} bytes before an answer")

    def end(self) -> None:
        """Stop counting: the answer has begun."""
        self._left = None


_heads: ContextVar[Head | None] = ContextVar("_heads", default=None)


def begin_head() -> Head:
    """Count the bytes that answer this task's next request, until the body begins."""
    head = Head()
    _heads.set(head)
    return head


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is read in small pieces, with a pause after each."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface's
        data = await self._inner.read(min(max_bytes, _PIECE), timeout)
        if head := _heads.get():
            head.take(len(data))
        await pause(len(data) * _BYTE_S)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.AnyIOBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class OwnConnection(httpx.AsyncHTTPTransport):
    """Carries each request on a connection of its own; any number at a time."""

    def __init__(self, verify: ssl.SSLContext) -> None:
        super().__init__(verify=verify)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verify, max_connections=None, max_keepalive_connections=0, network_backend=_Backend()
        )
