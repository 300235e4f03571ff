"""Takes Stripe's events at the door: verified, then one row, which a worker reads later. Nothing is parsed here.

A worker verifies each event again; what is refused here costs no row.

Source: Stripe's documents, "Verify webhook signatures manually".
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from hermesops.errors import RefusedError
from hermesops.model.billing.events import MOST_BYTES, MOST_SIGNATURE

_MOST_PARTS = 16


class UnsignedEventError(RefusedError):
    """The request is not Stripe's, or too old."""


@dataclass(frozen=True)
class StripeDoor:
    """Takes events of one endpoint of Stripe's.

    Attributes:
        secrets: Signing secrets of the endpoint, read for each event: two while one is rolled.
        receive: Writes body and signature into a row.
        tolerance_s: Seconds that a signature may be off, both ways.
    """

    secrets: Callable[[], Sequence[str]]
    receive: Callable[[bytes, str], int]
    tolerance_s: float

    def take(self, body: bytes, signature: str, now: float) -> None:
        """Verify an event and keep it.

        Args:
            signature: The header ``Stripe-Signature``.
            now: Seconds since 1970.

        Raises:
            UnsignedEventError: See there.
            UnavailableError: The row could not be written: Stripe sends the event again.
        """
        if len(body) > MOST_BYTES or len(signature) > MOST_SIGNATURE:
            raise UnsignedEventError("the event is larger than any of Stripe's")
        if not is_signed(body, signature, self.secrets(), now=now, tolerance_s=self.tolerance_s):
            raise UnsignedEventError("the event has no valid signature of now")
        self.receive(body, signature)


def is_signed(body: bytes, signature: str, secrets: Sequence[str], *, now: float, tolerance_s: float) -> bool:
    """Whether one of the secrets signed a body at about this time. Pure."""
    parts = [part.partition("=")[::2] for part in signature.split(",")[:_MOST_PARTS]]
    at = next((value for name, value in parts if name == "t"), "")
    if not (at.isascii() and at.isdigit() and len(at) < len("1" * 12)) or abs(now - int(at)) > tolerance_s:
        return False
    given = [value.encode() for name, value in parts if name == "v1"]
    signed = f"{at}.".encode() + body
    wanted = [hmac.new(secret.encode(), signed, sha256).hexdigest().encode() for secret in secrets]
    return any(hmac.compare_digest(mine, theirs) for mine in wanted for theirs in given)
