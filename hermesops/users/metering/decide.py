"""Decisions about metered usage: new entries of the ledger, and the next step of each. Pure.

Stripe remembers an event's identifier for a day at least. Within that time an event is sent again until Stripe answers;
later Stripe's own sum of the entry's minute says whether it arrived.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from hermesops.model.billing.metering import (
    KNOWN_FOR,
    TAKEN_FOR,
    Entered,
    Entry,
    EntryState,
    LedgerEntry,
    Meter,
    Metered,
)
from hermesops.model.ids import InstanceId

LOOKED_BACK = timedelta(days=34)
"""Age of usage that is still entered: its event is to reach Stripe before it is too old there."""

REPEATED_FOR = KNOWN_FOR - timedelta(hours=4)
"""For how long one event is sent again; after the rest of the day Stripe's sum has whatever arrived."""

EVERY = timedelta(hours=1)
"""Time between entries of one instance and day, so that usage of models makes 24 events a day at most."""

_MINUTE = timedelta(minutes=1)


EnteredByKey = Mapping[tuple[InstanceId, Meter, date], Entered]


def new_entries(
    instances: Iterable[Metered],
    used: Mapping[tuple[InstanceId, date], int],
    entered: EnteredByKey,
    meters: Iterable[Meter],
    *,
    begin: date,
    now: datetime,
) -> list[Entry]:
    """The entries that the ledger lacks.

    Args:
        used: Micros that each instance used on a day; sums that only grow.
        entered: Sums of the ledger's entries.
        meters: Those that are reported.
        begin: Nothing before this day is metered.
    """
    wanted = frozenset(meters)
    earliest = max(begin, (now - LOOKED_BACK).date())
    entries: list[Entry] = []
    for instance in instances:
        since = max(earliest, instance.since)
        if Meter.INSTANCE_DAYS in wanted and instance.is_running and since <= now.date():
            entries += _of_day(instance, entered, now)
        if Meter.MODEL_MICROS in wanted:
            entries += _of_usage(instance, used, entered, since, now)
    return entries


def _of_day(instance: Metered, entered: EnteredByKey, now: datetime) -> list[Entry]:
    """A day counts once, however long the agent ran on it."""
    if (instance.instance_id, Meter.INSTANCE_DAYS, now.date()) in entered:
        return []
    return [_entry(instance, Meter.INSTANCE_DAYS, now.date(), 1, 1, now)]


def _of_usage(
    instance: Metered,
    used: Mapping[tuple[InstanceId, date], int],
    entered: EnteredByKey,
    since: date,
    now: datetime,
) -> list[Entry]:
    """The growth of each day since its last entry; one entry a pass, since each has its own minute."""
    days = sorted(day for of, day in used if of == instance.instance_id and since <= day <= now.date())
    for day in days:
        before = entered.get((instance.instance_id, Meter.MODEL_MICROS, day))
        growth = used[instance.instance_id, day] - (before.quantity if before else 0)
        is_rested = before is None or now - before.last_at >= EVERY
        if growth > 0 and is_rested:
            return [_entry(instance, Meter.MODEL_MICROS, day, (before.last if before else 0) + 1, growth, now)]
    return []


def _entry(instance: Metered, meter: Meter, day: date, sequence: int, quantity: int, now: datetime) -> Entry:
    # The next minute, not this one: Stripe counts nothing of before the second in which a subscription began.
    at = now.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
    return Entry(instance.instance_id, instance.user_id, instance.subscription_id, meter, day, sequence, quantity, at)


@dataclass(frozen=True)
class Send:
    """Send the event; the identifier is the same each time."""


@dataclass(frozen=True)
class LookUp:
    """Ask Stripe for its sum of the entry's minute: the identifier may be forgotten there."""


@dataclass(frozen=True)
class Rest:
    """Leave it until Stripe's sum has whatever arrived."""


@dataclass(frozen=True)
class Refuse:
    """Give it up.

    Attributes:
        why: For people.
    """

    why: str


Step = Send | LookUp | Rest | Refuse


def next_step(row: LedgerEntry, *, now: datetime) -> Step:
    """The next step of an entry that is not known to be at Stripe."""
    is_too_old = now - row.entry.measured_at >= TAKEN_FOR - EVERY
    if row.first_tried_at is None:
        return Refuse("Stripe takes usage of the last 35 days, and this is older") if is_too_old else Send()
    tried_for = now - row.first_tried_at
    if tried_for < REPEATED_FOR:
        return Send()
    return Rest() if tried_for < KNOWN_FOR else LookUp()


def looked_up(entry: Entry, at_stripe: int, *, now: datetime) -> Step | None:
    """The step after Stripe's sum of the entry's minute; ``None`` where the event is there."""
    if at_stripe == entry.quantity:
        return None
    if at_stripe:
        return Refuse(f"Stripe has {at_stripe} in the minute of these {entry.quantity}")
    return Refuse("it never reached Stripe, and is too old now") if now - entry.measured_at >= TAKEN_FOR else Send()


def minute_of(entry: Entry) -> tuple[datetime, datetime]:
    """The minute that is the entry's alone: its begin, and its end."""
    return entry.measured_at, entry.measured_at + _MINUTE


Sums = Mapping[tuple[str, Meter, date], int]
"""Sums by customer, meter and the day of UTC on which they were measured."""


def sums_of(rows: Iterable[LedgerEntry]) -> tuple[Sums, frozenset[tuple[str, Meter, date]]]:
    """Sums of entries that were reported, and the keys of sums in which an entry's fate is not known."""
    sums: dict[tuple[str, Meter, date], int] = {}
    unknown = set()
    for row in rows:
        key = (row.customer, row.entry.meter, row.entry.measured_at.astimezone(UTC).date())
        if row.state is EntryState.REPORTED:
            sums[key] = sums.get(key, 0) + row.entry.quantity
        elif row.first_tried_at is not None:
            unknown.add(key)
    return sums, frozenset(unknown)


def differences(ours: Sums, theirs: Sums) -> Sequence[str]:
    """The sums that differ between the ledger and Stripe, a line for each."""
    return [
        f"{customer}, {meter} of {day}: the ledger reported {ours.get(key, 0)}, Stripe has {theirs.get(key, 0)}"
        for key in sorted(ours.keys() | theirs.keys())
        for customer, meter, day in [key]
        if ours.get(key, 0) != theirs.get(key, 0)
    ]
