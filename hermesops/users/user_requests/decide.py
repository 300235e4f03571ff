"""Decision about a user's request, from its content and what is known of the user's plan and agent. Pure.

It compares what was asked for with what is there, so that it may be asked again at any time, as after a kill.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hermesops.model.billing.checkout import LATEST_BEGIN, Checkout, CheckoutStatus
from hermesops.model.billing.user_request import RequestKind, RequestState, UserRequest
from hermesops.model.operation import OperationStatus
from hermesops.model.plan import Plan
from hermesops.users.billing.subscription import ENDED, PAID, Subscription

SOON = timedelta(seconds=15)
LATER = timedelta(minutes=1)
_LOOKED_AT_OFTEN = timedelta(minutes=10)
"""From the request, for as long as its user is probably at the checkout page."""

OPERATION = timedelta(seconds=1)
"""Pause between two looks at an operation."""

GIVEN_UP = timedelta(hours=1)
"""From a request to its refusal where nothing could be begun, as without an answer of Stripe's."""

CLOSED = timedelta(hours=24)
"""From a request to its refusal where it was begun: until then its checkout page may be open, and may be paid."""

CLOCKS = timedelta(minutes=5)
"""By which Stripe's clock and the database's may differ."""

_LONGEST_PAUSE = timedelta(minutes=5)


@dataclass(frozen=True)
class Facts:
    """What is known about a request and its user.

    Attributes:
        body: The request's parameters; empty where they cannot be read any more.
        subscription: The subscription that gives the user an agent; ``None`` for none.
        last: The user's newest subscription, of any status; ``None`` for none.
        prices: Stripe's prices by which users buy plans.
        session: Id of the request's checkout session; empty before it has one.
        checkout: That session, where Stripe was asked.
        bought: The subscription that the session made, where it is recorded.
        earlier: Ids of the sessions of other open requests, which are earlier ones.
        operation: Status of the operation that was opened for the request; ``None`` before.
    """

    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    subscription: Subscription | None = None
    last: Subscription | None = None
    prices: Mapping[Plan, str] = field(default_factory=dict)
    session: str = ""
    checkout: Checkout | None = None
    bought: Subscription | None = None
    earlier: tuple[str, ...] = ()
    operation: OperationStatus | None = None


@dataclass(frozen=True)
class Refuse:
    """End the request.

    Attributes:
        code: For programs; stable.
        why: For the user.
    """

    code: str
    why: str


@dataclass(frozen=True)
class Done:
    """End the request: it is so.

    Attributes:
        words: For the user.
    """

    words: str


@dataclass(frozen=True)
class Wait:
    """Look again later.

    Attributes:
        words: For the user.
    """

    words: str
    pause: timedelta


@dataclass(frozen=True)
class CloseEarlier:
    """Close the checkout page of an earlier request: a user must not pay twice."""

    session: str


@dataclass(frozen=True)
class BeginCheckout:
    """Make a checkout session.

    Attributes:
        paid_before: A subscription of the same customer; empty for none.
    """

    price: str
    paid_before: str


@dataclass(frozen=True)
class LookAtCheckout:
    """Ask Stripe about the checkout session."""

    session: str


@dataclass(frozen=True)
class RecordSubscription:
    """Read the bought subscription at Stripe, as its event would say it."""

    subscription_id: str


@dataclass(frozen=True)
class EndWithPeriod:
    """End the subscription with the period that is paid."""

    subscription_id: str


@dataclass(frozen=True)
class OpenPortal:
    """Make a page where whoever pays the subscription changes it."""

    subscription_id: str


@dataclass(frozen=True)
class Configure:
    """Give the agent other settings.

    Attributes:
        tag: Names the settings that the user saw.
    """

    changes: Mapping[str, Any] = field(repr=False)
    tag: str


Action = CloseEarlier | BeginCheckout | LookAtCheckout | RecordSubscription | EndWithPeriod | OpenPortal | Configure
Decision = Action | Refuse | Done | Wait


