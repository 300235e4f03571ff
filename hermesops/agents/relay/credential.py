"""The certificate with which a service calls the relay: its key never leaves the process, and it is renewed in time."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hermesops.access.pki.callers import Admitted
from hermesops.errors import HermesError
from hermesops.wire.tls_key import present

_AGAIN_S = 60.0
"""Seconds until a renewal that failed is tried again; the present certificate is valid for days."""

log = structlog.get_logger()


@dataclass
class _Held:
    context: ssl.SSLContext
    renew_at: float


class CallerCredential:
    """The TLS of one caller of the relay.

    Args:
        admit: Signs the certificate for a request in PEM. Called in a thread, at first and once half of a certificate's
            life is over.
        clock: Seconds since 1970.
    """

    def __init__(self, admit: Callable[[str], Admitted], clock: Callable[[], float] = time.time) -> None:
        self._admit = admit
        self._clock = clock
        self._held: _Held | None = None
        self._making = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """The TLS context of the next request.

        Raises:
            HermesError: No certificate was ever had.
        """
        async with self._making:
            if self._held is None:
                self._held = await asyncio.to_thread(self._make)
            elif self._clock() >= self._held.renew_at:
                await self._renew(self._held)
            return self._held.context

    async def _renew(self, held: _Held) -> None:
        try:
            self._held = await asyncio.to_thread(self._make)
        except HermesError as error:
            log.warning("caller_not_renewed", why=error.message)
            held.renew_at = self._clock() + _AGAIN_S

    def _make(self) -> _Held:
        key = ec.generate_private_key(ec.SECP256R1())
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        admitted = self._admit(request.public_bytes(Encoding.PEM).decode())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=admitted.authorities)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        present(context, pem, admitted.certificate.encode())
        life_s = (admitted.not_after - datetime.fromtimestamp(self._clock(), UTC)).total_seconds()
        return _Held(context, self._clock() + life_s / 2)
