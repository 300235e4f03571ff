"""Accepts connections, by TLS only of clients whose certificate an authority of ours signed; every cost is bounded.

It must not know what is asked; who converses gets the client's certificate.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network

import structlog

from hermesops.base.waiting import cancel, pause
from hermesops.wire.tls_key import present

_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""``X509_V_FLAG_NO_CHECK_TIME`` of OpenSSL's ``x509_vfy.h``: rows and the registry's clock say what has run out, so
that an expired machine gets an answer that says so, and a clock that is minutes off does no harm."""

_IPV6_CUSTOMER = 64
_RELIEF_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Bounds:
    """Limits on the costs of unknown clients.

    Attributes:
        at_once: Connections; further ones are dropped.
        per_host: Connections of one IPv4 address or IPv6 /64 network, so that no host alone fills the server.
        handshake_s: Seconds for the TLS handshake.
        time_s: Seconds for a whole connection.
        body_bytes: Of a request.
        stop_s: Seconds that open connections have to end once the server is told to stop.
    """

    at_once: int = 256
    per_host: int = 16
    handshake_s: float = 2.0
    time_s: float = 10.0
    body_bytes: int = 16 * 1024
    stop_s: float = 0.0


def context_of(certificate: str, key: str, roots: str) -> ssl.SSLContext:
    """The TLS context of a listener that demands certificates of its clients.

    All are PEM; ``roots`` are the authorities whose certificates are accepted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= _NO_CHECK_TIME
    context.load_verify_locations(cadata=roots)
    present(context, key.encode(), certificate.encode())
    return context


@dataclass(frozen=True)
class Connection:
    """One connection.

    Attributes:
        certificate: Of the client, DER, signed by an authority of ours; empty without TLS.
    """

    certificate: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Listener:
    """Accepts connections of a listening socket; with TLS, only of clients with a valid certificate.

    Args:
        converse: Called for each; what it raises ends that connection alone. The connection is closed after it.
        context: The TLS context of the next connection; ``None`` for no TLS, which is for loopback alone.
    """

    def __init__(
        self,
        converse: Callable[[Connection], Awaitable[None]],
        context: Callable[[], Awaitable[ssl.SSLContext]] | None,
        bounds: Bounds,
    ) -> None:
        self._converse = converse
        self._context = context
        self._bounds = bounds
        self._open: dict[asyncio.Task[None], str] = {}

    async def serve(self, listener: socket.socket) -> None:
        """Serve until cancelled; open connections then have ``stop_s`` to end. Closes the listener.

        The listener must not block.
        """
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, peer = await loop.sock_accept(listener)
                except OSError as error:  # out of descriptors, for a moment
                    log.warning("connection_not_taken", why=str(error))
                    await pause(_RELIEF_S)
                    continue
                host = host_of(peer[0])
                if full := self._full(host):
                    log.warning("connection_dropped", peer=peer[0], why=full)
                    connection.close()
                    continue
                task = loop.create_task(self._serve(connection, peer[0]))
                self._open[task] = host
                task.add_done_callback(lambda ended: self._open.pop(ended, None))
        finally:
            listener.close()
            await self._end()

    async def _end(self) -> None:
        try:
            if self._open and self._bounds.stop_s:
                await asyncio.wait(tuple(self._open), timeout=self._bounds.stop_s)
        finally:  # also when told to stop a second time
            await cancel(*self._open)

    def _full(self, host: str) -> str:
        """Why a connection of this host is dropped; empty when it is accepted."""
        if len(self._open) >= self._bounds.at_once:
            return f"{self._bounds.at_once} are open"
        theirs = sum(1 for other in self._open.values() if other == host)
        return f"{theirs} of {host} are open" if theirs >= self._bounds.per_host else ""

    async def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            async with asyncio.timeout(self._bounds.time_s):
                await self._take(connection)
        except TimeoutError:
            log.warning("connection_dropped", peer=peer, why=f"it took {self._bounds.time_s:g} s")
        except ssl.SSLError as error:
            log.warning("handshake_refused", peer=peer, why=error.reason or "no reason given")
        except OSError as error:
            log.info("connection_lost", peer=peer, why=str(error))
        except Exception:  # a bug costs one connection, not the server
            log.exception("question_failed", peer=peer)

    async def _take(self, connection: socket.socket) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        try:
            context = await self._context() if self._context else None
            transport, protocol = await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader),
                connection,
                ssl=context,
                ssl_handshake_timeout=self._bounds.handshake_s if context else None,
            )
        except BaseException:
            connection.close()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            secured = writer.get_extra_info("ssl_object")
            certificate = secured.getpeercert(binary_form=True) if secured else b""
            await self._converse(Connection(certificate, reader, writer))
        except BaseException:  # a partial answer must not look complete
            transport.abort()
            raise
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class MutualTlsListener(Listener):
    """A listener that accepts no client without a certificate that an authority of ours signed."""

    def __init__(
        self,
        converse: Callable[[Connection], Awaitable[None]],
        context: Callable[[], Awaitable[ssl.SSLContext]],
        bounds: Bounds,
    ) -> None:
        super().__init__(converse, context, bounds)


def host_of(address: str) -> str:
    """The part of an address that stands for one host: an IPv4 address, or the /64 of an IPv6 address."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((ip, _IPV6_CUSTOMER), strict=False))
