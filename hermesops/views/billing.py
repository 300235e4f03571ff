"""Shapes of Stripe's events."""

from typing import TYPE_CHECKING

from hermesops.views.shapes import timestamp

if TYPE_CHECKING:
    from hermesops.model.billing import BillingEvent


def event(one: "BillingEvent") -> dict[str, object]:
    """An event, without what was received."""
    fact = one.fact
    return {
        "event": one.id,
        "event_id": one.event_id or None,
        "type": one.type or None,
        "state": one.state.value,
        "detail": one.detail or None,
        "subscription": fact.subscription_id if fact else None,
        "user_id": fact.user_id if fact else None,
        "status": (fact.status or None) if fact else None,
        "pause": (fact.pause or None) if fact else None,
        "prices": list(fact.prices) if fact else [],
        "created": timestamp(fact.created_at) if fact else None,
        "received": timestamp(one.received_at),
        "deliveries": one.deliveries,
        "operation": one.operation_id,
        "due": timestamp(one.due_at),
        "decided": timestamp(one.decided_at),
        "has_body": one.has_body,
    }
