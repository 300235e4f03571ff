"""Stripe's events about subscriptions in the registry: ids, prices, a status and times, no personal data."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import OperationId, UserId

MOST_BYTES = 256 * 1024
"""Of the body of an event: Stripe's events about subscriptions have some 10 KiB."""

MOST_SIGNATURE = 4096
"""Characters of a header ``Stripe-Signature``."""

CREATED = "customer.subscription.created"
DELETED = "customer.subscription.deleted"
SUBSCRIPTION_EVENTS = frozenset(
    {
        CREATED,
        DELETED,
        "customer.subscription.updated",
        "customer.subscription.paused",
        "customer.subscription.resumed",
        "customer.subscription.trial_will_end",
        "customer.subscription.pending_update_applied",
        "customer.subscription.pending_update_expired",
    }
)
"""Types of events that have a whole subscription in them.

Source: https://docs.stripe.com/api/events/types.
"""

PAID = "invoice.paid"
PAYMENT_FAILED = "invoice.payment_failed"
INVOICE_EVENTS = frozenset({PAID, PAYMENT_FAILED})
"""Types of events about an invoice of a subscription: a reason to look at it, and no statement about its state."""


class BillingState(StrEnum):
    """Processing states of an event of Stripe's."""

    QUEUED = "queued"
    """It has not been read."""

    WAITING = "waiting"
    """It was read; what it asks for is under way, or cannot be done yet."""

    APPLIED = "applied"
    SET_ASIDE = "set_aside"
    """A person has to look."""

    DISMISSED = "dismissed"
    """A person has looked, and nothing is to follow from it."""

    REFUSED = "refused"
    """It is not Stripe's, or not meant for this environment."""


@dataclass(frozen=True)
class BillingFact:
    """Data of one event about a subscription.

    Attributes:
        event_id: Stripe's.
        type: One of ``SUBSCRIPTION_EVENTS`` or ``INVOICE_EVENTS``.
        created_at: When it happened, by Stripe's clock, to the second.
        user_id: Whom the subscription's metadata names; ``None`` in events about invoices.
        prices: Ids of what was bought; empty in events about invoices.
        status: The subscription's at Stripe; empty in events about invoices.
        started_at: When the subscription was made; ``None`` in events about invoices.
        pause: What Stripe does with invoices while their collection is paused, as ``void``; empty where it is not.
    """

    event_id: str
    type: str
    subscription_id: str
    created_at: datetime
    user_id: UserId | None = None
    prices: tuple[str, ...] = ()
    status: str = ""
    started_at: datetime | None = None
    pause: str = ""


@dataclass(frozen=True)
class BillingEvent:
    """A row of ``billing_events`` without its body.

    Attributes:
        event_id: Stripe's; empty before it was read, and where it is refused.
        type: Likewise.
        fact: What it says; ``None`` before it was read, and of a type that says nothing of a subscription.
        deliveries: How often Stripe has sent it.
        detail: Why it waits, was set aside or refused, or what was done; for people.
        operation_id: The operation that was opened because of it.
        due_at: When it is looked at again, ``None`` for at once; where it does not wait, when what is left of it is
            deleted, ``None`` for never.
        has_body: Whether what was received is still there.
    """

    id: int
    received_at: datetime
    state: BillingState
    event_id: str = ""
    type: str = ""
    fact: BillingFact | None = None
    deliveries: int = 1
    detail: str = ""
    operation_id: OperationId | None = None
    due_at: datetime | None = None
    decided_at: datetime | None = None
    has_body: bool = False


@dataclass(frozen=True)
class Delivery:
    """An event as it was received.

    Attributes:
        body: Not changed by a byte.
        signature: The header ``Stripe-Signature``.
    """

    body: bytes
    signature: str
    received_at: datetime


def user_lease(user_id: UserId) -> str:
    """Subject of the lease for settling a user's subscriptions."""
    return f"billing/{user_id}"
