"""Connections to the daemons on machines, like the vendor's broker makes them: TCP to the machine's own address.

It must not reach a machine in any other way, and only this module knows the daemons' bearers at run time. It must not
follow a route either: while a machine is down its address belongs to whatever the default route leads to, and the
daemon's bearer must not go there. Seen 2026-11: a computer whose gateway answered in the machine's place.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
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


CONNECT_TIMEOUT_S = 3.0
_PROBE_TIMEOUT_S = 2.0
_KEEP_S = 60.0  # a fifth of the daemon's own idle limit
_HEAD_LIMIT = 16_384
DaemonOf = Callable[[str], tuple[IPv4Address, int, str]]
"""Address and port of a machine's daemon, and the bearer it takes; by the machine's id."""


class DaemonStream(httpcore.AsyncNetworkStream):
    """One connection to a daemon; ``unread`` are bytes to be read first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.unread = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Read available bytes, up to a limit; empty at the end."""
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
        """Write all bytes of a buffer."""
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
        """Close the connection at once; unsent bytes are lost."""
        self._writer.transport.abort()

    def get_extra_info(self, info: str) -> object:
        """Answer httpcore, which takes a kept connection that is readable for one that has ended."""
        if info == "is_readable":
            return self._reader.at_eof()
        return None


async def _connect(address: IPv4Address | str, port: int, timeout_s: float | None) -> DaemonStream:
    """Connect over the machine's own link.

    Raises:
        ConnectError: Nothing listens there, or the machine has no link.
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


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects by a function of host, port and timeout."""

    def __init__(self, connect: Callable[[str, int, float | None], Awaitable[DaemonStream]]) -> None:
        self._connect = connect

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,  # noqa: ARG002 - as above
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.AsyncNetworkStream:
        return await self._connect(host, port, timeout)


logging.getLogger("httpcore").setLevel(logging.WARNING)  # it prints targets, and those may hold a proxy token


class NothingListensError(Exception):
    """The machine answers, but nothing listens on that port of it."""


class MachineDownError(Exception):
    """The machine's daemon could not be reached: nothing was handed over."""


class AnswerLostError(Exception):
    """The request was handed over, in part at least, and no answer came: it may have been carried out."""


