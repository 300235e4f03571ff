"""Certificates for the relay that a caller is given beforehand: another where the one that it has does not count."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from hermesops.access.pki.callers import Callers
from hermesops.agents.relay.credential import Signed, fresh_pem
from hermesops.errors import RefusedError


@dataclass(frozen=True)
class CallerAdmission:
    """Admits one caller to the relay.

    Args:
        name: Of the caller.
        callers: Admits it, and knows its certificates.
        authorities: That certificates of the relay may be signed by, PEM.
    """

    name: str
    callers: Callable[[], Callers]
    authorities: Callable[[], str]

    async def credential(self, held: Sequence[str], *, why: str) -> str:
        """A new certificate, with its key before it and the authorities behind it, PEM; empty while one counts.

        Args:
            held: Certificates that the caller has, each with the authorities that it trusts, PEM; the newest is judged.
            why: For the audit.

        Raises:
            UnavailableError: The registry does not answer.
        """

        async def sign(request: str) -> Signed:
            admitted = await asyncio.to_thread(lambda: self.callers().admit(self.name, request, why=why))
            return Signed(admitted.certificate, admitted.authorities)

        return "" if await asyncio.to_thread(self._counts, held) else (await fresh_pem(sign)).text

    def _counts(self, held: Sequence[str]) -> bool:
        """Whether the newest certificate counts, and trusts whom the platform's services trust."""
        try:
            chains = [x509.load_pem_x509_certificates(text.encode()) for text in held if text]
            trusted = x509.load_pem_x509_certificates(self.authorities().encode())
            own, *others = max(chains, key=lambda chain: chain[0].not_valid_before_utc)
            caller = self.callers().caller_of(own.public_bytes(Encoding.DER))
        except (ValueError, RefusedError):
            return False
        return caller.name == self.name and set(others) == set(trusted)
