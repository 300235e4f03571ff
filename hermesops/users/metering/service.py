"""Metering: adds usage to the ledger, reports each entry to Stripe once, and compares the sums.

Each request stands between two writes, so that it may be killed anywhere: what is not known is asked again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from hermesops.base.fan_out import Limits, problems
from hermesops.base.narration import counted
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.billing.metering import Entry, Meter
from hermesops.store.registry import Registry
from hermesops.users.metering.decide import (
    LOOKED_BACK,
    Rest,
    Sums,
    differences,
    new_entries,
    next_step,
    sums_of,
)
from hermesops.users.metering.reporter import Reporter
from hermesops.users.metering.stripe_meters import StripeMeters

_AT_ONCE = Limits(at_once=4, slow_after_s=30.0, within_s=300.0)

_COMPARED_DAYS = 7
_SETTLED = timedelta(hours=1)
"""Time until Stripe's sums have what it took. Source: they are eventually consistent, usually within minutes."""


@dataclass(frozen=True)
class MeteringPolicy:
    """Settings of metering.

    Attributes:
        event_names: Names of meters' events at Stripe; empty where nothing is metered.
        since: Nothing before this day of UTC is metered; ``None`` where it is not set.
    """

    event_names: Mapping[Meter, str]
    since: date | None = None


@dataclass(frozen=True)
class Comparison:
    """The ledger's sums beside Stripe's.

    Attributes:
        customers: How many were compared.
        differences: A line for each sum that differs.
    """

    customers: int
    differences: Sequence[str]

    @property
    def summary(self) -> str:
        """A line for operators: compared customers and found differences."""
        return f"{counted(self.customers, 'customer')} compared, {counted(len(self.differences), 'difference')}"


@dataclass(frozen=True)
class Metering:
    """Meters the use of users' agents.

    Attributes:
        at_stripe: ``None`` where there is no key to Stripe's API.
        customer_of: Stripe's customer of a subscription.
    """

    registry: Registry
    policy: MeteringPolicy
    at_stripe: Callable[[], StripeMeters | None]
    customer_of: Callable[[str], Awaitable[str]]

    @property
    def is_on(self) -> bool:
        """Whether anything is metered: settings name at least one meter."""
        return bool(self.policy.event_names)

    def due(self) -> list[str]:
        """Pending work: usage to add to the ledger, and events to report; none where nothing is metered."""
        if not self.is_on:
            return []
        now = self.registry.now()
        pending = (row for row in self.registry.metering.pending() if row.entry.meter in self.policy.event_names)
        steps = (next_step(row, now=now) for row in pending)
        to_report = sum(not isinstance(step, Rest) for step in steps)
        to_add = len(self._new_entries(now))
        return [
            *([f"{counted(to_add, 'usage event')} to add"] if to_add else []),
            *([f"{counted(to_report, 'usage event')} to report"] if to_report and self.at_stripe() else []),
        ]

    async def run(self) -> Mapping[str, str]:
        """Add new usage and report it; returns why not, by user, empty where all of theirs was reported.

        Raises:
            UsageError: A setting is missing.
        """
        self.add()
        at_stripe = self.at_stripe()
        if at_stripe is None:
            return {}
        reporter = Reporter(self.registry, at_stripe, self.customer_of)
        users = {str(row.entry.user_id): row.entry.user_id for row in self.registry.metering.pending()}
        return await problems(users, reporter.report, _AT_ONCE)

    def add(self) -> int:
        """Add the usage that the ledger lacks; returns how many entries are new.

        Raises:
            UsageError: A setting is missing.
        """
        return self.registry.metering.enter(self._new_entries(self.registry.now())) if self.is_on else 0

    async def compare(self) -> Comparison:
        """Compare the ledger with Stripe's sums of the last seven whole days.

        Raises:
            RefusedError: There is no key, or it may not read meters.
            UnavailableError: Stripe does not answer.
        """
        at_stripe = self.at_stripe()
        if at_stripe is None:
            hint = Hint(("secrets", "set", "billing.key", "--from", "FILE"))
            raise RefusedError("comparing needs billing.key, which reads meters at Stripe", hint=hint)
        end = (self.registry.now() - _SETTLED).replace(hour=0, minute=0, second=0, microsecond=0)
        begin = end - timedelta(days=_COMPARED_DAYS)
        ours, unknown = sums_of(self.registry.metering.measured(begin, end))
        customers = sorted({customer for customer, _, _ in ours})
        theirs = await _sums_at_stripe(at_stripe, customers, begin.date(), end.date())
        lines = differences(_without(ours, unknown), _without(theirs, unknown))
        return Comparison(len(customers), lines)

    def _new_entries(self, now: datetime) -> list[Entry]:
        policy = self.policy
        if policy.since is None:
            hint = Hint(("settings", "set", "billing.metered_since", "YYYY-MM-DD"))
            raise UsageError("missing billing.metered_since: the day from which usage is metered", hint=hint)
        earliest = (now - LOOKED_BACK).date()
        ledger = self.registry.metering
        instances, used, entered = ledger.instances(earliest), ledger.used(earliest), ledger.entered(earliest)
        return new_entries(instances, used, entered, policy.event_names, begin=policy.since, now=now)


async def _sums_at_stripe(at_stripe: StripeMeters, customers: Sequence[str], begin: date, end: date) -> Sums:
    meter_ids = await at_stripe.ids() if customers else {}
    return {
        (customer, meter, day): quantity
        for customer in customers
        for meter, meter_id in meter_ids.items()
        for day, quantity in (await at_stripe.by_day(meter_id, customer, begin, end)).items()
    }


def _without(sums: Sums, unknown: frozenset[tuple[str, Meter, date]]) -> Sums:
    return {key: quantity for key, quantity in sums.items() if key not in unknown}