class Broker:
    """Speaks HTTP to daemons, and to ports on machines' loopback through them."""

    def __init__(self, daemon_of: DaemonOf) -> None:
        self._daemon_of = daemon_of
        self._direct = _Backend(_connect)
        self._tunnels = _Backend(self._open_tunnel)
        self._daemons: dict[str, httpcore.AsyncConnectionPool] = {}
        self._ports: dict[str, httpcore.AsyncConnectionPool] = {}

    async def close(self) -> None:
        """Close every connection to every machine."""
        for machine_id in {*self._daemons, *self._ports}:
            await self.cut(machine_id)

    async def cut(self, machine_id: str) -> None:
        """Close every connection to a machine: a machine that went down may never close them."""
        for pools in (self._daemons, self._ports):
            if pool := pools.pop(machine_id, None):
                await pool.aclose()

    async def ask_daemon(
        self,
        machine_id: str,
        method: str,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]] = (),
        content: bytes | AsyncIterator[bytes] | None = None,
        *,
        read_timeout_s: float | None = None,
    ) -> httpcore.Response:
        """Send a request to the daemon itself; the caller reads and closes the response.

        Raises:
            MachineDownError: The daemon cannot be reached.
            AnswerLostError: It was reached, and hung up or fell silent before it answered.
        """
        address, port, bearer = self._daemon_of(machine_id)
        if machine_id not in self._daemons:
            self._daemons[machine_id] = httpcore.AsyncConnectionPool(
                max_connections=None, keepalive_expiry=_KEEP_S, network_backend=self._direct
            )
        all_headers = [
            (b"host", f"{address}:{port}".encode()),
            *headers,
            (b"authorization", b"Bearer " + bearer.encode()),
        ]
        url = httpcore.URL(scheme=b"http", host=str(address).encode(), port=port, target=target)
        return await _send(self._daemons[machine_id], method, url, all_headers, content, read_timeout_s)

    async def ask_port(
        self,
        machine_id: str,
        port: int,
        method: str,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]] = (),
        content: bytes | AsyncIterator[bytes] | None = None,
    ) -> httpcore.Response:
        """Send a request to a service on a port of the machine's loopback.

        Raises:
            NothingListensError: Nothing listens there.
            MachineDownError: As for the daemon.
            AnswerLostError: As for the daemon.
        """
        if machine_id not in self._ports:
            self._ports[machine_id] = httpcore.AsyncConnectionPool(
                max_connections=None, max_keepalive_connections=0, network_backend=self._tunnels
            )
        all_headers = [(b"host", f"127.0.0.1:{port}".encode()), *headers]
        url = httpcore.URL(scheme=b"http", host=machine_id.encode(), port=port, target=target)
        return await _send(self._ports[machine_id], method, url, all_headers, content, None)

    async def open_port(self, machine_id: str, port: int) -> httpcore.AsyncNetworkStream:
        """Connect to a port of the machine's loopback, for protocols other than HTTP; the caller closes it.

        Raises:
            NothingListensError: Nothing listens there.
            MachineDownError: As for the daemon.
        """
        try:
            return await self._open_tunnel(machine_id, port, CONNECT_TIMEOUT_S)
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise MachineDownError(f"{type(error).__name__}: {error}") from error

    async def _open_tunnel(self, machine_id: str, port: int, timeout_s: float | None) -> DaemonStream:
        """Ask the machine's daemon for a tunnel to a port of its loopback."""
        address, daemon_port, bearer = self._daemon_of(machine_id)
        stream = await _connect(address, daemon_port, timeout_s)
        try:
            await stream.write(
                f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                f"Proxy-Authorization: Bearer {bearer}\r\n\r\n".encode(),
                timeout_s,
            )
            status, stream.unread = await _read_head(stream, CONNECT_TIMEOUT_S)
        except BaseException:
            await stream.aclose()
            raise
        if status == 200:  # noqa: PLR2004 - the tunnel is open
            return stream
        await stream.aclose()
        if status == 502:  # noqa: PLR2004 - the daemon's word for a refused connection
            raise NothingListensError
        raise httpcore.ConnectError(f"the daemon answered {status} to CONNECT")

    async def answers(self, machine_id: str) -> bool:
        """Whether the daemon of a machine answers at all."""
        try:
            response = await self.ask_daemon(machine_id, "GET", b"/healthz", read_timeout_s=_PROBE_TIMEOUT_S)
        except (MachineDownError, AnswerLostError):
            return False
        await response.aclose()
        return response.status == 200  # noqa: PLR2004 - 401 would be another world's daemon


async def _send(
    pool: httpcore.AsyncConnectionPool,
    method: str,
    url: httpcore.URL,
    headers: list[tuple[bytes, bytes]],
    content: bytes | AsyncIterator[bytes] | None,
    read_timeout_s: float | None,
) -> httpcore.Response:
    # Commands and event streams may be silent for as long as they like; the caller hangs up when it has had enough.
    timeouts = {"connect": CONNECT_TIMEOUT_S, "read": read_timeout_s, "write": None, "pool": None}
    request = httpcore.Request(method, url, headers=headers, content=content, extensions={"timeout": timeouts})
    try:
        return await pool.handle_async_request(request)
    except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
        raise MachineDownError(f"{type(error).__name__}: {error}") from error
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise AnswerLostError(f"{type(error).__name__}: {error}") from error


async def _read_head(stream: httpcore.AsyncNetworkStream, timeout_s: float) -> tuple[int, bytes]:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = await stream.read(4096, timeout_s)
        if not piece or len(head) > _HEAD_LIMIT:
            raise httpcore.ConnectError("the daemon hung up instead of answering CONNECT")
        head += piece
    head, _, early = head.partition(b"\r\n\r\n")
    try:
        return int(head.split(b" ", 2)[1]), early
    except (IndexError, ValueError) as error:
        raise httpcore.ConnectError("the daemon did not answer CONNECT in HTTP") from error
