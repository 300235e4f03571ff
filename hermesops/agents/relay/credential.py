"""The certificate with which a service calls the relay: renewed in time, and kept in memory or in a file."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hermesops.errors import HermesError, RefusedError
from hermesops.wire.tls_key import present

_AGAIN_S = 60.0
"""Seconds from a renewal, also one that failed, to the next: the present certificate is valid for days."""

_BEGIN = "-----BEGIN "

log = structlog.get_logger()


@dataclass(frozen=True)
class CallerPem:
    """A caller's key, its certificate, and the authorities that it trusts, PEM."""

    key: str = field(repr=False)
    certificate: str
    authorities: str

    @classmethod
    def parse(cls, text: str, source: str) -> "CallerPem":
        """Read the three from a text that has them in this order.

        Args:
            source: The text's place, for the error.

        Raises:
            RefusedError: One is missing.
        """
        key, *certificates = [f"{_BEGIN}{block.strip()}\n" for block in text.split(_BEGIN)[1:]] or [""]
        if "PRIVATE KEY-----" not in key or len(certificates) < 2:  # noqa: PLR2004 - its own, and an authority's
            raise RefusedError(f"{source} does not hold a key, its certificate and an authority's, in this order")
        return cls(key, certificates[0], "".join(certificates[1:]))

    @property
    def text(self) -> str:
        """The three, as ``parse`` reads them."""
        return "".join(f"{part.strip()}\n" for part in (self.key, self.certificate, self.authorities))

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The certificate's first and last moment.

        Raises:
            RefusedError: It cannot be read.
        """
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate.encode())
        except ValueError as error:
            raise RefusedError("the certificate of this caller of the relay is damaged") from error
        return certificate.not_valid_before_utc, certificate.not_valid_after_utc

    def context(self) -> ssl.SSLContext:
        """TLS 1.3 that trusts these authorities alone, and authenticates by this certificate.

        Raises:
            RefusedError: Key and certificate do not belong together, or an authority cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(cadata=self.authorities)
            present(context, self.key.encode(), self.certificate.encode())
        except ssl.SSLError as error:
            raise RefusedError("key, certificate and authorities of this caller of the relay do not fit") from error
        return context


@dataclass(frozen=True)
class Signed:
    """A certificate that was signed for a caller's request, and the authorities to trust, PEM."""

    certificate: str
    authorities: str


async def fresh_pem(sign: Callable[[str], Awaitable[Signed]]) -> CallerPem:
    """Make a key for a caller, and have its certificate signed.

    Args:
        sign: Signs the certificate for a request in PEM; its errors are raised.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    signed = await sign(request.public_bytes(Encoding.PEM).decode())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return CallerPem(private, signed.certificate, signed.authorities)


@dataclass
class _Held:
    context: ssl.SSLContext
    renew_at: float


class CallerCredential:
    """The TLS of one caller of the relay.

    Args:
        sign: Signs the certificate for a request in PEM. Called where there is none, and once half of a certificate's
            life is over.
        clock: Seconds since 1970.
        load: Reads what an earlier process kept; ``None`` where none does.
        keep: Keeps what was made.
    """

    def __init__(
        self,
        sign: Callable[[str], Awaitable[Signed]],
        clock: Callable[[], float] = time.time,
        *,
        load: Callable[[], CallerPem] | None = None,
        keep: Callable[[CallerPem], None] | None = None,
    ) -> None:
        self._sign = sign
        self._clock = clock
        self._load = load
        self._keep = keep
        self._held: _Held | None = None
        self._making = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """The TLS context of the next request.

        Raises:
            HermesError: No certificate was ever had.
        """
        async with self._making:
            if self._held is None:
                self._held = _held(await asyncio.to_thread(self._load)) if self._load else await self._make()
            if self._clock() >= self._held.renew_at:
                await self._renew(self._held)
            return self._held.context

    async def _renew(self, held: _Held) -> None:
        try:
            self._held = held = await self._make()
        except HermesError as error:
            log.warning("caller_not_renewed", why=error.message)
        held.renew_at = max(held.renew_at, self._clock() + _AGAIN_S)

    async def _make(self) -> _Held:
        pem = await fresh_pem(self._sign)
        held = _held(pem)
        if self._keep:
            await asyncio.to_thread(self._keep, pem)
        return held


def _held(pem: CallerPem) -> _Held:
    begin, end = (moment.timestamp() for moment in pem.span)
    return _Held(pem.context(), begin + (end - begin) / 2)
