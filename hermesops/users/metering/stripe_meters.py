"""Stripe's meters: events that report usage, and Stripe's own sums of them.

Source: https://docs.stripe.com/api/billing/meter-event, /billing/meter and /billing/meter-event-summary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermesops.errors import UnavailableError
from hermesops.model.billing.metering import Entry, Meter
from hermesops.users.billing.stripe_api import StripeApi, StripeRefusedError
from hermesops.users.metering.decide import minute_of

_IS_KNOWN = "already exists with identifier"
"""Part of Stripe's refusal of a second event with the same identifier, which has no code.

Source: https://github.com/langfuse/langfuse/pull/16292, August 2026.
"""

_MOST = 100
_LARGEST = 10**15


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Meter(_Part):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,255}$")]
    event_name: Annotated[str, Field(max_length=100)]


class _Meters(_Part):
    data: Annotated[list[_Meter], Field(max_length=_MOST)]


class _Summary(_Part):
    start_time: Annotated[int, Field(ge=0, le=4_102_444_800)]
    aggregated_value: Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]


class _Summaries(_Part):
    data: Annotated[list[_Summary], Field(max_length=_MOST)]


@dataclass(frozen=True)
class StripeMeters:
    """Meters at Stripe.

    Attributes:
        event_names: Names of the meters' events, by what they count.
    """

    api: StripeApi
    event_names: Mapping[Meter, str]

    async def report(self, entry: Entry, customer: str) -> None:
        """Report an entry; the same entry counts once, however often this is done within a day.

        Raises:
            UnavailableError: Stripe does not answer: the event may be there.
            StripeRefusedError: It takes no such event.
            RefusedError: The key may not do that.
        """
        name = self.event_names[entry.meter]
        params = {
            "event_name": name,
            "identifier": entry.identifier,
            "timestamp": int(entry.measured_at.timestamp()),
            "payload": {"stripe_customer_id": customer, "value": str(entry.quantity)},
        }
        try:
            await self.api.ask(lambda v1: v1.billing.meter_events.create(params), about=f"meter for {name}")
        except StripeRefusedError as refused:
            if _IS_KNOWN not in refused.vendor_message:
                raise

    async def ids(self) -> Mapping[Meter, str]:
        """Stripe's ids of the meters.

        Raises:
            UnavailableError: Stripe does not answer, or in another form.
            StripeRefusedError: There is no meter with an event of that name.
            RefusedError: The key may not read meters.
        """
        answer = await self.api.ask(lambda v1: v1.billing.meters.list({"limit": _MOST, "status": "active"}))
        try:
            ids = {meter.event_name: meter.id for meter in _Meters.model_validate(answer.content).data}
        except ValidationError as error:
            raise UnavailableError("Stripe's list of meters cannot be read") from error
        for name in self.event_names.values():
            if name not in ids:
                raise StripeRefusedError(f"Stripe has no active meter for events {name}")
        return {meter: ids[name] for meter, name in self.event_names.items()}

    async def in_minute(self, meter_id: str, customer: str, entry: Entry) -> int:
        """Stripe's sum of the minute that is an entry's alone; raises as ``ids``."""
        begin, end = minute_of(entry)
        return sum(value for _, value in await self._sums(meter_id, customer, begin, end, {}))

    async def by_day(self, meter_id: str, customer: str, begin: date, end: date) -> Mapping[date, int]:
        """Stripe's sums of days of UTC, the last one excluded; raises as ``ids``."""
        by_day = {"value_grouping_window": "day"}
        sums = await self._sums(meter_id, customer, _midnight(begin), _midnight(end), by_day)
        return {at.date(): value for at, value in sums if value}

    async def _sums(
        self, meter_id: str, customer: str, begin: datetime, end: datetime, more: Mapping[str, str]
    ) -> list[tuple[datetime, int]]:
        params = {
            "customer": customer,
            "start_time": int(begin.timestamp()),
            "end_time": int(end.timestamp()),
            "limit": _MOST,
            **more,
        }
        answer = await self.api.ask(
            lambda v1: v1.billing.meters.event_summaries.list(meter_id, params), about=f"customer {customer}"
        )
        try:
            summaries = _Summaries.model_validate(answer.content).data
        except ValidationError as error:
            raise UnavailableError("Stripe's sums of a meter cannot be read") from error
        return [(datetime.fromtimestamp(each.start_time, UTC), round(each.aggregated_value)) for each in summaries]


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
