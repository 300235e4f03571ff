"""Lines and tables of Stripe's events, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.views.users.billing import event

if TYPE_CHECKING:
    from hermesops.model.billing.events import BillingEvent

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


def lines(billing_event: "BillingEvent", others: Sequence["BillingEvent"]) -> list[str]:
    """An event for people, with the others of its user."""
    shown = event(billing_event)
    fields = [f"{name.replace('_', ' '):14}{_text(shown[name])}" for name in _SHOWN if shown[name]]
    rows = [event(other) for other in others]
    return [f"event {billing_event.id}", *fields, *(["", *table_lines(_COLUMNS, rows, "")] if rows else [])]


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
