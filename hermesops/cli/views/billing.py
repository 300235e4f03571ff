"""What is shown of Stripe's events."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.cli.views.shapes import timestamp

if TYPE_CHECKING:
    from hermesops.model.billing import BillingEvent

_SHOWN = (
    "event_id",
    "type",
    "state",
    "detail",
    "subscription",
    "user_id",
    "status",
    "pause",
    "prices",
    "created",
    "due",
)
_COLUMNS = ("event", "type", "created", "state", "detail")


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


def lines(one: "BillingEvent", others: Sequence["BillingEvent"]) -> list[str]:
    """An event for people, with the others of its user."""
    shown = event(one)
    told = [f"{name.replace('_', ' '):14}{_text(shown[name])}" for name in _SHOWN if shown[name]]
    rows = [event(other) for other in others]
    return [f"event {one.id}", *told, *(["", *table_lines(_COLUMNS, rows, "")] if rows else [])]


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
