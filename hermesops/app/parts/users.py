"""Billing and the use of models."""

from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.app.users_container import UsersContainer
    from hermesops.model.operation import Operation
    from hermesops.store.user_rows.api_figures import ApiFigures
    from hermesops.store.user_rows.metering import MeteredSums
    from hermesops.store.user_rows.plans import UserPlans
    from hermesops.store.user_rows.requests import UserRequests
    from hermesops.users.agent_settings.copies import SettingsCopying
    from hermesops.users.agent_settings.service import CopiedSettings, Patch
    from hermesops.users.api_status.service import ApiStatus
    from hermesops.users.billing.current import StripeSubscriptions
    from hermesops.users.billing.decide import Policy
    from hermesops.users.billing.directory import BillingEvents
    from hermesops.users.billing.door import StripeDoor
    from hermesops.users.billing.model_usage import ModelUsage
    from hermesops.users.billing.service import Billing
    from hermesops.users.billing.settlement import PaidAgents
    from hermesops.users.billing.stripe_api import StripeApi
    from hermesops.users.callers.directory import CallingAgents
    from hermesops.users.metering.service import Metering, MeteringPolicy
    from hermesops.users.metering.stripe_meters import StripeMeters
    from hermesops.users.subscriptions.plans import PlanStatements
    from hermesops.users.subscriptions.statement import StripeStatements
    from hermesops.users.subscriptions.sweep import SeenSubscriptions, SubscriptionSweep
    from hermesops.users.user_requests.carrier import AtStripe, RequestCarrier
    from hermesops.users.user_requests.directory import UserDirectory
    from hermesops.users.user_requests.service import RequestDirectory

PLAN_PAGE = "/hermes-max/chat#/plan"
"""Page of the plan, to which browsers come back from Stripe."""


def billing_events(container: "Container") -> "BillingEvents":
    """Finds Stripe's events in the registry, without asking Stripe."""
    from hermesops.users.billing.directory import BillingEvents

    return BillingEvents(container.registry)


def stripe_door(container: "Container | UsersContainer") -> "StripeDoor | None":
    """Takes Stripe's events; ``None`` where there is no signing secret."""
    from hermesops.access.secrets.catalog import BILLING_SECRET
    from hermesops.store.registry.repositories.billing.events import receive
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


def stripe(container: "Container") -> "StripeApi | None":
    """Stripe's API, or its stand-in in a local world; ``None`` where there is no key. Read anew each time."""
    from hermesops.users.billing.secrets import stripe_api

    env = container.env
    url = env.settings.billing.base_url or (container.endpoint.stripe_url if env.is_local else "")
    return stripe_api(env.settings.billing, container.secrets, is_production=env.is_production, url=url)


def billing_policy(container: "Container") -> "Policy":
    """The settings of billing, as decisions take them."""
    from hermesops.users.billing.decide import Policy

    settings = container.env.settings.billing
    prices = settings.prices or (container.endpoint.stripe_prices if container.env.is_local else {})
    return Policy(prices, timedelta(days=settings.grace_days), settings.suspending_pauses)


def at_stripe(container: "Container") -> "StripeSubscriptions | None":
    """Subscriptions at Stripe; ``None`` where there is no key."""
    from hermesops.users.billing.secrets import subscriptions_at_stripe

    return subscriptions_at_stripe(container.env.settings.billing, stripe(container))


def user_requests(container: "Container | UsersContainer") -> "UserRequests":
    """Requests of users, as the users' API adds and reads them."""
    from hermesops.store.user_rows.requests import UserRequests

    return UserRequests(container.user_rows, container.messages)


def user_plans(container: "Container | UsersContainer") -> "UserPlans":
    """Statements of users' subscriptions, as they were last read from Stripe."""
    from hermesops.store.user_rows.plans import UserPlans

    return UserPlans(container.user_rows, container.messages)


def request_directory(container: "Container") -> "RequestDirectory":
    """Users' requests as operators see them."""
    from hermesops.users.user_requests.service import RequestDirectory

    return RequestDirectory(container.registry)


def calling_agents(container: "Container") -> "CallingAgents":
    """Agents of others that may call users' agents, as operators see them."""
    from hermesops.users.callers.directory import CallingAgents

    return CallingAgents(container.registry)


def user_directory(container: "Container") -> "UserDirectory":
    """Users with their agents, subscriptions and requests."""
    from hermesops.users.user_requests.directory import UserDirectory

    return UserDirectory(container.registry)


def billing(connected: "Connected") -> "Billing":
    """Applies Stripe's events about subscriptions to users' agents."""
    from hermesops.users.billing.secrets import rules_of
    from hermesops.users.billing.service import Billing

    container = connected.container
    settings = container.env.settings.billing
    rules = partial(rules_of, settings, container.secrets, is_production=container.env.is_production)
    return Billing(container.registry, rules, timedelta(days=settings.keep_days), connected.paid_agents)


def paid_agents(connected: "Connected") -> "PaidAgents":
    """Agents of users with a subscription."""
    from hermesops.users.billing.settlement import PaidAgents

    container = connected.container
    return PaidAgents(
        container.registry,
        container.billing_policy,
        is_graceful=bool(container.termination_policy.grace),
        keeps_backup=container.termination_policy.requires_backup,
        admission=lambda: connected.admission,
        requests=lambda: connected.instance_requests,
        leave=connected.operations.leave,
        hold_lease=container.hold_lease,
        current=partial(at_stripe, container),
    )


