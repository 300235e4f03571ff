"""JSON objects of Stripe's events, for every face."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.model.billing.events import BillingEvent


def event(row: "BillingEvent") -> dict[str, object]:
    """An event without its received body."""
    fact = row.fact
    return {
        "event": row.id,
        "event_id": row.event_id or None,
        "type": row.type or None,
        "state": row.state.value,
        "detail": row.detail or None,
        "subscription": fact.subscription_id if fact else None,
        "user_id": fact.user_id if fact else None,
        "status": (fact.status or None) if fact else None,
        "pause": (fact.pause or None) if fact else None,
        "prices": list(fact.prices) if fact else [],
        "created": timestamp(fact.created_at) if fact else None,
        "received": timestamp(row.received_at),
        "deliveries": row.deliveries,
        "operation": row.operation_id,
        "due": timestamp(row.due_at),
        "decided": timestamp(row.decided_at),
        "has_body": row.has_body,
    }
