"""Reads Stripe's events: verifies the signature with Stripe's library, then parses the needed fields only.

Whoever holds the endpoint's secret is Stripe; anybody else is told nothing but that it is refused. What Stripe says is
still read strictly: people fill in metadata, and other products use the same account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermesops.base.extras import Extra, require
from hermesops.errors import RefusedError
from hermesops.model.billing.events import DELETED, INVOICE_EVENTS, SUBSCRIPTION_EVENTS, BillingFact, Delivery
from hermesops.model.ids import UserId, user_id_of
from hermesops.users.billing.subscription import Status, is_status

_SEE = "signatures are explained at https://docs.stripe.com/webhooks#verify-events"
_MOST_PRICES = 20
_EARLIEST = 1_300_000_000
"""Stripe was founded in 2011."""

_LATEST = 4_102_444_800
"""The year 2100."""


_MOST_WAIT_S = 4 * 86_400.0
"""Longest wait in the queue that is added to the tolerance; Stripe repeats a delivery for three days."""

_AHEAD_S = 300
"""Seconds that Stripe's clock may be ahead of this one."""


@dataclass(frozen=True)
class Rules:
    """Rules for accepting Stripe's events.

    Attributes:
        secrets: Of the endpoint; two while it is rolled.
        tolerance_s: Seconds from the signature to the receipt.
        livemode: Whether money is real here.
        account: Id of the account, where it is a connected one; empty for one's own.
        product: Id of the product that agents are sold as; empty where the account sells nothing else.
        user_key: Of the subscription's metadata, which has the user's id.
    """

    secrets: tuple[str, ...]
    tolerance_s: float
    livemode: bool
    account: str = ""
    product: str = ""
    user_key: str = "user_id"


@dataclass(frozen=True)
class ReadEvent:
    """An event of Stripe's that was read.

    Attributes:
        id: Empty where it cannot be read.
        fact: What it says of a subscription; ``None`` where nothing that matters here.
        problem: Why a person should look at it; empty for no reason.
        note: Why nothing follows from it; empty where something may.
    """

    id: str
    type: str
    fact: BillingFact | None = None
    problem: str = ""
    note: str = ""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
_Time = Annotated[int, Field(ge=_EARLIEST, le=_LATEST)]


class _Object(_Part):
    id: _Id


class _Price(_Object):
    product: _Id | _Object | None = None


class _Item(_Part):
    price: _Price


class _Items(_Part):
    data: Annotated[list[_Item], Field(max_length=_MOST_PRICES)]


class _Pause(_Part):
    """Pause of payment collection. Source: https://docs.stripe.com/billing/subscriptions/pause-payment."""

    behavior: Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")]


class _Subscription(_Part):
    id: Annotated[str, Field(pattern=r"^sub_[A-Za-z0-9_]{1,100}$")]
    status: Annotated[str, Field(max_length=32)]
    created: _Time
    items: _Items
    metadata: dict[str, Any] | None = None
    pause_collection: _Pause | None = None


class _PriceDetails(_Part):
    product: str | None = None


class _Pricing(_Part):
    price_details: _PriceDetails | None = None


class _Line(_Part):
    price: _Price | None = None
    pricing: _Pricing | None = None


class _Lines(_Part):
    data: list[_Line] = []
    has_more: bool = False


class _SubscriptionDetails(_Part):
    subscription: _Id | _Object | None = None


class _Parent(_Part):
    subscription_details: _SubscriptionDetails | None = None


class _Invoice(_Part):
    """Of API versions before and since 2025-03-31, which moved the names of subscription and product.

    Source: https://docs.stripe.com/changelog/basil/2025-03-31/adds-new-parent-field-to-invoicing-objects.
    """

    subscription: _Id | _Object | None = None
    parent: _Parent | None = None
    lines: _Lines = _Lines()


class _Data(_Part):
    object: dict[str, Any]


class _Event(_Part):
    id: Annotated[str, Field(pattern=r"^evt_[A-Za-z0-9_]{1,100}$")]
    object: Literal["event"]
    type: Annotated[str, Field(pattern=r"^[a-z0-9_.]{1,64}$")]
    created: _Time
    livemode: bool
    account: str | None = None
    data: _Data


def read_event(delivery: Delivery, rules: Rules, *, now: datetime) -> ReadEvent:
    """Verify an event's signature and read the event.

    Args:
        now: By this computer's clock, with which Stripe's library compares the signature's time.

    Raises:
        RefusedError: It is not Stripe's, too old when it came, of the other mode or of another account.
    """
    verified = _verified(delivery, rules, now)
    if verified is None:
        return ReadEvent("", "", problem="it is signed, but no event")
    try:
        event = _Event.model_validate(verified)
    except ValidationError as error:
        return ReadEvent("", "", problem=_unreadable(error))
    _refuse_foreign(event, rules, now)
    try:
        return _read(event, rules)
    except ValidationError as error:
        return ReadEvent(event.id, event.type, problem=_unreadable(error))


