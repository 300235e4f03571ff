"""State of a subscription, derived from its events in any order and number. Pure.

Stripe delivers events at least once, for three days, and in no order
(https://docs.stripe.com/webhooks#event-ordering). So nothing is added up: each event of a subscription has all of it,
and the newest one counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.model.billing.events import (
    CREATED,
    DELETED,
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


ENDED = frozenset({Status.INCOMPLETE_EXPIRED, Status.CANCELED})
"""Nothing brings a subscription back from these."""

PAID = frozenset({Status.ACTIVE, Status.TRIALING})
FAILING = frozenset({Status.PAST_DUE, Status.UNPAID, Status.PAUSED})
"""Nobody pays at the moment: payments fail, Stripe tries none any more, or a trial has ended without a card."""

_RANK = {status: rank for rank, status in enumerate(Status)}


@dataclass(frozen=True)
class Subscription:
    """A subscription as it is now.

    Attributes:
        started_at: When it was made; the time of its first event where none says.
        failing_since: When its status became one of ``FAILING``; ``None`` for any other status.
        is_ambiguous: Whether several events of one second name different prices, so that it is not known which is last.
        pause: What happens to invoices while their collection is paused, as ``void``; empty where it is not paused.
    """

    id: str
    user_id: UserId
    started_at: datetime
    status: Status
    prices: tuple[str, ...] = ()
    failing_since: datetime | None = None
    is_ambiguous: bool = False
    pause: str = ""

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
    theirs = (
        subscription_of([fact for fact in facts if fact.subscription_id == id_]) for id_ in owned_by(user_id, facts)
    )
    return tuple(
        sorted(
            (subscription for subscription in theirs if subscription is not None),
            key=lambda subscription: subscription.id,
        )
    )


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
    has_ended = any(fact.type == DELETED or fact.status in ENDED for fact in states)
    return Subscription(
        newest.subscription_id,
        owner,
        min(fact.started_at or fact.created_at for fact in states),
        Status.CANCELED if has_ended else Status(newest.status),
        newest.prices,
        None if has_ended else _failing_since(states),
        is_ambiguous=any(_order(fact)[:2] == _order(newest)[:2] and fact.prices != newest.prices for fact in states),
        pause=newest.pause,
    )


def _order(fact: BillingFact) -> tuple[datetime, int, int, str]:
    kind = 0 if fact.type == CREATED else 2 if fact.type == DELETED else 1
    return fact.created_at, kind, _RANK[Status(fact.status)], fact.event_id


def _failing_since(states: Iterable[BillingFact]) -> datetime | None:
    """When a subscription that fails now began to, by its own states in their order.

    Invoices say nothing of it: an old or empty one may be paid while the newest is open, and each retry fails anew.
    """
    since = None
    for state in states:
        if state.status not in FAILING:
            since = None
        elif since is None:
            since = state.created_at
    return since
