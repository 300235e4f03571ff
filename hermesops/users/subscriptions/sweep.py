"""The nightly sweep: compares all subscriptions at Stripe with what events said, and repairs what no event told.

A state that differs is recorded as if an event had just said it; the rules for events decide what follows. Nothing is
concluded from a subscription that Stripe does not list: that is a problem for an operator.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from hermesops.base.narration import counted
from hermesops.errors import Hint, RefusedError
from hermesops.model.billing.events import BillingFact
from hermesops.model.ids import UserId
from hermesops.store.registry import Registry
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.events import ReadEvent
from hermesops.users.billing.subscription import Subscription, subscription_of

MOST_PAGES = 1_000
"""Pages of 100 subscriptions."""

MOST_PROBLEMS = 50


@dataclass(frozen=True)
class Difference:
    """A subscription whose state at Stripe no event said.

    Attributes:
        fact: Its state at Stripe.
        words: The difference, for people.
    """

    fact: BillingFact
    words: str


@dataclass(frozen=True)
class SweepReport:
    """The result of a sweep.

    Attributes:
        count: Subscriptions that were compared.
        differences: Repaired unless it was a dry run.
        problems: For an operator, the first ones.
        problem_count: All of them.
    """

    count: int
    differences: tuple[Difference, ...]
    problems: tuple[str, ...]
    problem_count: int
    is_dry_run: bool

    @property
    def summary(self) -> str:
        """The report of a sweep in one line."""
        verb = "differ from the events" if self.is_dry_run else "repaired"
        numbers = f"{counted(self.count, 'subscription')} compared; {len(self.differences)} {verb}"
        return f"{numbers}, {counted(self.problem_count, 'problem')}"


def difference(fact: BillingFact, facts: Sequence[BillingFact]) -> Difference | None:
    """The difference between a subscription at Stripe and what events said of it; ``None`` for none. Pure.

    Args:
        facts: Of events about it, in the order in which they came.
    """
    before, after = subscription_of(facts), subscription_of([*facts, fact])
    if after is None or (before is not None and _state(before) == _state(after)):
        return None
    if before is None:
        return Difference(fact, f"no event has come; it is {after.status}")
    changes = [
        f"{name} {old or 'none'} -> {new or 'none'}"
        for name, old, new in zip(("status", "prices", "pause"), _state(before), _state(after), strict=True)
        if old != new
    ]
    return Difference(fact, ", ".join(changes))


def _state(subscription: Subscription) -> tuple[str, str, str]:
    return subscription.status.value, " and ".join(subscription.prices), subscription.pause


@dataclass(frozen=True)
class SeenSubscriptions:
    """Records states of subscriptions that were read at Stripe, and has them applied as events are.

    Attributes:
        settle: Opens the operations that a user's subscriptions request.
    """

    registry: Registry
    settle: Callable[[UserId], Awaitable[None]]

    def compare(self, at_stripe: Sequence[BillingFact]) -> list[Difference]:
        """Those of these states that no event said."""
        facts = self.registry.subscriptions.facts_of([fact.subscription_id for fact in at_stripe])
        differences = (difference(_named(fact), facts.get(fact.subscription_id, ())) for fact in at_stripe)
        return [each for each in differences if each is not None]

    def owner(self, subscription_id: str) -> UserId | None:
        """Whom the first event of a subscription names; ``None`` where none names anybody."""
        return self.registry.subscriptions.user_of(subscription_id)

    async def record(self, at_stripe: BillingFact) -> None:
        """Record one state if no event said it, and apply it. May be repeated."""
        for each in self.compare([at_stripe]):
            self.registry.subscriptions.add_seen(each.fact)
            if each.fact.user_id is not None:
                await self.settle(each.fact.user_id)


def _named(fact: BillingFact) -> BillingFact:
    """The state with an id of ours, as no event has it: the same for the same state of the same second."""
    state = sha256(f"{fact.status} {fact.prices} {fact.pause}".encode()).hexdigest()[:12]
    return replace(fact, event_id=f"seen_{fact.subscription_id}_{int(fact.created_at.timestamp())}_{state}")


@dataclass(frozen=True)
class SubscriptionSweep:
    """Sweeps over all subscriptions.

    Attributes:
        subscriptions: ``None`` where there is no key to Stripe's API.
    """

    registry: Registry
    subscriptions: Callable[[], StripeSubscriptions | None]
    seen: SeenSubscriptions

    @property
    def is_possible(self) -> bool:
        """Whether there is a key to Stripe's API."""
        return self.subscriptions() is not None

    async def run(self, *, is_dry_run: bool = False) -> SweepReport:
        """Compare all subscriptions, and repair what no event told; may be interrupted and repeated.

        Raises:
            RefusedError: There is no key, or it may not read subscriptions.
            UnavailableError: Stripe does not answer. What was compared before is repaired.
        """
        at_stripe = self.subscriptions()
        if at_stripe is None:
            hint = Hint(("secrets", "set", "billing.key", "--from", "FILE"))
            raise RefusedError("a sweep needs billing.key, which reads subscriptions at Stripe", hint=hint)
        differences: list[Difference] = []
        problems: list[str] = []
        listed: set[str] = set()
        count = 0
        async for page in at_stripe.pages(most=MOST_PAGES):
            facts, page_problems = self._of_page(page)
            count += len(page)
            problems += page_problems
            listed |= {fact.subscription_id for fact in facts}
            page_differences = self.seen.compare(facts)
            differences += page_differences
            if not is_dry_run:
                for each in page_differences:
                    await self.seen.record(each.fact)
        problems += self._not_listed(listed)
        return SweepReport(count, tuple(differences), tuple(problems[:MOST_PROBLEMS]), len(problems), is_dry_run)

    def _of_page(self, page: Sequence[ReadEvent | None]) -> tuple[list[BillingFact], list[str]]:
        """The readable states of a page, and its problems; subscriptions of other products are neither."""
        facts, problems = [], []
        for read in page:
            fact = read.fact if read else None
            if read is None:
                problems.append("a subscription at Stripe cannot be read")
            elif fact is None:
                problems += [read.problem] if read.problem else []
            elif self.seen.owner(fact.subscription_id) not in {None, fact.user_id}:
                problems.append(f"{fact.subscription_id} names another user than its first event")
            else:
                facts.append(fact)
        return facts, problems

    def _not_listed(self, listed: set[str]) -> list[str]:
        paying = self.registry.subscriptions.paying()
        return [
            f"instance {instance} is paid by {id_}, which Stripe does not list"
            for instance, id_ in sorted(paying.items())
            if id_ not in listed
        ]
