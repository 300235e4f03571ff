"""Service of Stripe's events: reads them, from the queue or at their receipt, and has them settled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import Hint, RefusedError, require_reason
from hermesops.model.billing.events import MOST_BYTES, MOST_SIGNATURE, BillingEvent, BillingState, Delivery
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.billing.events import Outcome
from hermesops.users.billing.events import ReadEvent, Rules, read_event
from hermesops.users.billing.settlement import PaidAgents

NAMED_WITHIN = timedelta(days=4)
"""For how long an event waits for one that names its user: Stripe repeats deliveries for three days."""

_AT_ONCE = Limits(at_once=8, slow_after_s=60.0, within_s=600.0)
_TOO_LARGE = "it is larger than any event of Stripe's"
_NOT_NAMED = "no event has named the user of its subscription"


@dataclass(frozen=True)
class Billing:
    """Stripe's events of one environment.

    Attributes:
        rules: Read when an event is: where the secret is missing, events stay where they are.
        keep: For how long what was not understood is kept.
    """

    registry: Registry
    rules: Callable[[], Rules]
    keep: timedelta
    agents: PaidAgents

    async def apply(self, body: bytes, signature: str) -> BillingEvent:
        """Record one event at its receipt, and open the operations that it requests.

        Raises:
            RefusedError: It is not Stripe's, or not meant for this environment; only the audit log says that it came.
        """
        registry = self.registry
        try:
            event = _verified(Delivery(body, signature, registry.now()), self.rules())
        except RefusedError as refused:
            after = {"bytes": len(body)}
            registry.audit.append("billing_event_refused", "billing", after=after, why=refused.message)
            raise
        number = self._record(registry.billing.receive(body, signature), event)
        await self._look(number)
        return registry.billing.get(number)

    def due(self) -> list[str]:
        """Names of the pending work: queued events, users to decide about and old events."""
        billing = self.registry.billing
        old = billing.count_old()
        return [
            *(f"event {number}" for number in (*billing.queued(), *billing.unnamed(NAMED_WITHIN))),
            *(f"user {user_id}" for user_id in billing.due_users()),
            *([f"{old} old events"] if old else []),
        ]

    async def run(self, *, everybody: bool = False) -> str:
        """Read queued events, and open the operations that users' subscriptions request; a summary in a line.

        Args:
            everybody: Look at users whose events are to wait longer, too.

        Raises:
            RefusedError: There is no signing secret, and events wait to be read.
        """
        billing = self.registry.billing
        read = self._read_all()
        billing.decide(billing.unnamed(NAMED_WITHIN), Outcome(BillingState.SET_ASIDE, _NOT_NAMED), subject="billing")
        users = billing.due_users(everybody=everybody)
        await fan_out(users, self.agents.settle, _AT_ONCE)
        billing.forget(self.keep)
        counts = billing.count()
        waiting, aside = counts.get(BillingState.WAITING, 0), counts.get(BillingState.SET_ASIDE, 0)
        return f"events: {read} read, {waiting} waiting, {aside} set aside; users looked at: {len(users)}"

    async def retry(self, event: BillingEvent, *, reason: str) -> BillingEvent:
        """Look at an event again that was not applied.

        Raises:
            UsageError: There is no reason.
            RefusedError: It was applied, or nothing is left of it that could be read.
        """
        require_reason(reason, "billing", "retry", str(event.id))
        has_ended = event.state in {BillingState.REFUSED, BillingState.DISMISSED}
        is_gone = has_ended and not event.has_body and event.fact is None
        if event.state is BillingState.APPLIED or is_gone:
            why = "its received data are deleted" if is_gone else "nothing is left to do"
            raise RefusedError(
                f"event {event.id} is {event.state.value.replace('_', ' ')}: {why}",
                hint="Stripe's dashboard sends an event again, for 30 days" if is_gone else "",
            )
        if self._names_another(event):
            raise RefusedError(
                f"event {event.id} names another user than its subscription's first event",
                hint="correct the subscription's metadata at Stripe, which sends another event",
            )
        self.registry.billing.retry(event.id, why=reason)
        self._read_all()
        await self._look(event.id)
        return self.registry.billing.get(event.id)

    async def retry_all(self, *, reason: str) -> list[BillingEvent]:
        """Settle every event that was set aside again; returns the outcomes.

        Raises:
            UsageError: There is no reason.
        """
        require_reason(reason, "billing", "retry", "--all")
        billing = self.registry.billing
        aside = billing.list(states=(BillingState.SET_ASIDE,), limit=10_000)
        for event in aside:
            # One look at a user's events decides all of them.
            if billing.get(event.id).state is BillingState.SET_ASIDE and not self._names_another(event):
                await self.retry(event, reason=reason)
        return [billing.get(event.id) for event in aside]

    def dismiss(self, events: Sequence[BillingEvent], *, reason: str) -> list[BillingEvent]:
        """Dismiss events that were set aside; their data still counts towards the subscription.

        Raises:
            UsageError: There is no reason.
            RefusedError: One of them was not set aside; none is dismissed.
        """
        require_reason(reason, "billing", "dismiss", *(str(event.id) for event in events))
        billing = self.registry.billing
        for event in events:
            if event.state not in {BillingState.SET_ASIDE, BillingState.DISMISSED}:
                raise RefusedError(
                    f"event {event.id} is {event.state} and needs no review",
                    hint=Hint(("billing", "list", "--state", "set_aside"), "shows those that may be dismissed"),
                )
        billing.dismiss([event.id for event in events], why=reason)
        return [billing.get(event.id) for event in events]

    def _names_another(self, event: BillingEvent) -> bool:
        """Whether an event names another user than the first one of its subscription."""
        if event.fact is None or event.fact.user_id is None:
            return False
        return self.registry.subscriptions.user_of(event.fact.subscription_id) != event.fact.user_id

    async def _look(self, number: int) -> None:
        """Settle the subscriptions of an event's user."""
        fact = self.registry.billing.get(number).fact
        if fact is not None and (user_id := self.registry.subscriptions.user_of(fact.subscription_id)):
            await self.agents.settle(user_id)

    def _read_all(self) -> int:
        """Read every queued event; how many."""
        billing, count = self.registry.billing, 0
        while numbers := billing.queued():
            rules, refused = self.rules(), []
            for number in numbers:
                try:
                    self._read(number, rules)
                except RefusedError as error:
                    refused.append((number, error.message))
            billing.refuse(refused)
            count += len(numbers)
        return count

    def _read(self, number: int, rules: Rules) -> int:
        """Read one queued event; the number of its row, which is another one's where it came before.

        Raises:
            RefusedError: It is not Stripe's, or not meant for this environment.
        """
        delivery = self.registry.billing.delivery(number)
        if delivery is None:
            raise RefusedError(_TOO_LARGE)
        return self._record(number, read_event(delivery, rules, now=datetime.now(UTC)))

    def _record(self, number: int, event: ReadEvent) -> int:
        """Record an event's data; the number of its row, an earlier row's for a repeated delivery."""
        outcome = self._outcome_of(event)
        keeps_body = outcome.state is BillingState.SET_ASIDE and event.fact is None
        return self.registry.billing.read(number, event.id, event.type, event.fact, outcome, keeps_body=keeps_body)

    def _outcome_of(self, read: ReadEvent) -> Outcome:
        fact = read.fact
        if fact is None:
            state = BillingState.SET_ASIDE if read.problem else BillingState.APPLIED
            return Outcome(state, read.problem or read.note, due_at=self.registry.now() + self.keep)
        owner = self.registry.subscriptions.user_of(fact.subscription_id)
        if owner is None and fact.user_id is None:
            return Outcome(BillingState.WAITING, _NOT_NAMED)
        if fact.user_id is not None and owner not in {None, fact.user_id}:
            why = f"it names another user than the first event of its subscription, which names {owner}"
            return Outcome(BillingState.SET_ASIDE, why)
        return Outcome(BillingState.WAITING, "it was read")


def _verified(delivery: Delivery, rules: Rules) -> ReadEvent:
    """Read an event of Stripe's that is meant for this environment.

    Raises:
        RefusedError: It is none.
    """
    if len(delivery.body) > MOST_BYTES or len(delivery.signature) > MOST_SIGNATURE:
        raise RefusedError(_TOO_LARGE)
    return read_event(delivery, rules, now=datetime.now(UTC))
