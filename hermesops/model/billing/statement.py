"""Statement of a user's subscription: what Stripe charges, as the user's plan page shows it."""

from dataclasses import dataclass
from datetime import datetime

MOST_INVOICES = 12
MOST_LINES = 20
"""Lines of an invoice that are shown."""


@dataclass(frozen=True)
class InvoiceLine:
    """A line of an invoice.

    Attributes:
        description: In Stripe's words, without control characters.
        amount: In the smallest unit of the currency; negative for a credit.
    """

    description: str
    amount: int


@dataclass(frozen=True)
class Invoice:
    """An invoice of a subscription.

    Attributes:
        number: The number that users see; empty for a draft.
        total: In the smallest unit of the currency.
        currency: Three letters of ISO 4217 in lower case.
        status: Stripe's word, as ``paid`` or ``open``.
        url: Stripe's page of it; empty for none.
        has_more_lines: Whether it has more lines than are shown.
    """

    number: str
    created_at: datetime
    total: int
    currency: str
    status: str
    url: str = ""
    lines: tuple[InvoiceLine, ...] = ()
    has_more_lines: bool = False


@dataclass(frozen=True)
class Charge:
    """The next charge of a subscription.

    Attributes:
        amount: In the smallest unit of the currency; ``None`` where Stripe did not say it.
        lines: Of the invoice as it would be now, the use of meters among them.
    """

    at: datetime
    amount: int | None = None
    currency: str = ""
    lines: tuple[InvoiceLine, ...] = ()


@dataclass(frozen=True)
class Statement:
    """A user's subscription at Stripe.

    Attributes:
        status: Stripe's word; empty where the user has no subscription.
        plan: The plan that its prices stand for; empty for none.
        ends_at: When a cancelled subscription ends; ``None`` for one that goes on.
        next_charge: ``None`` where nothing will be charged.
        period_begins_at: Begin of the period whose usage is on the next invoice; ``None`` where it is not known.
    """

    status: str = ""
    plan: str = ""
    ends_at: datetime | None = None
    next_charge: Charge | None = None
    invoices: tuple[Invoice, ...] = ()
    period_begins_at: datetime | None = None