def _verified(delivery: Delivery, rules: Rules, now: datetime) -> Mapping[str, object] | None:
    """The event as Stripe's library types it; ``None`` when the signed content is no event.

    Raises:
        RefusedError: No secret of the endpoint has signed it.
    """
    require(Extra.BILLING, "reading Stripe's events")
    import stripe  # noqa: PLC0415 - takes a third of a second, and only this needs it

    if not rules.secrets:
        raise RefusedError("the endpoint has no secret here: nothing can be proved to be Stripe's")
    if not (delivery.signature.isascii() and delivery.signature.isprintable()):
        raise RefusedError("the signature is refused: it is no header", hint=_SEE)
    # The library measures from the signature to now; an event may have waited in the queue since it was received. The
    # row says so, and whoever may write rows must not have an old event count again by an old time.
    waited_s = min(max((now - delivery.received_at).total_seconds(), 0.0), _MOST_WAIT_S)
    tolerance_s = rules.tolerance_s + waited_s
    refusal = ""
    for secret in rules.secrets:
        try:
            event = stripe.Webhook.construct_event(
                delivery.body,
                delivery.signature,
                secret,
                tolerance=int(tolerance_s) + 1,
            )
        except stripe.SignatureVerificationError as error:
            refusal = "too old" if "tolerance" in str(error) else refusal or "no secret of the endpoint has made it"
        except UnicodeDecodeError:
            refusal = refusal or "the body is not text"
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return None  # of JSON, which is read behind the signature
        else:
            verified: Mapping[str, object] = event.to_dict()
            return verified
    raise RefusedError(f"the signature is refused: {refusal}", hint=_SEE)


def _refuse_foreign(event: _Event, rules: Rules, now: datetime) -> None:
    if event.created > now.timestamp() + _AHEAD_S:
        raise RefusedError("an event of the future", hint="compare this computer's clock: timedatectl status")
    if event.livemode is not rules.livemode:
        theirs, ours = ("live", "test") if event.livemode else ("test", "live")
        raise RefusedError(f"an event of Stripe's {theirs} mode; this environment takes those of {ours} mode")
    if event.account is not None and event.account != rules.account:
        raise RefusedError("an event of another account than billing.account")


def _read(event: _Event, rules: Rules) -> ReadEvent:
    if event.type in SUBSCRIPTION_EVENTS:
        subscription = _Subscription.model_validate(event.data.object)
        return _of_subscription(
            (event.id, event.type, _at(event.created)), subscription, user_key=rules.user_key, product=rules.product
        )
    if event.type in INVOICE_EVENTS:
        return _of_invoice(event, _Invoice.model_validate(event.data.object), rules)
    return ReadEvent(event.id, event.type, note="events of that type say nothing of a subscription's state")


def fact_of_subscription(answer: Mapping[str, object], *, asked_at: datetime, user_key: str, product: str) -> ReadEvent:
    """Read a subscription from Stripe's API as an event without an id, dated at the time of the request.

    Args:
        user_key: As in ``Rules``; so is ``product``.

    Raises:
        ValidationError: It is no subscription.
    """
    read = _Subscription.model_validate(answer)
    kind = DELETED if read.status == Status.CANCELED else "customer.subscription.updated"
    return _of_subscription(("", kind, asked_at), read, user_key=user_key, product=product)


def _of_subscription(
    event: tuple[str, str, datetime], subscription: _Subscription, *, user_key: str, product: str
) -> ReadEvent:
    event_id, kind, at = event
    products = [_id(item.price.product) for item in subscription.items.data]
    if product and product not in products:
        return ReadEvent(event_id, kind, note="a subscription of another product")
    if not is_status(subscription.status):
        return ReadEvent(event_id, kind, problem="the subscription has a status that is not known here")
    named = (subscription.metadata or {}).get(user_key)
    user_id = _user_id(named)
    if user_id is None:
        return ReadEvent(event_id, kind, problem=_no_user(user_key, is_there=named is not None and named != ""))
    prices = {item.price.id for item in subscription.items.data if not product or _id(item.price.product) == product}
    pause = subscription.pause_collection.behavior if subscription.pause_collection else ""
    bought = tuple(sorted(prices))
    fact = BillingFact(
        event_id, kind, subscription.id, at, user_id, bought, subscription.status, _at(subscription.created), pause
    )
    return ReadEvent(event_id, kind, fact)


def _no_user(user_key: str, *, is_there: bool) -> str:
    """The reason that a subscription names no user; without the metadata's value, which may be personal."""
    if is_there:
        return f"the subscription's metadata {user_key} is no user's id: it has to be a UUID in lower case"
    return f"the subscription's metadata has no {user_key}"


def _of_invoice(event: _Event, invoice: _Invoice, rules: Rules) -> ReadEvent:
    details = invoice.parent.subscription_details if invoice.parent else None
    subscription = _id(invoice.subscription) or (_id(details.subscription) if details else "")
    if not subscription:
        return ReadEvent(event.id, event.type, note="an invoice of no subscription")
    if rules.product and not invoice.lines.has_more and rules.product not in map(_product_of, invoice.lines.data):
        return ReadEvent(event.id, event.type, note="an invoice of another product")
    return ReadEvent(event.id, event.type, BillingFact(event.id, event.type, subscription, _at(event.created)))


def _product_of(line: _Line) -> str:
    if line.pricing and line.pricing.price_details:
        return line.pricing.price_details.product or ""
    return _id(line.price.product) if line.price else ""


def _user_id(value: object) -> UserId | None:
    """As Helium writes it, and in no other spelling of a UUID."""
    user_id = user_id_of(value) if isinstance(value, str) else None
    return user_id if user_id == value else None


def _id(reference: str | _Object | None) -> str:
    return reference.id if isinstance(reference, _Object) else reference or ""


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _unreadable(error: ValidationError) -> str:
    """Places and kinds of an event's errors; without their values, which may be personal."""
    faults = {f"{_place(fault['loc'])} ({_FAULTS.get(fault['type'], 'of another type')})" for fault in error.errors()}
    return f"it is not read: {', '.join(sorted(faults)[:5])}"


_FAULTS = {
    "missing": "missing",
    "too_long": f"more than {_MOST_PRICES}",
    "string_too_long": "too long",
    "string_pattern_mismatch": "of another form",
    "greater_than_equal": "too early",
    "less_than_equal": "too late",
    "literal_error": "another one",
}
"""By pydantic's names of errors, https://docs.pydantic.dev/latest/errors/validation_errors/."""


def _place(location: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in location if not isinstance(part, int))[:80]
