"""Routes of the model router, and the tokens with which agents use it.

The agent never holds a model provider's key. It holds a token of its own for the platform's router, and this module
says how such a token is made and checked. A router needs the key, a clock, and the oldest generation that still counts
of each instance (its floor), which it reads from the registry.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import ceil

from hermesops.model.ids import InstanceId


@dataclass(frozen=True)
class ModelRoute:
    """A model a user may select.

    Attributes:
        name: What the agent asks the router for.
        title: What a user reads.
        context_tokens: Its context length; without it hermes-agent probes the internet for it on the first turn.
        provider: Who answers, as LiteLLM names it.
        provider_model: The model's name there.
        input_price: US dollars for a million tokens that are read, which is millionths of a dollar for one.
        output_price: The same for those that are written.
        cache_write_price: The same for those that are read and that the provider also keeps, for five minutes.
        cache_hour_price: The same for an hour.
    """

    name: str
    title: str
    context_tokens: int
    provider: str
    provider_model: str
    input_price: float
    output_price: float
    cache_write_price: float = 0.0
    cache_hour_price: float = 0.0

    def micros(self, input_tokens: int, output_tokens: int, *, cached: int = 0, cached_hour: int = 0) -> int:
        """Price of tokens in millionths of a US dollar, rounded up.

        Args:
            input_tokens: Tokens that are read, those below included.
            cached: Of them those that the provider began to keep for five minutes.
            cached_hour: Of them those that it began to keep for an hour.
        """
        usual = max(0, input_tokens - cached - cached_hour)
        read = usual * self.input_price + cached * max(self.input_price, self.cache_write_price)
        read += cached_hour * max(self.input_price, self.cache_hour_price)
        return ceil(read + output_tokens * self.output_price)


ROUTES = (
    ModelRoute("claude-haiku", "Claude Haiku", 200_000, "anthropic", "claude-haiku-4-5", 1.00, 5.00, 1.25, 2.00),
    ModelRoute("gpt-4o", "GPT-4o", 128_000, "openai", "gpt-4o", 2.50, 10.00),
    ModelRoute("gemini-flash", "Gemini Flash", 1_000_000, "gemini", "gemini-2.5-flash", 0.30, 2.50),
)
"""Routes of the platform's router; the first is the default (seed, layer L1): Claude 3.5 Haiku, GPT-4o, Gemini 1.5
Flash, of which two have gone; their successors answer. The order is also that in which one stands in for another.
Models and prices: LiteLLM's list, ``model_prices_and_context_window_backup.json`` of 1.108.7."""

TOKEN = re.compile(r"hm2\.([0-9A-Za-z-]{1,64})\.([0-9]{1,10})\.([0-9]{1,11})\.([0-9a-f]{40})", re.ASCII)
"""A token as text: instance, generation, expiry in unix seconds, and the signature over all three."""

_LONGEST = 200
"""Most characters of a token; longer ones are not parsed."""


@dataclass(frozen=True)
class ModelToken:
    """The content of a genuine token.

    Attributes:
        generation: Raised to revoke: tokens of an earlier one than the instance's floor are refused.
        expires_at: Unix seconds from which on it is refused.
    """

    instance_id: InstanceId
    generation: int
    expires_at: int


@dataclass(frozen=True)
class PresentToken:
    """An instance's present token in the registry; the token itself is computed, never stored.

    Attributes:
        generation: The oldest valid one, and that of the present token.
        expires_at: ``None`` while none was made since the last revocation.
        handed_at: When the instance's machine got it; ``None`` while it has another or none.
    """

    generation: int
    expires_at: datetime | None
    handed_at: datetime | None


@dataclass(frozen=True)
class TokenRotation:
    """Progress of an instance's token replacement.

    Attributes:
        rotation: The rollout of tokens that its present generation belongs to; empty for none.
        is_old_valid: Whether tokens of the generation before count still.
        is_handed: Whether its machine has the present one.
    """

    rotation: str
    is_old_valid: bool
    is_handed: bool


class Refusal(StrEnum):
    """Why a router refuses a genuine token."""

    EXPIRED = "expired"
    REVOKED = "revoked"
    UNKNOWN_INSTANCE = "unknown instance"


def issue_token(secret: bytes, instance_id: InstanceId, generation: int, expires_at: int) -> str:
    """A token for an instance.

    ``secret`` is the key that router and issuer share, at least 32 bytes; ``expires_at`` is in Unix seconds.
    """
    body = f"hm2.{instance_id}.{generation}.{expires_at}"
    return f"{body}.{_mac(secret, body)}"


def read_token(secret: bytes, text: str) -> ModelToken | None:
    """A token's content, expired or not; ``None`` when it is not genuine. Safe for any input."""
    match = TOKEN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    instance_id, generation, expires_at, mac = match.groups()
    if not hmac.compare_digest(mac, _mac(secret, text[: -len(mac) - 1])):
        return None
    return ModelToken(InstanceId(instance_id), int(generation), int(expires_at))


def refusal_of(token: ModelToken, *, floor: int | None, now: float) -> Refusal | None:
    """Why a router has to refuse a genuine token; ``None`` when it is good.

    ``floor`` is the oldest valid generation of its instance, ``None`` when there is no such instance; ``now`` in Unix
    seconds.
    """
    if now >= token.expires_at:
        return Refusal.EXPIRED
    if floor is None:
        return Refusal.UNKNOWN_INSTANCE
    return Refusal.REVOKED if token.generation < floor else None


def _mac(secret: bytes, body: str) -> str:
    return hmac.new(secret, body.encode(), hashlib.sha256).hexdigest()[:40]
