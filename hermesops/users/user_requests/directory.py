"""A user as operators see one: agent, subscriptions and requests, without anything that the user said."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from hermesops.model.billing.metering import MeteredSum
from hermesops.model.billing.user_request import UserRequest
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.user import User, parse_user
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry import Registry
from hermesops.users.billing.subscription import Subscription, subscriptions_of

_MOST = 20
_METERED_FOR = timedelta(days=31)


@dataclass(frozen=True)
class UserOverview:
    """A user, and what the registry knows about them.

    Attributes:
        instance: Their agent; ``None`` for none.
        paid_by: The subscription that their agent is bound to; empty for none.
        subscriptions: All, by their ids.
        requests: The last ones, the newest first.
        metered: Usage of the last 31 days by meter.
    """

    user: User
    instance: Instance | None
    paid_by: str
    subscriptions: Sequence[Subscription]
    requests: Sequence[UserRequest]
    metered: Sequence[MeteredSum] = ()


@dataclass(frozen=True)
class UserDirectory:
    """Finds users; nobody but the registry is asked."""

    registry: Registry

    def get(self, text: str) -> UserOverview:
        """A user by id or alias; who has only asked to subscribe has no row of their own, and is known by id.

        Raises:
            UsageError: There is none.
        """
        registry, user = self.registry, parse_user(text)
        rows = {row.alias if user.alias else row.id: row for row in registry.users.list()}
        known = rows.get(user.alias or user.id)
        user_id = (known or user).id
        instance = registry.instances.of_user(user_id)
        facts = [event.fact for event in registry.billing.of_user(user_id) if event.fact is not None]
        subscriptions = subscriptions_of(user_id, facts)
        requests = registry.user_requests.list(user_id=user_id, limit=_MOST)
        if not (known or subscriptions or requests):
            raise unknown_name("user", text)
        paid_by = registry.subscriptions.paying().get(instance.id, "") if instance else ""
        metered = registry.metering.sums(user_id, registry.now() - _METERED_FOR)
        return UserOverview(known or user, instance, paid_by, subscriptions, requests, metered)
