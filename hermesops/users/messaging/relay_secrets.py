"""Secrets by which gateways of agents open their sockets: derived, so that no table holds them. Pure.

Source: RFC 5869 (HKDF); hermes-agent 0.19.0, ``gateway/relay/auth.py``: the bearer is
``base64url(ID:EXPIRES:HEX(HMAC-SHA256(secret, "ID:EXPIRES")))`` without padding.
"""

import hmac
import re
from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hermesops.model.ids import InstanceId

_BYTES = 32
_BEARER = re.compile(r"(?P<instance>[0-9a-f-]{36}):(?P<expires>[0-9]{1,12}):(?P<signature>[0-9a-f]{64})")
_LONGEST = 512
_MOST_LIFE_S = 900
"""Seconds from now at which a bearer may end; gateways make them for 300."""


def derive(root: bytes, instance_id: InstanceId, generation: int) -> str:
    """The secret of an agent's gateway.

    Args:
        root: At least 32 random bytes.
        generation: Grows when a secret is no longer to be valid.
    """
    info = f"socket of agent {instance_id}, generation {generation}".encode()
    return HKDF(algorithm=hashes.SHA256(), length=_BYTES, salt=None, info=info).derive(root).hex()


def sign(secret: str, instance_id: InstanceId, expires_at: int) -> str:
    """The signature of a bearer that ends at a time in seconds since 1970."""
    return hmac.new(secret.encode(), f"{instance_id}:{expires_at}".encode(), sha256).hexdigest()


@dataclass(frozen=True)
class Bearer:
    """What a bearer claims, not yet verified."""

    instance_id: InstanceId
    expires_at: int
    signature: str

    def is_signed(self, secrets: Sequence[str], now: float) -> bool:
        """Whether one of these secrets signed it, and it is valid at this time, in seconds since 1970."""
        if not now < self.expires_at <= now + _MOST_LIFE_S:
            return False
        wanted = [sign(secret, self.instance_id, self.expires_at) for secret in secrets]
        return any(hmac.compare_digest(self.signature.encode(), each.encode()) for each in wanted)


def parse_bearer(header: str) -> Bearer | None:
    """Parse the header ``Authorization`` of a gateway; ``None`` for any other."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST:
        return None
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
    except (Error, ValueError):
        return None
    if match := _BEARER.fullmatch(text):
        return Bearer(InstanceId(match["instance"]), int(match["expires"]), match["signature"])
    return None
