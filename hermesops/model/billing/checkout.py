"""Checkout sessions: Stripe's pages where users buy a plan.

Source: https://docs.stripe.com/api/checkout/sessions/object.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

LIFE = timedelta(hours=2)
"""From a request to the end of its checkout page. Stripe takes 30 minutes to 24 hours from the page's begin."""

LATEST_BEGIN = timedelta(hours=1)
"""From a request to the last begin of its checkout page."""


class CheckoutStatus(StrEnum):
    """Stripe's words for the state of a checkout session."""

    OPEN = "open"
    COMPLETE = "complete"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Checkout:
    """A checkout session.

    Attributes:
        url: Of its page; empty once it is closed.
        subscription_id: What was bought; empty before.
    """

    id: str
    status: CheckoutStatus
    url: str = field(default="", repr=False)
    subscription_id: str = ""
