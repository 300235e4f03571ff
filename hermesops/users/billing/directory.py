"""Stripe's events as the registry has them; nothing is decided here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermesops.model.billing.events import BillingEvent, BillingState
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class BillingEvents:
    """Finds events; nobody but the registry is asked."""

    registry: Registry

    def list(self, *, state: BillingState | None = None, user: str = "", limit: int = 50) -> Sequence[BillingEvent]:
        """Events, the newest first.

        Args:
            state: Only those; ``None`` for all.
            user: Only of this user, by id or alias.

        Raises:
            UsageError: There is no such user.
        """
        states = (state,) if state else ()
        user_id = self.registry.users.resolve(user).id if user else None
        return self.registry.billing.list(states=states, user_id=user_id, limit=limit)

    def get(self, text: str) -> BillingEvent:
        """An event by its number or Stripe's id.

        Raises:
            UsageError: There is none.
        """
        return self.registry.billing.find(text)

    def others(self, event: BillingEvent) -> Sequence[BillingEvent]:
        """The other events of an event's user; empty where no event has named the user."""
        owner = self.registry.subscriptions.user_of(event.fact.subscription_id) if event.fact else None
        return [other for other in self.registry.billing.of_user(owner) if other.id != event.id] if owner else []

    def count(self) -> Mapping[BillingState, int]:
        """Count all events in the registry by state."""
        return self.registry.billing.count()
