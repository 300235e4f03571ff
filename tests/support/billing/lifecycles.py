"""Many subscriptions at once, as they go at Stripe: the events of each, and what their agents are in the end.

Times are long ago, so that no grace is left when the last event has come.
"""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hermesops.model.plan import Plan
from tests.support.billing.stripe_events import event, invoice, subscription

PRICES = {"price_light": Plan.LIGHT, "price_heavy": Plan.HEAVY}
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)

RUNS, RESTS, ENDS = "runs", "rests", "ends"


@dataclass(frozen=True)
class Expected:
    """What a user has in the end.

    Attributes:
        how: ``runs``; ``rests``, suspended, or never begun because it was not paid by then; or ``ends``: there is none,
            or one that was scheduled to end.
        plan: Where it runs.
    """

    how: str
    plan: Plan | None = None


@dataclass
class Lifecycle:
    """What happens to one user at Stripe.

    Attributes:
        events: As Stripe makes them, in their order.
    """

    user: str
    chance: random.Random
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    price: str = "price_light"
    status: str = "none"
    now: datetime = BEGIN
    started_at: datetime = BEGIN

    @property
    def expected(self) -> Expected:
        """What is right after all events."""
        if self.status == "active":
            return Expected(RUNS, PRICES[self.price])
        return Expected(RESTS if self.status in {"past_due", "unpaid"} else ENDS)

    def go(self, count: int) -> None:
        """Go on until there are so many events, and not end in the middle of a second."""
        while len(self.events) < count:
            self.now += timedelta(hours=self.chance.randint(1, 400), seconds=self.chance.randint(0, 59))
            self._step()

    def _step(self) -> None:
        match self.status:
            case "none" | "canceled":
                self._begin()
            case "active":
                self.chance.choice([self._pay, self._pay, self._fail, self._change, self._change, self._cancel])()
            case "past_due":
                self.chance.choice([self._recover, self._recover, self._fail_again, self._change, self._give_up])()
            case "unpaid":
                self.chance.choice([self._recover, self._cancel])()

    def _begin(self) -> None:
        self.number += 1
        self.started_at = self.now
        self.price = self.chance.choice(list(PRICES))
        if self.chance.random() < 0.5:  # the card is asked for a second factor: all of one second
            self._tell("created", "incomplete")
            self._tell("updated", "active")
        else:
            self._tell("created", "active")
        self._bill("invoice.paid")

    def _pay(self) -> None:
        self._tell("updated", "active")
        self.now += timedelta(hours=1)
        self._bill("invoice.paid")

    def _fail(self) -> None:
        self._bill("invoice.payment_failed")
        self._tell("updated", "past_due")

    def _fail_again(self) -> None:
        self._bill("invoice.payment_failed")

    def _give_up(self) -> None:
        self._tell("updated", "unpaid")

    def _recover(self) -> None:
        self._tell("updated", "active")
        self._bill("invoice.paid")

    def _change(self) -> None:
        self.price = self.chance.choice([price for price in PRICES if price != self.price])
        self._tell("updated", self.status)

    def _cancel(self) -> None:
        self._tell("deleted", "canceled")

    def _tell(self, verb: str, status: str) -> None:
        self.status = status
        content = subscription(self._id, price=self.price, status=status, user=self.user, started_at=self.started_at)
        self.events.append(event(f"customer.subscription.{verb}", content, at=self.now, event_id=self._event_id))

    def _bill(self, kind: str) -> None:
        self.events.append(event(kind, invoice(self._id), at=self.now, event_id=self._event_id))

    @property
    def _id(self) -> str:
        return f"sub_{self.user[:8]}{self.number}"

    @property
    def _event_id(self) -> str:
        return f"evt_{self.user[:8]}{len(self.events):04}"


def lifecycles(users: int, events: int, seed: int) -> tuple[Lifecycle, ...]:
    """So many users with so many events in all, the same ones for each seed."""
    chance = random.Random(seed)  # noqa: S311 - chosen anew by its seed
    lives = []
    for number in range(users):
        user = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        life = Lifecycle(user, random.Random(chance.random()))  # noqa: S311 - as above
        life.go(events * (number + 1) // users - events * number // users)
        lives.append(life)
    return tuple(lives)


def delivered(lives: Sequence[Lifecycle], *, again: float, seed: int) -> Iterator[dict[str, Any]]:
    """All events in random order, a part of them twice.

    Args:
        again: Which part.
    """
    chance = random.Random(seed)  # noqa: S311 - as above
    deliveries = [sent for life in lives for sent in life.events]
    deliveries += chance.sample(deliveries, int(len(deliveries) * again))
    chance.shuffle(deliveries)
    yield from deliveries
