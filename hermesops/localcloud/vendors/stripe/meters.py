"""Meters of the stand-in of Stripe: events with Stripe's limits, sums of them, and their lines of an invoice.

Source: https://docs.stripe.com/api/billing/meter-event/create for identifiers (known for 24 hours at least, 100
characters) and times (35 days back, 5 minutes ahead); https://docs.stripe.com/api/billing/meter-event-summary/list for
sums; https://docs.stripe.com/billing/subscriptions/usage-based/recording-usage-api for one event of a customer and
meter at a time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.localcloud.vendors.stripe.errors import StripeError
from hermesops.model.billing.metering import Meter

_KNOWN_S = 24 * 3600
_OLDEST_S, _NEWEST_S = 35 * 86_400, 5 * 60
_LONGEST_IDENTIFIER = 100
_MINUTE_S, _WINDOWS_S = 60, {"hour": 3600, "day": 86_400}
_MOST = 100


@dataclass(frozen=True)
class StripeMeter:
    """A meter of the account.

    Attributes:
        counts: The usage that it is for.
        price: Id of its price.
        micros: Millionths of a cent that one unit costs.
    """

    id: str
    event_name: str
    counts: Meter
    price: str
    micros: int
    words: str

    @property
    def shown(self) -> dict[str, object]:
        """The meter as the API has it."""
        return {
            "id": self.id,
            "object": "billing.meter",
            "event_name": self.event_name,
            "status": "active",
            "default_aggregation": {"formula": "sum"},
        }


METERS = (
    StripeMeter("mtr_days", "hermes_instance_days", Meter.INSTANCE_DAYS, "price_days", 10_000_000, "Days of the agent"),
    StripeMeter("mtr_model", "hermes_model_micros", Meter.MODEL_MICROS, "price_model", 100, "Use of models"),
)
BY_PRICE: Mapping[str, StripeMeter] = {meter.price: meter for meter in METERS}
_BY_ID: Mapping[str, StripeMeter] = {meter.id: meter for meter in METERS}
_BY_EVENT: Mapping[str, StripeMeter] = {meter.event_name: meter for meter in METERS}


def read_event(params: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], now: int) -> dict[str, Any]:
    """The event that a request reports. Pure.

    Args:
        known: Events by identifier.

    Raises:
        StripeError: Stripe takes no such event.
    """
    identifier, name = str(params.get("identifier", "")), str(params.get("event_name", ""))
    payload = params.get("payload")
    if not isinstance(payload, Mapping) or not payload.get("stripe_customer_id"):
        raise StripeError("Missing required payload key: stripe_customer_id")
    if not 1 <= len(identifier) <= _LONGEST_IDENTIFIER:
        raise StripeError("Invalid string: identifier must be at most 100 characters")
    if name not in _BY_EVENT:
        raise StripeError(f"No active meter found for event name {name}.")
    if (before := known.get(identifier)) and now - before["created"] < _KNOWN_S:
        raise StripeError(f"An event already exists with identifier {identifier}.")
    value, at = str(payload.get("value", "")), int(params.get("timestamp", now))
    if not (value.isascii() and value.isdigit()):
        raise StripeError("Invalid value in the payload")
    if not now - _OLDEST_S <= at <= now + _NEWEST_S:
        raise StripeError("The timestamp must be within the past 35 calendar days or up to 5 minutes in the future.")
    return {
        "object": "billing.meter_event",
        "identifier": identifier,
        "event_name": name,
        "payload": {"stripe_customer_id": payload["stripe_customer_id"], "value": value},
        "created": now,
        "timestamp": at,
        "livemode": False,
    }


def summaries(
    meter_id: str, query: Mapping[str, str], events: Iterable[Mapping[str, Any]], now: int, *, late_s: int
) -> list[dict[str, Any]]:
    """Sums of a customer's events for a meter. Pure.

    Args:
        late_s: Seconds until an event is in sums.

    Raises:
        StripeError: The times are not on whole minutes, or on those of the window.
    """
    if meter_id not in _BY_ID:
        raise StripeError(f"No such meter: '{meter_id}'", 404)
    begin, end, window = int(query["start_time"]), int(query["end_time"]), query.get("value_grouping_window", "")
    step = _WINDOWS_S[window] if window else end - begin
    if begin >= end or begin % _MINUTE_S or end % _MINUTE_S or (window and (begin % step or end % step)):
        raise StripeError("start_time and end_time must be aligned with boundaries of the window")
    meter = _BY_ID[meter_id]
    sums: dict[int, int] = {}
    for event in events:
        is_theirs = event["payload"]["stripe_customer_id"] == query["customer"]
        is_in = begin <= event["timestamp"] < end and event["created"] + late_s <= now
        if event["event_name"] == meter.event_name and is_theirs and is_in:
            at = begin + (event["timestamp"] - begin) // step * step
            sums[at] = sums.get(at, 0) + int(event["payload"]["value"])
    return [
        {
            "id": f"mtrusg_{meter_id}_{at}",
            "object": "billing.meter_event_summary",
            "aggregated_value": value,
            "start_time": at,
            "end_time": at + step,
            "meter": meter_id,
            "livemode": False,
        }
        for at, value in sorted(sums.items(), reverse=True)
    ][:_MOST]


def lines(
    prices: Iterable[str], customer: str, begin: int, end: int, events: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Lines of an invoice for the use of meters in a period, a line for each metered price. Pure."""
    theirs = [event for event in events if event["payload"]["stripe_customer_id"] == customer]
    result = []
    for meter in (BY_PRICE[price] for price in prices if price in BY_PRICE):
        is_it = (
            event for event in theirs if event["event_name"] == meter.event_name and begin <= event["timestamp"] < end
        )
        quantity = sum(int(event["payload"]["value"]) for event in is_it)
        cents = round(quantity * meter.micros / 1_000_000)
        result.append({"object": "line_item", "description": f"{meter.words}: {quantity}", "amount": cents})
    return result
