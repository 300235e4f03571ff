"""The account of the stand-in of Stripe: customers, checkout sessions, subscriptions, invoices, and their life.

Money is not real here: whoever reaches this computer's loopback can pay.

Source: https://docs.stripe.com/api, version 2026-10-28: the fields that hermesops reads, under their names.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermesops.localcloud.vendors.stripe import meters
from hermesops.localcloud.vendors.stripe.errors import StripeError
from hermesops.localcloud.world.files import read_object, write_private

PRICES: Mapping[str, tuple[str, int]] = {"price_light": ("light", 2_900), "price_heavy": ("heavy", 5_900)}
"""Prices of the account: the plan that each stands for, and cents a month."""

PRODUCT = "prod_agents"
CURRENCY = "eur"
MONTH_S = 30 * 86_400
_SHORTEST_CHECKOUT_S, _LONGEST_CHECKOUT_S = 30 * 60, 24 * 3600
_KEPT = 5_000
"""Objects of a kind that are kept; older ones are forgotten."""

_KEPT_EVENTS = 100_000


Emit = Callable[[str, Mapping[str, Any]], None]
"""Sends an event of a type about an object."""


@dataclass
class Books:
    """The account, kept in a file.

    Attributes:
        file: Where it is kept; ``None`` for nowhere.
        clock: Seconds since 1970.
        emit: See there.
    """

    file: Path | None
    clock: Callable[[], float]
    emit: Emit
    customers: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    invoices: dict[str, dict[str, Any]] = field(default_factory=dict)
    portals: dict[str, dict[str, Any]] = field(default_factory=dict)
    meter_events: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read subscriptions and sessions from the world's file."""
        for name, objects in ((read_object(self.file) if self.file else None) or {}).items():
            getattr(self, name).update(objects)

    def keep(self) -> None:
        """Write the account to its file."""
        kept = {
            "customers": self.customers,
            "sessions": self.sessions,
            "subscriptions": self.subscriptions,
            "invoices": self.invoices,
        }
        for objects in kept.values():
            while len(objects) > _KEPT:
                del objects[next(iter(objects))]
        while len(self.meter_events) > _KEPT_EVENTS:
            del self.meter_events[next(iter(self.meter_events))]
        if self.file:
            write_private(self.file, json.dumps({**kept, "meter_events": self.meter_events}).encode())

    @property
    def now(self) -> int:
        """The account's time, in seconds since 1970."""
        return int(self.clock())

    # Checkout

    def begin_checkout(self, params: Mapping[str, Any], page: str) -> dict[str, Any]:
        """Make a checkout session.

        Args:
            page: Address below which the pages of sessions are.
        """
        price, metered = _bought(params.get("line_items") or [])
        life = int(params.get("expires_at", self.now + _LONGEST_CHECKOUT_S)) - self.now
        if not _SHORTEST_CHECKOUT_S <= life <= _LONGEST_CHECKOUT_S:
            raise StripeError("The `expires_at` timestamp must be between 30 minutes and 24 hours from now")
        if params.get("customer") and params["customer"] not in self.customers:
            raise StripeError(f"No such customer: '{params['customer']}'")
        id_ = _id("cs_test")
        session = {
            "id": id_,
            "object": "checkout.session",
            "mode": params["mode"],
            "status": "open",
            "payment_status": "unpaid",
            "url": f"{page}/{id_}",
            "subscription": None,
            "customer": params.get("customer"),
            "client_reference_id": params.get("client_reference_id"),
            "metadata": params.get("metadata", {}),
            "subscription_metadata": (params.get("subscription_data") or {}).get("metadata", {}),
            "success_url": params["success_url"],
            "cancel_url": params.get("cancel_url", params["success_url"]),
            "price": price,
            "metered": metered,
            "created": self.now,
            "expires_at": self.now + life,
        }
        self.sessions[id_] = session
        return self._shown(session)

    def session(self, id_: str) -> dict[str, Any]:
        """A checkout session, which closes by itself in time."""
        session = self.sessions.get(id_)
        if session is None:
            raise StripeError(f"No such checkout.session: '{id_}'", 404)
        if session["status"] == "open" and session["expires_at"] <= self.now:
            session.update(status="expired", url=None)
        return self._shown(session)

    def close_checkout(self, id_: str) -> dict[str, Any]:
        """Close a checkout session that is still open."""
        if self.session(id_)["status"] != "open":
            raise StripeError('Only Checkout Sessions with a status in ["open"] can be expired')
        self.sessions[id_].update(status="expired", url=None)
        return self.session(id_)

    def pay(self, id_: str) -> dict[str, Any]:
        """Pay at the page of an open checkout session."""
        if self.session(id_)["status"] != "open":
            raise StripeError("This page is closed")
        session = self.sessions[id_]
        customer = session["customer"] or _id("cus")
        self.customers.setdefault(customer, {"id": customer, "object": "customer"})
        subscription = self._subscribe(
            customer, session["price"], session["subscription_metadata"], session.get("metered", [])
        )
        session.update(
            status="complete", payment_status="paid", url=None, subscription=subscription["id"], customer=customer
        )
        self.emit("checkout.session.completed", self._shown(session))
        self.emit("customer.subscription.created", subscription)
        self._charge(subscription)
        return self._shown(session)

    @staticmethod
    def _shown(session: Mapping[str, Any]) -> dict[str, Any]:
        hidden = {"price", "metered", "subscription_metadata"}
        return {name: value for name, value in session.items() if name not in hidden}

    # Subscriptions

    def _subscribe(
        self, customer: str, price: str, metadata: Mapping[str, str], metered: Sequence[str]
    ) -> dict[str, Any]:
        id_ = _id("sub")
        subscription: dict[str, Any] = {
            "id": id_,
            "object": "subscription",
            "status": "active",
            "created": self.now,
            "customer": customer,
            "metadata": dict(metadata),
            "cancel_at": None,
            "cancel_at_period_end": False,
            "canceled_at": None,
            "pause_collection": None,
            "items": {"object": "list", "has_more": False, "data": [self._item(price, self.now)]},
        }
        subscription["items"]["data"] += [self._metered_item(each, self.now) for each in metered]
        self.subscriptions[id_] = subscription
        return subscription

    @staticmethod
    def _item(price: str, begin: int) -> dict[str, Any]:
        _, cents = PRICES[price]
        shown = {"id": price, "object": "price", "product": PRODUCT, "unit_amount": cents, "currency": CURRENCY}
        period = {"current_period_start": begin, "current_period_end": begin + MONTH_S}
        return {"id": _id("si"), "object": "subscription_item", "price": shown, "quantity": 1, **period}

    @staticmethod
    def _metered_item(price: str, begin: int) -> dict[str, Any]:
        shown = {"id": price, "object": "price", "product": PRODUCT, "unit_amount": None, "currency": CURRENCY}
        period = {"current_period_start": begin, "current_period_end": begin + MONTH_S}
        return {"id": _id("si"), "object": "subscription_item", "price": shown, **period}

    def subscription(self, id_: str) -> dict[str, Any]:
        """The subscription of an id, as Stripe returns it."""
        if id_ not in self.subscriptions:
            raise StripeError(f"No such subscription: '{id_}'", 404)
        return self.subscriptions[id_]

    def update(self, id_: str, *, ends_with_period: bool | None = None, price: str = "") -> dict[str, Any]:
        """Change a subscription that goes on."""
        subscription = self.subscription(id_)
        if subscription["status"] == "canceled":
            raise StripeError("A canceled subscription can only update its cancellation_details and metadata.")
        item = subscription["items"]["data"][0]
        if ends_with_period is not None:
            ends_at = item["current_period_end"] if ends_with_period else None
            subscription.update(cancel_at_period_end=ends_with_period, cancel_at=ends_at)
        if price:
            subscription["items"]["data"][0] = self._item(price, item["current_period_start"])
        self.emit("customer.subscription.updated", subscription)
        return subscription

    def set_status(self, id_: str, status: str) -> None:
        """Let payments of a subscription fail, succeed again, or end it at once."""
        subscription = self.subscription(id_)
        subscription["status"] = status
        if status == "canceled":
            subscription["canceled_at"] = self.now
        kind = "deleted" if status == "canceled" else "updated"
        self.emit(f"customer.subscription.{kind}", subscription)

    # Invoices

    def _charge(self, subscription: Mapping[str, Any]) -> None:
        id_, number = _id("in"), len(self.invoices) + 1
        self.invoices[id_] = {
            **self.invoice(subscription, with_usage=False),
            "id": id_,
            "number": f"HERMES-{number:04}",
            "status": "paid",
            "hosted_invoice_url": None,
        }
        self.emit("invoice.paid", self.invoices[id_])

    def invoice(self, subscription: Mapping[str, Any], *, with_usage: bool = True) -> dict[str, Any]:
        """An invoice of one month of a subscription, and of the use of meters in this one, without an id."""
        item = subscription["items"]["data"][0]
        plan, cents = PRICES[item["price"]["id"]]
        line = {"object": "line_item", "description": f"Hermes agent, plan {plan}, one month", "amount": cents}
        lines = [line, *(self._usage(subscription) if with_usage else [])]
        cents = sum(each["amount"] for each in lines)
        return {
            "object": "invoice",
            "customer": subscription["customer"],
            "created": self.now,
            "currency": CURRENCY,
            "total": cents,
            "amount_due": cents,
            "parent": {
                "type": "subscription_details",
                "subscription_details": {"subscription": subscription["id"]},
            },
            "lines": {"object": "list", "has_more": False, "data": lines},
        }

    # Meters

    def _usage(self, subscription: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = subscription["items"]["data"]
        begin, end = items[0]["current_period_start"], items[0]["current_period_end"]
        prices = [item["price"]["id"] for item in items]
        return meters.lines(prices, subscription["customer"], begin, end, self.meter_events.values())

    def meter(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take an event for a meter."""
        event = meters.read_event(params, self.meter_events, self.now)
        if event["identifier"] in self.meter_events:  # forgotten as a name, and counted a second time
            forgotten = self.meter_events.pop(event["identifier"])
            self.meter_events[f"{event['identifier']} of {forgotten['created']}"] = forgotten
        self.meter_events[event["identifier"]] = event
        return event

    # Portal

    def open_portal(self, customer: str, back: str, page: str) -> dict[str, Any]:
        """Make a session of the customer portal; ``page`` as of ``begin_checkout``."""
        if customer not in self.customers:
            raise StripeError(f"No such customer: '{customer}'")
        id_ = _id("bps")
        url = f"{page}/{id_}"
        self.portals[id_] = {"id": id_, "object": "billing_portal.session", "customer": customer, "return_url": back}
        while len(self.portals) > _KEPT:
            del self.portals[next(iter(self.portals))]
        return {**self.portals[id_], "url": url}

    def of_customer(self, customer: str) -> list[dict[str, Any]]:
        """A customer's subscriptions, the newest first."""
        theirs = [each for each in self.subscriptions.values() if each["customer"] == customer]
        return sorted(theirs, key=lambda each: int(each["created"]), reverse=True)


def _bought(line_items: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """The plan's price among what a checkout sells, and the prices of meters; those have no quantity."""
    metered = [str(line.get("price")) for line in line_items if line.get("price") in meters.BY_PRICE]
    if any("quantity" in line for line in line_items if line.get("price") in meters.BY_PRICE):
        raise StripeError("You cannot specify a quantity for a metered price.")
    plans = [str(line.get("price")) for line in line_items if line.get("price") not in meters.BY_PRICE]
    if len(plans) != 1 or plans[0] not in PRICES:
        raise StripeError(f"No such price: '{', '.join(plans)}'")
    return plans[0], metered


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
