"""TCP to a machine's daemon, for httpcore: only over the machine's own link, and never silent for long.

It must not follow a route: while a machine is down its address belongs to whatever the default route leads to, and the
daemon's bearer must not go there. Seen 2026-11: a computer whose gateway answered in the machine's place.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from ipaddress import IPv4Address

import httpcore

_PIECE = 256 * 1024
_OPTIONS: tuple[tuple[int, int, int], ...] = (
    (socket.SOL_SOCKET, socket.SO_DONTROUTE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # A machine that dies takes its last packets along: without these a caller would wait for ever.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
)


class DaemonStream(httpcore.AsyncNetworkStream):
    """One connection; ``unread`` are bytes to be read first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.unread = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Read what there is, at most so many bytes; nothing at the end."""
        if self.unread:
            piece, self.unread = self.unread[:max_bytes], self.unread[max_bytes:]
            return piece
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's signature
        """Write all of it."""
        if not buffer:
            return
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        """Close it at once; what was not sent is lost."""
        self._writer.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002 - httpcore's signature
        server_hostname: str | None = None,  # noqa: ARG002 - as above
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Not offered: links are this computer's own."""
        raise httpcore.UnsupportedProtocol("daemons speak plain HTTP")

    def get_extra_info(self, info: str) -> object:
        """What httpcore asks: whether a kept connection has ended meanwhile shows as readable."""
        if info == "is_readable":
            return self._reader.at_eof()
        return None


async def connect(address: IPv4Address, port: int, timeout_s: float | None) -> DaemonStream:
    """Connect over the machine's own link.

    Raises:
        ConnectError: Nobody there, or the machine has no link.
        ConnectTimeout: No answer in time.
    """
    plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        plain.setblocking(False)
        for option in _OPTIONS:
            plain.setsockopt(*option)
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(plain, (str(address), port))
        return DaemonStream(*await asyncio.open_connection(sock=plain, limit=_PIECE))
    except TimeoutError as error:
        plain.close()
        raise httpcore.ConnectTimeout(f"{address}:{port} does not answer") from error
    except OSError as error:
        plain.close()
        raise httpcore.ConnectError(f"{address}:{port}: {error.strerror}") from error
    except BaseException:
        plain.close()
        raise


class DirectBackend(httpcore.AsyncNetworkBackend):
    """Connects to daemons' addresses."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,  # noqa: ARG002 - as above
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Connect; see ``connect``."""
        return await connect(IPv4Address(host), port, timeout)
