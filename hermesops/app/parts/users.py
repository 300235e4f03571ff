"""Billing and the use of models."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.app.users_container import UsersContainer
    from hermesops.users.billing.directory import BillingEvents
    from hermesops.users.billing.door import StripeDoor
    from hermesops.users.billing.model_usage import ModelUsage
    from hermesops.users.billing.service import Billing


def billing_events(container: "Container") -> "BillingEvents":
    """Finds Stripe's events in the registry, without asking Stripe."""
    from hermesops.users.billing.directory import BillingEvents

    return BillingEvents(container.registry)


def stripe_door(container: "Container | UsersContainer") -> "StripeDoor | None":
    """Takes Stripe's events; ``None`` where there is no signing secret."""
    from hermesops.access.secrets.catalog import BILLING_SECRET
    from hermesops.store.registry.repositories.billing import receive
    from hermesops.users.billing.door import StripeDoor

    secrets = container.secrets
    if secrets.find(BILLING_SECRET) is None:
        return None

    def lines() -> list[str]:
        return [line.strip() for line in secrets.read(BILLING_SECRET).splitlines() if line.strip()]

    return StripeDoor(lines, partial(receive, container.user_rows), container.env.settings.billing.tolerance_s)


def model_usage(container: "Container") -> "ModelUsage":
    """Sums the use of models by agents."""
    from hermesops.users.billing.model_usage import ModelUsage

    return ModelUsage(container.registry)


def billing(connected: "Connected") -> "Billing":
    """Applies Stripe's events about subscriptions to users' agents."""
    from hermesops.users.billing.decide import Policy
    from hermesops.users.billing.secrets import rules_of, subscriptions_at_stripe
    from hermesops.users.billing.service import Billing
    from hermesops.users.billing.settlement import PaidAgents

    container = connected.container
    settings, is_production = container.env.settings.billing, container.env.is_production
    agents = PaidAgents(
        container.registry,
        Policy(settings.prices, timedelta(days=settings.grace_days), settings.suspending_pauses),
        is_graceful=bool(container.termination_policy.grace),
        keeps_backup=container.termination_policy.requires_backup,
        admission=lambda: connected.admission,
        requests=lambda: connected.instance_requests,
        leave=connected.operations.leave,
        hold_lease=container.hold_lease,
        current=partial(subscriptions_at_stripe, settings, container.secrets, is_production=is_production),
    )
    rules = partial(rules_of, settings, container.secrets, is_production=is_production)
    return Billing(container.registry, rules, timedelta(days=settings.keep_days), agents)
