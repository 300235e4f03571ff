"""The certificate of a server whose clients have none: signed by the authority, renewed while the server runs."""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import timedelta

from hermesops.access.pki.authority import Authority
from hermesops.base.waiting import pause
from hermesops.wire.tls_key import present

_RENEWALS = 3
"""Certificates in the life of one, so that a failed renewal has time."""


class DoorCertificate:
    """A server's certificate.

    Args:
        hosts: Names or addresses at which clients find the server.
        life: For how long a certificate is valid.
    """

    def __init__(self, authority: Authority, hosts: Sequence[str], life: timedelta) -> None:
        self._authority = authority
        self._hosts = hosts
        self._life = life
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._renew()

    async def keep(self) -> None:
        """Renew the certificate for connections to come, until cancelled."""
        while True:
            await pause(self._life.total_seconds() / _RENEWALS)
            await asyncio.to_thread(self._renew)

    def _renew(self) -> None:
        served = self._authority.serve(self._hosts, life=self._life)
        present(self.context, served.key.encode(), served.pem.encode())
