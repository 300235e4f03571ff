"""Columns of ``billing_events``, as events have them."""

from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.events import BillingEvent, BillingFact, BillingState
from hermesops.model.ids import OperationId, UserId
from hermesops.store.registry.schema.tables import billing_events

_COLUMNS = billing_events.c

_READ = tuple(column for column in _COLUMNS if column.name not in {"body", "signature"})
EVENTS = sa.select(*_READ, _COLUMNS.body.is_not(None).label("has_body"))
"""Selects events without their received bodies."""


def read_values(event_id: str, kind: str, fact: BillingFact | None) -> dict[str, Any]:
    """Columns of an event that was parsed; ``fact`` is ``None`` of one that says nothing of a subscription."""
    values_of_fact = {} if fact is None else vars(fact)
    names = ("subscription_id", "user_id", "status", "created_at", "started_at", "pause")
    values: dict[str, Any] = {
        "event_id": event_id or None,
        "type": kind or None,
        **{name: values_of_fact.get(name) for name in names},
    }
    values["prices"] = list(fact.prices) if fact else None
    return values


def event_of(row: sa.Row[Any]) -> BillingEvent:
    """The event of a row of ``EVENTS``."""
    fact = None
    if row.created_at is not None and row.subscription_id:
        fact = BillingFact(
            row.event_id,
            row.type,
            row.subscription_id,
            row.created_at,
            UserId(row.user_id) if row.user_id else None,
            tuple(row.prices or ()),
            row.status or "",
            row.started_at,
            row.pause or "",
        )
    return BillingEvent(
        id=row.id,
        received_at=row.received_at,
        state=BillingState(row.state),
        event_id=row.event_id or "",
        type=row.type or "",
        fact=fact,
        deliveries=row.deliveries,
        detail=row.detail,
        operation_id=OperationId(row.operation_id) if row.operation_id else None,
        due_at=row.due_at,
        decided_at=row.decided_at,
        has_body=bool(row.has_body),
    )
