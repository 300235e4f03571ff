"""Entries of the ledger of metered usage: each is one event for a meter at Stripe."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from hermesops.model.ids import InstanceId, UserId

TAKEN_FOR = timedelta(days=35)
"""Age up to which Stripe takes an event.

Source: https://docs.stripe.com/api/billing/meter-event/create, parameter ``timestamp``.
"""

KNOWN_FOR = timedelta(hours=24)
"""Time for which Stripe remembers identifiers at least; as above, parameter ``identifier``."""


class Meter(StrEnum):
    """Things that are counted for each user, and reported to Stripe."""

    INSTANCE_DAYS = "instance_days"
    """Days of UTC on which a subscription's agent ran."""

    MODEL_MICROS = "model_micros"
    """Use of models, in millionths of a US dollar."""


class EntryState(StrEnum):
    """How far an entry of the ledger has come on its way to Stripe."""

    PENDING = "pending"
    """Not reported, or not known to be."""

    REPORTED = "reported"
    REFUSED = "refused"
    """It will never be reported; an operator has to look."""


@dataclass(frozen=True)
class Metered:
    """An instance that a subscription pays for.

    Attributes:
        since: Day of UTC on which the subscription began.
        is_running: Whether the instance runs now.
    """

    instance_id: InstanceId
    user_id: UserId
    subscription_id: str
    since: date
    is_running: bool


@dataclass(frozen=True)
class Entered:
    """Entries of one instance, meter and day, summed.

    Attributes:
        last: The greatest sequence.
        last_at: When the last one was measured.
    """

    quantity: int
    last: int
    last_at: datetime


@dataclass(frozen=True)
class Entry:
    """Usage of one subscription, which is reported once.

    Attributes:
        day: Of UTC, to which the usage belongs.
        sequence: Number among the entries of the same instance, meter and day, from 1.
        quantity: At least 1.
        measured_at: A whole minute, and the only one of the user's entries for the meter in it: so Stripe's sum of
            that minute says whether the entry arrived.
    """

    instance_id: InstanceId
    user_id: UserId
    subscription_id: str
    meter: Meter
    day: date
    sequence: int
    quantity: int
    measured_at: datetime

    @property
    def identifier(self) -> str:
        """The name by which Stripe refuses the same event a second time."""
        return f"hermes-{self.instance_id}-{self.meter}-{self.day:%Y%m%d}-{self.sequence}"


@dataclass(frozen=True)
class LedgerEntry:
    """An entry with its state.

    Attributes:
        customer: Stripe's customer to whom it is reported; empty before the first try.
        first_tried_at: Begin of the tries since it was last known not to be at Stripe; ``None`` before the first.
        detail: Why it is not reported, for people.
    """

    entry: Entry
    state: EntryState = EntryState.PENDING
    customer: str = ""
    first_tried_at: datetime | None = None
    detail: str = ""


@dataclass(frozen=True)
class MeteredSum:
    """A user's usage by one meter in a period.

    Attributes:
        quantity: All of it; ``reported`` is the part that Stripe has.
        last_at: Time of the last entry.
    """

    meter: Meter
    quantity: int
    reported: int
    last_at: datetime
