"""Which language models an instance may use, and the token that lets it reach them.

The agent never holds a model provider's key. It holds a token of its own for the platform's router, and this module
says how such a token is made and checked, so that issuer and router agree without a database between them.
"""

import hashlib
import hmac
from dataclasses import dataclass

from hermesops.model.ids import InstanceId


@dataclass(frozen=True)
class ModelRoute:
    """A model a user may select.

    Attributes:
        name: What the agent asks the router for.
        title: What a user reads.
        context_tokens: Its context length; without it hermes-agent probes the internet for it on the first turn.
    """

    name: str
    title: str
    context_tokens: int


ROUTES = (
    ModelRoute("claude-haiku", "Claude Haiku", 200_000),
    ModelRoute("gpt-4o", "GPT-4o", 128_000),
    ModelRoute("gemini-flash", "Gemini Flash", 1_000_000),
)
"""Routes of the platform's router; the first is the default (seed, layer L1)."""

_PREFIX = "hm1"


def issue_token(secret: bytes, instance_id: InstanceId, generation: int) -> str:
    """A token that names its instance and can be checked with the secret alone.

    Args:
        secret: The key the router and the issuer share, at least 32 bytes.
        instance_id: Whose token it is.
        generation: Raised to revoke: the router refuses one below the instance's floor.
    """
    body = f"{_PREFIX}.{instance_id}.{generation}"
    return f"{body}.{_mac(secret, body)}"


def instance_of_token(secret: bytes, token: str) -> tuple[InstanceId, int] | None:
    """The instance and generation a token was issued for, or ``None`` when it is not genuine."""
    body, _, mac = token.rpartition(".")
    parts = body.split(".")
    if len(parts) != 3 or parts[0] != _PREFIX or not parts[2].isdigit():  # noqa: PLR2004 - prefix, instance, generation
        return None
    if not hmac.compare_digest(mac, _mac(secret, body)):
        return None
    return InstanceId(parts[1]), int(parts[2])


def _mac(secret: bytes, body: str) -> str:
    return hmac.new(secret, body.encode(), hashlib.sha256).hexdigest()[:40]