def sweep(connected: "Connected") -> "SubscriptionSweep":
    """Compares all subscriptions at Stripe with what events said."""
    from hermesops.users.subscriptions.sweep import SubscriptionSweep

    container = connected.container
    return SubscriptionSweep(container.registry, partial(at_stripe, container), connected.seen_subscriptions)


def seen_subscriptions(connected: "Connected") -> "SeenSubscriptions":
    """Records subscriptions that were read at Stripe."""
    from hermesops.users.subscriptions.sweep import SeenSubscriptions

    return SeenSubscriptions(connected.container.registry, connected.paid_agents.settle)


def plan_statements(container: "Container") -> "PlanStatements":
    """Keeps what users' plan pages show."""
    from hermesops.users.subscriptions.plans import PlanStatements
    from hermesops.users.subscriptions.statement import StripeStatements

    def at() -> "StripeStatements | None":
        api = stripe(container)
        return StripeStatements(api) if api else None

    return PlanStatements(container.registry, lambda: container.user_plans, container.billing_policy, at)


def copied_settings(container: "Container | UsersContainer") -> "CopiedSettings":
    """Settings of users' agents as workers copied them."""
    from hermesops.store.user_rows.settings_copies import SettingsCopies
    from hermesops.users.agent_settings.service import CopiedSettings

    return CopiedSettings(SettingsCopies(container.user_rows, container.messages))


def settings_copying(container: "Container") -> "SettingsCopying":
    """Copies settings for the users' API."""
    from hermesops.store.user_rows.settings_copies import SettingsCopies
    from hermesops.users.agent_settings.copies import SettingsCopying

    return SettingsCopying(container.registry, lambda: SettingsCopies(container.user_rows, container.messages))


def api_status(container: "Container") -> "ApiStatus":
    """State of the users' API as operators see it."""
    from hermesops.users.api_status.service import ApiStatus

    return ApiStatus(container.registry)


def api_figures(container: "Container | UsersContainer") -> "ApiFigures":
    """Figures that processes of the API write."""
    from hermesops.store.user_rows.api_figures import ApiFigures

    return ApiFigures(container.user_rows)


def metering_policy(container: "Container") -> "MeteringPolicy":
    """The settings of metering; the stand-in's meters in a local world that sets none."""
    from hermesops.users.metering.service import MeteringPolicy

    settings = container.env.settings.billing
    if not settings.meters and container.env.is_local:
        return MeteringPolicy(container.endpoint.stripe_meters, date.min)
    since = date.fromisoformat(settings.metered_since) if settings.metered_since else None
    return MeteringPolicy(settings.meters, since)


def metering(container: "Container") -> "Metering":
    """Meters the use of users' agents."""
    from hermesops.users.metering.service import Metering
    from hermesops.users.metering.stripe_meters import StripeMeters
    from hermesops.users.subscriptions.checkout import StripePages

    policy = container.metering_policy

    def at() -> "StripeMeters | None":
        api = stripe(container)
        return StripeMeters(api, policy.event_names) if api else None

    async def customer_of(subscription_id: str) -> str:
        api = stripe(container)
        user_key = container.env.settings.billing.user_key
        return await StripePages(api, user_key).customer_of(subscription_id) if api else ""

    return Metering(container.registry, policy, at, customer_of)


def metered_sums(container: "Container | UsersContainer") -> "MeteredSums":
    """The ledger's sums, as users see theirs."""
    from hermesops.store.user_rows.metering import MeteredSums

    return MeteredSums(container.user_rows)


def request_carrier(connected: "Connected") -> "RequestCarrier":
    """Carries out what users ask for."""
    from hermesops.model.ids import UserId
    from hermesops.users.agent_settings.service import AgentSettings
    from hermesops.users.subscriptions.checkout import StripePages
    from hermesops.users.user_requests.carrier import AtStripe, RequestCarrier
    from hermesops.users.user_requests.decide import sold_prices

    container = connected.container
    settings = container.env.settings

    def pages() -> "AtStripe | None":
        api, subscriptions = stripe(container), at_stripe(container)
        if not (api and subscriptions):
            return None
        local = container.endpoint.stripe_metered_prices if container.env.is_local else frozenset[str]()
        metered = tuple(sorted(settings.billing.metered_prices or local))
        return AtStripe(StripePages(api, settings.billing.user_key, metered), subscriptions)

    async def configure(user: str, patch: "Patch", reason: str) -> "Operation":
        operation = await connected.instance_requests.configure(UserId(user), patch, reason=reason)
        connected.operations.leave(operation)
        return operation

    return RequestCarrier(
        registry=container.registry,
        rows=lambda: container.user_requests,
        policy=container.billing_policy,
        prices=sold_prices(container.billing_policy.prices, settings.billing.sold),
        at_stripe=pages,
        seen=connected.seen_subscriptions,
        settings=AgentSettings(
            container.registry, configure, connected.instance_requests.refuse_provider, container.model_providers
        ),
        back=lambda origin: f"{settings.web.origin or origin}{PLAN_PAGE}",
        refresh=container.plan_statements.refresh,
        hold_lease=container.hold_lease,
    )
