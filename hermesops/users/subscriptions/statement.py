"""Reads at Stripe what a subscription costs: its end, the next charge and the last invoices.

Source: https://docs.stripe.com/api/invoices/object and /create_preview; the period is the item's since 2025-03-31.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermesops.errors import UnavailableError
from hermesops.model.billing.statement import MOST_INVOICES, MOST_LINES, Charge, Invoice, InvoiceLine, Statement
from hermesops.model.plan import Plan
from hermesops.users.billing.stripe_api import StripeApi, StripeRefusedError
from hermesops.users.billing.subscription import ENDED, Subscription
from hermesops.wire.foreign_text import one_line

_LONGEST_LINE = 200
_MOST = 10**12
_Time = Annotated[int, Field(ge=0, le=4_102_444_800)]
_Amount = Annotated[int, Field(ge=-_MOST, le=_MOST)]
_Currency = Annotated[str, Field(pattern=r"^[a-z]{3}$")]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class _Line(_Part):
    description: str | None = None
    amount: _Amount


class _Lines(_Part):
    data: list[_Line] = []
    has_more: bool = False


class _Invoice(_Part):
    number: Annotated[str, Field(max_length=64)] | None = None
    created: _Time
    total: _Amount
    currency: _Currency
    status: Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")] | None = None
    hosted_invoice_url: Annotated[str, Field(max_length=4096, pattern=r"^https?://[!-~]+$")] | None = None
    lines: _Lines = _Lines()


class _Invoices(_Part):
    data: Annotated[list[_Invoice], Field(max_length=100)]


class _Item(_Part):
    current_period_start: _Time | None = None
    current_period_end: _Time | None = None


class _Items(_Part):
    data: Annotated[list[_Item], Field(max_length=20)]


class _Period(_Part):
    """Begin and end of a subscription's current period."""

    status: str
    items: _Items
    cancel_at: _Time | None = None
    cancel_at_period_end: bool = False

    @property
    def end(self) -> datetime | None:
        """When the period that is paid ends."""
        ends = [item.current_period_end for item in self.items.data if item.current_period_end]
        return _at(min(ends)) if ends else None

    @property
    def begin(self) -> datetime | None:
        """When the period began whose usage is not charged yet."""
        begins = [item.current_period_start for item in self.items.data if item.current_period_start]
        return _at(max(begins)) if begins else None

    @property
    def ends_at(self) -> datetime | None:
        """When the subscription ends that was cancelled."""
        if self.cancel_at is not None:
            return _at(self.cancel_at)
        return self.end if self.cancel_at_period_end else None


class _Preview(_Part):
    amount_due: _Amount
    currency: _Currency
    lines: _Lines = _Lines()


@dataclass(frozen=True)
class StripeStatements:
    """Reads statements of subscriptions from Stripe: period, next charge and invoices."""

    api: StripeApi

    async def read(self, subscription: Subscription, plan: Plan | None) -> Statement:
        """What Stripe charges for a subscription.

        Args:
            plan: That its prices stand for.

        Raises:
            UnavailableError: Stripe does not answer, or in another form.
            RefusedError: The key may not read that, or Stripe does not know the subscription.
        """
        id_ = subscription.id
        about = f"subscription {id_}"
        subscribed = await self.api.ask(lambda v1: v1.subscriptions.retrieve(id_), about=about)
        params = {"subscription": id_, "limit": MOST_INVOICES}
        listed = await self.api.ask(lambda v1: v1.invoices.list(params), about=about)
        try:
            period, invoices = _Period.model_validate(subscribed.content), _Invoices.model_validate(listed.content)
        except ValidationError as error:
            raise UnavailableError(f"Stripe's answer about {id_} cannot be read") from error
        is_over = period.status in ENDED or period.ends_at is not None
        charge = None if is_over or period.end is None else await self._charge(id_, period.end)
        return Statement(
            period.status,
            plan.value if plan else "",
            period.ends_at,
            charge,
            tuple(map(_invoice, invoices.data[:MOST_INVOICES])),
            period.begin,
        )

    async def _charge(self, subscription_id: str, at: datetime) -> Charge:
        """The next charge; without its amount where Stripe does not say it."""
        params = {"subscription": subscription_id}
        try:
            answer = await self.api.ask(lambda v1: v1.invoices.create_preview(params), about="next invoice")
            preview = _Preview.model_validate(answer.content)
        except (StripeRefusedError, ValidationError):
            return Charge(at)
        return Charge(at, preview.amount_due, preview.currency, _lines(preview.lines.data))


def _invoice(invoice: _Invoice) -> Invoice:
    url = invoice.hosted_invoice_url or ""
    return Invoice(
        one_line(invoice.number or "", longest=64),
        _at(invoice.created),
        invoice.total,
        invoice.currency,
        invoice.status or "draft",
        url if _is_safe(url) else "",
        _lines(invoice.lines.data),
        has_more_lines=invoice.lines.has_more or len(invoice.lines.data) > MOST_LINES,
    )


def _lines(lines: Sequence[_Line]) -> tuple[InvoiceLine, ...]:
    return tuple(
        InvoiceLine(one_line(line.description or "", longest=_LONGEST_LINE), line.amount) for line in lines[:MOST_LINES]
    )


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in {"localhost", "127.0.0.1"}


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
