"""What a subscription is now, from all that events say of it: in whatever order, and however often, they came. Pure.

Stripe delivers events at least once, for three days, and in no order
(https://docs.stripe.com/webhooks#event-ordering). So nothing is added up: each event of a subscription has all of it,
and the newest one counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from hermesops.model.billing import (
    CREATED,
    DELETED,
    INVOICE_EVENTS,
    PAID,
    PAYMENT_FAILED,
    SUBSCRIPTION_EVENTS,
    BillingFact,
)
from hermesops.model.ids import UserId
from hermesops.model.plan import Plan


class Status(StrEnum):
    """Stripe's words, later ones outranking earlier ones of the same second.

    Source: https://docs.stripe.com/api/subscriptions/object#subscription_object-status.
    """

    INCOMPLETE = "incomplete"
    TRIALING = "trialing"
    ACTIVE = "active"
    PAST_DUE = "past_due"
    UNPAID = "unpaid"
    PAUSED = "paused"
    INCOMPLETE_EXPIRED = "incomplete_expired"
    CANCELED = "canceled"


class Payment(StrEnum):
    """What a status means for the agent."""

    UNBEGUN = "unbegun"
    """Nothing was paid yet."""

    PAID = "paid"
    FAILING = "failing"
    ENDED = "ended"


_ENDED = frozenset({Status.INCOMPLETE_EXPIRED, Status.CANCELED})
_RANK = {status: rank for rank, status in enumerate(Status)}


@dataclass(frozen=True)
class Subscription:
    """A subscription as it is now.

    Attributes:
        started_at: When it was made; the time of its first event where none says.
        failing_since: When the first payment failed of those that failed without one that succeeded after them.
        is_ambiguous: Whether several events of one second name different prices, so that it is not known which is last.
    """

    id: str
    user_id: UserId
    started_at: datetime
    status: Status
    prices: tuple[str, ...] = ()
    failing_since: datetime | None = None
    is_ambiguous: bool = False

    @property
    def payment(self) -> Payment:
        """What it means for the agent."""
        match self.status:
            case Status.CANCELED | Status.INCOMPLETE_EXPIRED:
                return Payment.ENDED
            case Status.INCOMPLETE:
                return Payment.UNBEGUN
            case Status.ACTIVE | Status.TRIALING | Status.PAST_DUE | Status.UNPAID | Status.PAUSED:
                return Payment.PAID if self.failing_since is None else Payment.FAILING
            case _ as never:
                assert_never(never)

    def plan(self, prices: Mapping[str, Plan]) -> Plan | None:
        """The one plan that its prices stand for; ``None`` where they stand for none or for several."""
        plans = {prices[price] for price in self.prices if price in prices}
        return next(iter(plans)) if len(plans) == 1 else None


def is_status(text: str) -> bool:
    """Whether a word is one of Stripe's statuses."""
    return text in {status.value for status in Status}


def owned_by(user_id: UserId, facts: Iterable[BillingFact]) -> frozenset[str]:
    """The subscriptions that are a user's.

    Args:
        facts: In the order in which they came: a subscription is whom its first event names, and stays so.
    """
    owners: dict[str, UserId] = {}
    for fact in facts:
        if fact.user_id is not None:
            owners.setdefault(fact.subscription_id, fact.user_id)
    return frozenset(id_ for id_, owner in owners.items() if owner == user_id)


def subscriptions_of(user_id: UserId, facts: Iterable[BillingFact]) -> tuple[Subscription, ...]:
    """A user's subscriptions, by id; arguments are as for ``owned_by``."""
    facts = tuple(facts)
    theirs = (subscription_of([one for one in facts if one.subscription_id == id_]) for id_ in owned_by(user_id, facts))
    return tuple(sorted((one for one in theirs if one is not None), key=lambda one: one.id))


def subscription_of(facts: Sequence[BillingFact]) -> Subscription | None:
    """One subscription, from everything that is said of it; ``None`` where no event about itself has come.

    Args:
        facts: Not of another subscription, in the order in which they came.
    """
    named = [fact for fact in facts if fact.type in SUBSCRIPTION_EVENTS and fact.user_id is not None]
    if not named or (owner := named[0].user_id) is None:
        return None
    unique = {fact.event_id: fact for fact in named if fact.user_id == owner}
    states = sorted(unique.values(), key=_order)
    newest = states[-1]
    # Nothing brings a subscription back that has ended, so that one event of the end is enough.
    has_ended = any(fact.type == DELETED or fact.status in _ENDED for fact in states)
    return Subscription(
        newest.subscription_id,
        owner,
        min(fact.started_at or fact.created_at for fact in states),
        Status.CANCELED if has_ended else Status(newest.status),
        newest.prices,
        _failing_since([*states, *(fact for fact in facts if fact.type in INVOICE_EVENTS)]),
        is_ambiguous=any(_order(fact)[:2] == _order(newest)[:2] and fact.prices != newest.prices for fact in states),
    )


def _order(fact: BillingFact) -> tuple[datetime, int, int, str]:
    kind = 0 if fact.type == CREATED else 2 if fact.type == DELETED else 1
    return fact.created_at, kind, _RANK[Status(fact.status)], fact.event_id


def _failing_since(facts: Iterable[BillingFact]) -> datetime | None:
    """The first failure after the last success.

    Of one second, a failure outranks that the subscription is active, which it stays for as long as the failed payment
    is not known to it; a payment outranks both.
    """
    since = None
    for at, fails in sorted(said for fact in facts if (said := _paid_or_failed(fact)) is not None):
        if fails != _FAILS:
            since = None
        elif since is None:
            since = at
    return since


_FINE, _FAILS, _PAID = range(3)


def _paid_or_failed(fact: BillingFact) -> tuple[datetime, int] | None:
    if fact.type == PAID:
        return fact.created_at, _PAID
    if fact.type == PAYMENT_FAILED or fact.status in {Status.PAST_DUE, Status.UNPAID, Status.PAUSED}:
        return fact.created_at, _FAILS
    return (fact.created_at, _FINE) if fact.status in {Status.ACTIVE, Status.TRIALING} else None
