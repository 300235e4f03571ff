"""The certificate of a server whose clients have none: signed by the authority, renewed while the server runs."""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import timedelta

from hermesops.access.pki.authority import Authority, OwnedCertificate
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
        self._present(self._serve())

    async def keep(self) -> None:
        """Renew the certificate for connections to come, until cancelled."""
        while True:
            await pause(self._life.total_seconds() / _RENEWALS)
            self._present(await asyncio.to_thread(self._serve))

    def _serve(self) -> OwnedCertificate:
        return self._authority.serve(self._hosts, life=self._life)

    def _present(self, served: OwnedCertificate) -> None:
        # On the loop's thread: a handshake meanwhile would get the new certificate with the older one's key.
        present(self.context, served.key.encode(), served.pem.encode())
