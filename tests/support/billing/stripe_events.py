"""Bodies and signatures as Stripe sends them, made with its own library and a secret of the test's."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import stripe

USER = "11111111-1111-4111-8111-111111111111"


def fresh_secret() -> str:
    """The signing secret of an endpoint."""
    return f"whsec_{secrets.token_urlsafe(24)}"


@dataclass(frozen=True)
class Endpoint:
    """Signs as Stripe does for a webhook endpoint.

    Attributes:
        livemode: Of its events.
    """

    secret: str = field(default_factory=fresh_secret)
    livemode: bool = False

    def signature(self, body: bytes, *, at: datetime | None = None) -> str:
        """The header of a body."""
        seconds = int((at or datetime.now(UTC)).timestamp())
        header: str = stripe.WebhookSignature.generate_signature_header(body.decode(), self.secret, seconds)
        return header

    def signed(self, event: Mapping[str, Any], *, at: datetime | None = None) -> tuple[bytes, str]:
        """Body and header of an event."""
        body = json.dumps({"livemode": self.livemode, **event}).encode()
        return body, self.signature(body, at=at)


def event(kind: str, content: Mapping[str, Any], *, at: datetime, event_id: str = "") -> dict[str, Any]:
    """An event without its mode."""
    return {
        "id": event_id or f"evt_{secrets.token_hex(8)}",
        "object": "event",
        "api_version": "2025-06-30.basil",
        "created": int(at.timestamp()),
        "type": kind,
        "data": {"object": dict(content)},
    }


def subscription(
    id_: str,
    *,
    price: str = "price_light",
    status: str = "active",
    user: str = USER,
    started_at: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    product: str = "prod_agents",
    pause: str = "",
) -> dict[str, Any]:
    """A subscription as its events have it."""
    return {
        "pause_collection": {"behavior": pause, "resumes_at": None} if pause else None,
        "object": "subscription",
        "id": id_,
        "status": status,
        "created": int(started_at.timestamp()),
        "customer": "cus_1",
        "items": {"object": "list", "data": [{"id": "si_1", "price": {"id": price, "product": product}}]},
        "metadata": {"user_id": user},
    }


def invoice(
    subscription_id: str, *, product: str = "prod_agents", email: str = "somebody@example.com"
) -> dict[str, Any]:
    """An invoice as its events have it since 2025-03-31."""
    return {
        "object": "invoice",
        "id": "in_1",
        "customer_email": email,
        "parent": {"type": "subscription_details", "subscription_details": {"subscription": subscription_id}},
        "lines": {"data": [{"pricing": {"price_details": {"price": "price_light", "product": product}}}]},
    }
