"""Keeps the statements that users' plan pages show: read at Stripe once an event has come, and after a request."""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.base.fan_out import Limits, problems
from hermesops.model.billing.statement import Statement
from hermesops.model.ids import UserId
from hermesops.store.registry import Registry
from hermesops.store.user_rows.plans import UserPlans
from hermesops.users.billing.decide import Policy, counting
from hermesops.users.billing.stripe_api import StripeRefusedError
from hermesops.users.billing.subscription import ENDED, Subscription, subscriptions_of
from hermesops.users.subscriptions.statement import StripeStatements

_AT_ONCE = Limits(at_once=4, slow_after_s=30.0, within_s=120.0)


@dataclass(frozen=True)
class PlanStatements:
    """Statements of users' subscriptions.

    Attributes:
        rows: Opens the key that seals statements, so that it is asked where there is something to seal.
        at_stripe: ``None`` where there is no key to Stripe's API.
    """

    registry: Registry
    rows: Callable[[], UserPlans]
    policy: Policy
    at_stripe: Callable[[], StripeStatements | None]

    def due(self) -> list[str]:
        """Users whose statement is older than an event about them; none where Stripe cannot be asked."""
        users = self.registry.subscriptions.outdated_statements()
        return list(users) if users and self.at_stripe() is not None else []

    async def run(self) -> dict[str, str]:
        """Read every statement that is due; why not, by user, empty where it was read."""
        return dict(await problems({user: UserId(user) for user in self.due()}, self.refresh, _AT_ONCE))

    async def refresh(self, user_id: UserId) -> None:
        """Read a user's statement at Stripe and keep it.

        Raises:
            UnavailableError: Stripe does not answer.
            RefusedError: The key may not read it.
        """
        at_stripe, read_at = self.at_stripe(), self.registry.now()
        if at_stripe is None:
            return
        subscription = self.shown(user_id)
        plan = subscription.plan(self.policy.prices) if subscription else None
        try:
            statement = await at_stripe.read(subscription, plan) if subscription else Statement()
        except StripeRefusedError:  # deleted there, or of before another account
            statement = Statement(subscription.status.value if subscription else "")
        self.rows().put(user_id, statement, read_at)

    def shown(self, user_id: UserId) -> Subscription | None:
        """The subscription that a user's page shows: the one that gives an agent, else the newest one."""
        facts = [event.fact for event in self.registry.billing.of_user(user_id) if event.fact is not None]
        subscriptions = subscriptions_of(user_id, facts)
        counts = counting(subscriptions, self.policy, now=self.registry.now())
        return counts or newest(subscriptions)


def newest(subscriptions: tuple[Subscription, ...]) -> Subscription | None:
    """The newest subscription, one that has not ended before one that has; ``None`` for none. Pure."""
    return max(subscriptions, key=lambda each: (each.status not in ENDED, each.started_at, each.id), default=None)
