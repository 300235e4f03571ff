"""What the platform's service proves itself with: signed by the authority, and made anew every few minutes."""

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from hermesops.errors import UnavailableError
from hermesops.pki.authority import Authority
from hermesops.pki.server import context_of
from hermesops.registry import Registry

_FRESH_S = 300.0
"""Seconds after which the authorities that are trusted are looked at again, and the certificate is made anew."""

log = structlog.get_logger()


class OwnCertificate:
    """The side of the service in every connection.

    Args:
        authority: Signs.
        roots: Authorities whose machines are let in.
        hosts: Names or addresses under which machines find the service.
        life: Of a certificate.
        clock: Seconds on a clock that only goes on.
    """

    def __init__(
        self,
        authority: Authority,
        roots: Registry,
        hosts: Sequence[str],
        life: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._roots = roots
        self._hosts = hosts
        self._life = life
        self._clock = clock
        self._made: tuple[float, ssl.SSLContext] | None = None
        self._making = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """For the next connection.

        Raises:
            UnavailableError: The registry does not answer, and there is none from before.
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
        return context_of(served.pem, served.key, "".join(self._roots.certificates.list_authorities()))
