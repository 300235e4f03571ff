"""Users' plans on a real registry, with the stand-in of Stripe over HTTP; what is opened are rows."""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.routing import Mount

from hermesops.agents.model_providers.service import ModelProviders
from hermesops.base.network.public_hosts import PublicNetwork, internet
from hermesops.errors import RefusedError
from hermesops.localcloud.vendors.stripe.books import PRICES
from hermesops.localcloud.vendors.stripe.meters import METERS
from hermesops.localcloud.vendors.stripe.server import PREFIX, LocalStripe
from hermesops.model.billing.user_request import RequestKind, UserRequest
from hermesops.model.ids import UserId
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.plans import UserPlans
from hermesops.store.user_rows.requests import UserRequests
from hermesops.users.agent_settings.service import AgentSettings, Patch
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.decide import Policy
from hermesops.users.billing.events import Rules
from hermesops.users.billing.service import Billing
from hermesops.users.billing.settlement import PaidAgents
from hermesops.users.billing.stripe_api import StripeApi
from hermesops.users.metering.service import Metering, MeteringPolicy
from hermesops.users.metering.stripe_meters import StripeMeters
from hermesops.users.subscriptions.checkout import StripePages
from hermesops.users.subscriptions.plans import PlanStatements
from hermesops.users.subscriptions.statement import StripeStatements
from hermesops.users.subscriptions.sweep import SeenSubscriptions, SubscriptionSweep
from hermesops.users.user_requests.carrier import AtStripe, RequestCarrier
from hermesops.vendor.model_providers.client import ModelProviderClient
from tests.support.billing.stripe_events import USER, fresh_secret
from tests.support.fakes.parts import part
from tests.support.real.relay import HOST
from tests.support.real.stores.registries import KEYS, placed

_USER = UserId(USER)
KEY = "rk_test_of_this_test"
POLICY = Policy({price: Plan(plan) for price, (plan, _) in PRICES.items()}, timedelta(days=3))
EVENT_NAMES = {meter.counts: meter.event_name for meter in METERS}
SOLD = {plan: price for price, plan in POLICY.prices.items()}


