"""Composes the relay, and what admits the platform's services to it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from hermesops.app.container import Container
    from hermesops.pki.callers import Callers
    from hermesops.pki.server import Bounds

_AT_ONCE, _PER_HOST = 400, 300
_WHOLE_S = 3700.0
"""Seconds of a connection: the longest turn, and what comes before and after it."""


def callers_of(app: "Container") -> "Callers":
    """Services that may call the relay."""
    from hermesops.app.services.machine_certificates import authority_of, life_of
    from hermesops.pki.callers import Callers

    return Callers(app.registry, lambda: authority_of(app), environment=app.env.name, life=life_of(app))


async def serve(app: "Container", listener: "socket.socket", hosts: Sequence[str], *, grace_s: float) -> None:
    """Carry requests of the platform's services to agents until cancelled; no key of the vendor's is used for it.

    Args:
        app: The environment.
        listener: Listens, and does not block.
        hosts: Names or addresses under which services find it.
        grace_s: Seconds that requests under way have to end by themselves once it is cancelled.
    """
    from hermesops.app.container_parts.endpoint import api_url_of
    from hermesops.app.services.machine_certificates import own_certificate
    from hermesops.justavps.proxy import ProxyClient
    from hermesops.pki.server import MutualTlsListener
    from hermesops.relay.service import Relay

    own = await own_certificate(app, hosts)
    async with ProxyClient(api_url_of(app.env), domain=app.env.settings.proxy_domain, alone=True) as proxy:
        callers = callers_of(app)
        relay = Relay(app.registry, callers.caller_of, lambda *held: callers.renew(*held).to_json(), proxy)
        server = MutualTlsListener(
            lambda one: relay.converse(one.certificate, one.reader, one.writer), own.context, bounds_of(grace_s)
        )
        await server.serve(listener)


def bounds_of(grace_s: float) -> "Bounds":
    """What connections to the relay may cost."""
    from hermesops.pki.server import Bounds

    return Bounds(at_once=_AT_ONCE, per_host=_PER_HOST, time_s=_WHOLE_S, stop_s=grace_s)
