"""The relay, and the admission of the platform's services."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.access.pki.callers import Callers
from hermesops.agents.instances.credentials.certificates import CertificateAuthority
from hermesops.agents.relay.service import Relay
from hermesops.serving.listener import Bounds, MutualTlsListener
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.proxy import ProxyClient

_AT_ONCE, _PER_HOST = 400, 300
_WHOLE_S = 3700.0
"""Seconds of a connection: the longest turn, and some more."""


@dataclass(frozen=True)
class RelayService:
    """The relay of one environment.

    Attributes:
        authority: Signs certificates of services and of the relay itself.
    """

    registry: Registry
    authority: CertificateAuthority
    callers: Callers
    api_url: str
    proxy_domain: str

    async def serve(self, listener: socket.socket, hosts: Sequence[str], *, grace_s: float) -> None:
        """Carry requests of the platform's services to agents until cancelled.

        Args:
            hosts: Names or addresses under which services find it.
            grace_s: Seconds that requests under way have to end by themselves once it is cancelled.
        """
        own = await self.authority.service_certificate(hosts)
        async with ProxyClient(self.api_url, domain=self.proxy_domain, alone=True) as proxy:
            callers = self.callers
            relay = Relay(
                self.registry,
                callers.caller_of,
                lambda caller, request: callers.renew(caller, request).to_json(),
                proxy,
            )
            server = MutualTlsListener(
                lambda connection: relay.converse(connection.certificate, connection.reader, connection.writer),
                own.context,
                bounds_of(grace_s),
            )
            await server.serve(listener)


def bounds_of(grace_s: float) -> Bounds:
    """Bound the number and the time of connections to the relay.

    Args:
        grace_s: Seconds that running requests have after a stop.
    """
    return Bounds(at_once=_AT_ONCE, per_host=_PER_HOST, time_s=_WHOLE_S, stop_s=grace_s)