@dataclass
class PlanWorld:
    """What workers do for users, over the rows of one registry.

    Attributes:
        secret: Signs the stand-in's events.
        is_sold: Whether there is a key to Stripe's API.
        network: By which model providers are asked; ``None`` for the internet.
    """

    registry: Registry
    database: Database
    stripe: LocalStripe
    stripe_url: str
    secret: str
    user: UserId = _USER
    is_sold: bool = True
    problem: str = ""
    network: PublicNetwork | None = None
    opened: list[str] = field(default_factory=list)

    # Parts

    @property
    def rows(self) -> UserRequests:
        return UserRequests(self.database, KEYS)

    @property
    def plans(self) -> UserPlans:
        return UserPlans(self.database, KEYS)

    @property
    def api(self) -> StripeApi:
        return StripeApi(KEY, self.stripe_url)

    @property
    def providers(self) -> ModelProviders:
        return ModelProviders(self.registry, ModelProviderClient(self.network or internet()))

    def subscriptions(self) -> StripeSubscriptions | None:
        return StripeSubscriptions(self.api, "user_id") if self.is_sold else None

    def agents(self, registry: Registry | None = None) -> PaidAgents:
        here = registry or self.registry
        return PaidAgents(
            here,
            POLICY,
            is_graceful=True,
            keeps_backup=True,
            admission=lambda: part(admit=self._admit),
            requests=part,
            leave=lambda _operation: None,
            hold_lease=lambda subject: LeaseKeeper(self.registry, subject),
            current=self.subscriptions,
        )

    def billing(self) -> Billing:
        rules = Rules((self.secret,), 300, livemode=False)
        return Billing(self.registry, lambda: rules, timedelta(days=14), self.agents())

    def statements(self) -> PlanStatements:
        at = (lambda: StripeStatements(self.api)) if self.is_sold else (lambda: None)
        return PlanStatements(self.registry, lambda: self.plans, POLICY, at)

    def metering(self, registry: Registry | None = None) -> Metering:
        """What meters usage; a test may give it a registry that dies."""
        at = (lambda: StripeMeters(self.api, EVENT_NAMES)) if self.is_sold else (lambda: None)
        policy = MeteringPolicy(EVENT_NAMES, date(2020, 1, 1))
        return Metering(registry or self.registry, policy, at, StripePages(self.api, "user_id").customer_of)

    def sweep(self) -> SubscriptionSweep:
        return SubscriptionSweep(self.registry, self.subscriptions, self.seen())

    def seen(self) -> SeenSubscriptions:
        return SeenSubscriptions(self.registry, self.agents().settle)

    def carrier(self, registry: Registry | None = None) -> RequestCarrier:
        """What carries requests out; a test may give it a registry that dies."""
        here = registry or self.registry

        def at_stripe() -> AtStripe | None:
            subscriptions = self.subscriptions()
            pages = StripePages(self.api, "user_id", tuple(meter.price for meter in METERS))
            return AtStripe(pages, subscriptions) if subscriptions else None

        return RequestCarrier(
            registry=here,
            rows=lambda: self.rows,
            policy=POLICY,
            prices=SOLD,
            at_stripe=at_stripe,
            seen=SeenSubscriptions(here, self.agents(here).settle),
            settings=AgentSettings(here, self._configure, self._refuse_provider, self.providers),
            back=lambda origin: f"{origin}/hermes-max/chat#/plan",
            refresh=self.statements().refresh,
            hold_lease=lambda subject: LeaseKeeper(self.registry, subject),
        )

    async def _admit(self, user: str, plan: Plan, *, subscription: str) -> tuple[object, object]:
        instance = placed(self.registry, user, plan)
        self.registry.subscriptions.bind(instance.id, subscription)
        intent = {"user": user, "plan": plan.value, "machine_name": instance.machine_name}
        subject = f"instance/{instance.id}"
        opened = self.registry.operations.open(OperationKind.PROVISION, subject, intent=intent, instance_id=instance.id)
        return instance, opened

    async def _refuse_provider(self, _user: str) -> None:
        if self.problem:
            raise RefusedError(self.problem)

    async def _configure(self, user: str, patch: Patch, reason: str) -> Operation:
        """As ``InstanceRequests.configure``, where the machine needs nothing."""
        if self.problem:
            raise RefusedError(self.problem)
        instance = self.registry.instances.find(user)
        before = self.registry.instance_secrets.settings(instance.id)
        settings = patch(before)
        intent = {"user": user, "reason": reason, "changed": ["personality"], "settings": {}}
        subject = f"instance/{instance.id}"
        return self.registry.settings_changes.change(instance.id, settings, subject=subject, intent=intent, why=reason)

    # What users and Stripe do

    def ask(self, kind: RequestKind, key: str = "", **body: object) -> UserRequest:
        request = self.rows.add(self.user, kind, key or f"k{uuid4().hex}", {"origin": "http://localhost", **body})
        assert request is not None
        return request

    def now(self, request: UserRequest) -> UserRequest:
        current = self.rows.get(request.user_id, request.id)
        assert current is not None
        return current

    def answer(self, request: UserRequest) -> Mapping[str, Any]:
        return self.rows.answer(self.now(request))

    async def subscribed(self, plan: str = "light") -> str:
        """Let the user buy a plan without any event of it; the subscription's id."""
        request = self.ask(RequestKind.SUBSCRIBE, plan=plan)
        await self.carrier().run()
        session: str = self.answer(request)["session"]
        bought: str = self.stripe.books.pay(session)["subscription"]
        return bought


@contextlib.asynccontextmanager
async def plan_world(
    registry: Registry, database: Database, clock: Callable[[], float] = time.time
) -> AsyncIterator[PlanWorld]:
    """Plans of one user.

    Args:
        clock: Of the stand-in of Stripe, in seconds since 1970.
    """
    from tests.support.users.api import served  # noqa: PLC0415 - it imports this package

    listener = socket.create_server((HOST, 0))
    secret = fresh_secret()
    url = f"http://{HOST}:{listener.getsockname()[1]}{PREFIX}"
    stripe = LocalStripe(url, secret, clock=clock)
    async with served(Starlette(routes=[Mount(PREFIX, routes=stripe.routes())]), listener):
        yield PlanWorld(registry, database, stripe, url, secret)
    await stripe.close()
