"""Hosts on the internet that strangers name: judged by name and by address, and asked at the judged address.

A name may stand for an address of our own networks, or for another one by the next look. Source: RFC 6890.
"""

import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx

from hermesops.base import blocking
from hermesops.base.network.http import own_client
from hermesops.base.network.variables import NetworkVariables
from hermesops.errors import UnavailableError

PORT = 443

_RESOLVED_S = 5.0
"""Seconds for a host's addresses. The resolver itself waits for silent name servers for some 20 s."""

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})+")
"""Source: RFC 1123, section 2.1. A name without a dot is of a network of its own."""

_NAT64 = IPv6Network("64:ff9b::/96")


class NotPublicError(Exception):
    """A host has no address, or one that is none of the internet."""


@dataclass(frozen=True)
class PublicNetwork:
    """How hosts of strangers are reached.

    Attributes:
        resolve: Gives the addresses of a host.
        is_allowed: Whether an address may be reached.
        port: Of every host.
        verify: Makes the TLS context.
    """

    resolve: Callable[[str], Awaitable[Sequence[str]]]
    is_allowed: Callable[[str], bool]
    port: int
    verify: Callable[[], ssl.SSLContext]

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        host: str,
        path: str,
        *,
        headers: Mapping[str, str],
        within_s: float,
        content: bytes | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request to a host, and yield the answer before its body is read; redirects are not followed.

        It connects to the address that was judged, whatever the name stands for by now, and verifies the name by TLS.

        Args:
            path: With its query.
            within_s: Seconds for each part of the exchange; the caller bounds the whole.

        Raises:
            NotPublicError: One of the host's addresses may not be reached.
            OSError: It has none.
            httpx.HTTPError: It does not answer.
        """
        addresses = await self.resolve(host)
        if not addresses or not all(map(self.is_allowed, addresses)):
            raise NotPublicError("the host has an address that is none of the internet")
        netloc = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
        url = httpx.URL(f"https://{netloc}:{self.port}{path}")
        sent = {**headers, "host": host}
        async with (
            own_client(verify=self.verify(), timeout=within_s, follow_redirects=False) as client,
            client.stream(method, url, content=content, headers=sent, extensions={"sni_hostname": host}) as response,
        ):
            yield response


def internet() -> PublicNetwork:
    """The internet, by the resolver and the authorities of this computer."""
    return PublicNetwork(addresses_of, is_of_internet, PORT, NetworkVariables.of_process().tls_context)


async def addresses_of(host: str) -> Sequence[str]:
    """The addresses of a host, by the resolver of this computer.

    The resolver is asked in a thread of its own: a stranger's name server may never answer, and the event loop's
    threads are those of the database. A host that hangs gets some such threads and no more.

    Raises:
        OSError: It has none, or the resolver does not answer.
    """
    name = sha256(host.encode()).hexdigest()[:8]  # a thread's name is shown, and hosts are users'

    try:
        answers = await blocking.call(
            lambda: socket.getaddrinfo(host, PORT, type=socket.SOCK_STREAM),
            whom=f"the resolver of {name}",
            within_s=_RESOLVED_S,
        )
    except UnavailableError as error:
        raise OSError(error.message) from error
    return [str(address[0]) for *_, address in answers]


def is_of_internet(address: str) -> bool:
    """Whether an address is one of the internet, of no private, shared or special network. Pure."""
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        parsed = _embedded(parsed) or parsed
    return parsed.is_global and not parsed.is_multicast


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 that an address of IPv6 leads to. Source: RFC 4291, 3056, 4380 and 6052."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def is_host(text: str) -> bool:
    """Whether a text is the name of a host on the internet, in lower case and without a port. Pure."""
    if not _HOST.fullmatch(text):
        return False
    try:
        ip_address(text)
    except ValueError:
        return not text.rpartition(".")[2].isdigit()
    return False