def decide(request: UserRequest, facts: Facts, *, now: datetime) -> Decision:
    """The next step of a request."""
    if not facts.body:
        return Refuse("lost", "your request cannot be read any more; make it again")
    match RequestKind(request.kind):
        case RequestKind.SUBSCRIBE:
            return _subscribe(request, facts, now)
        case RequestKind.CANCEL:
            if facts.subscription is None or facts.subscription.started_at > request.created_at + CLOCKS:
                return Refuse("no-plan", "you have no plan that could end")  # or one bought since, which nobody ends
            return EndWithPeriod(facts.subscription.id)
        case RequestKind.PORTAL:
            if facts.last is None:
                return Refuse("no-plan", "you have no plan whose payment could change")
            return OpenPortal(facts.last.id)
        case RequestKind.SETTINGS:
            return _settings(facts)


def _subscribe(request: UserRequest, facts: Facts, now: datetime) -> Decision:
    if facts.session:
        return _checkout(request, facts, now)
    plan = next((plan for plan in Plan if plan.value == facts.body.get("plan")), None)
    if plan is None:
        return Refuse("invalid", "there is no such plan")
    if facts.subscription is not None:
        return Refuse("has-plan", "you have a plan already; change it on the page of your payment")
    if plan not in facts.prices:
        return Refuse("not-sold", "this plan cannot be bought here")
    if now - request.created_at > LATEST_BEGIN:
        return Refuse("unavailable", "the checkout page could not be made in time; try again")
    if facts.earlier:
        return CloseEarlier(facts.earlier[0])
    return BeginCheckout(facts.prices[plan], facts.last.id if facts.last else "")


def _checkout(request: UserRequest, facts: Facts, now: datetime) -> Decision:
    """A request whose user is, or was, at the checkout page."""
    if facts.subscription is not None and facts.subscription.status in PAID:
        return Done("your plan is paid, and your agent is being made")
    if facts.checkout is None:
        return LookAtCheckout(facts.session)
    match facts.checkout.status:
        case CheckoutStatus.EXPIRED:
            return Refuse("not-paid", "the checkout page was closed before anything was paid")
        case CheckoutStatus.OPEN:
            is_often = now - request.created_at < _LOOKED_AT_OFTEN
            return Wait("pay at the checkout page", SOON if is_often else LATER)
    if facts.bought is None:
        return RecordSubscription(facts.checkout.subscription_id)
    if facts.bought.status in ENDED:
        return Refuse("not-paid", "the payment failed, and nothing was bought")
    return Wait("the payment is being confirmed", SOON)


def _settings(facts: Facts) -> Decision:
    match facts.operation:
        case None:
            changes, tag = facts.body.get("changes"), facts.body.get("tag")
            if not isinstance(changes, dict) or not isinstance(tag, str):
                return Refuse("invalid", "the settings are malformed")
            return Configure(changes, tag)
        case OperationStatus.DONE:
            return Done("your agent has the new settings")
        case OperationStatus.FAILED | OperationStatus.ABANDONED:
            return Refuse("failed", "your agent could not take the new settings; it has those of before")
        case _:
            return Wait("your agent gets the new settings", OPERATION)


def after_failure(request: UserRequest, *, now: datetime) -> Wait | Refuse:
    """The decision where a step failed in passing: again after a pause that grows, until it is given up."""
    if now - request.created_at > (GIVEN_UP if request.state is RequestState.QUEUED else CLOSED):
        return Refuse("unavailable", "this was not available for too long; try again")
    pause = min(_LONGEST_PAUSE, timedelta(seconds=2 ** min(request.tries, 10)))
    return Wait("this is not available now and is tried again", pause)


def sold_prices(prices: Mapping[str, Plan], chosen: Mapping[Plan, str]) -> dict[Plan, str]:
    """Stripe's prices by which users buy plans: the chosen one, else a plan's only one."""
    of_plan = {plan: [price for price, stands_for in prices.items() if stands_for is plan] for plan in Plan}
    only = {plan: names[0] for plan, names in of_plan.items() if len(names) == 1}
    return {**only, **{plan: price for plan, price in chosen.items() if price in of_plan[plan]}}
