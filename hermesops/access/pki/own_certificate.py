"""The certificate of a service of the platform, signed by the authority and renewed every few minutes."""

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from hermesops.access.pki.authority import Authority
from hermesops.errors import UnavailableError
from hermesops.serving.listener import context_of
from hermesops.store.registry import Registry

log = structlog.get_logger()

_FRESH_S = 300.0
"""Seconds after which the trusted authorities are read again, and the certificate is renewed."""


class OwnCertificate:
    """The platform service's own certificate, signed by the authority and renewed every few minutes.

    Args:
        registry: Has the authorities whose certificates are accepted.
        hosts: Names or addresses at which machines reach the service.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        authority: Authority,
        registry: Registry,
        hosts: Sequence[str],
        life: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._registry = registry
        self._hosts = hosts
        self._life = life
        self._clock = clock
        self._made: tuple[float, ssl.SSLContext] | None = None
        self._making = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """The TLS context of the next connection.

        Raises:
            UnavailableError: The registry does not answer, and there is no earlier one.
        """
        async with self._making:
            now = self._clock()
            if self._made is None or now - self._made[0] >= _FRESH_S:
                try:
                    self._made = (now, await asyncio.to_thread(self._make))
                except UnavailableError as away:
                    if self._made is None:
                        raise
                    log.warning("authorities_not_read", why=away.message)
                    self._made = (now, self._made[1])
            return self._made[1]

    def _make(self) -> ssl.SSLContext:
        served = self._authority.serve(self._hosts, life=self._life)
        return context_of(served.pem, served.key, "".join(self._registry.certificates.list_authorities()))
