"""Carries out users' requests: observes, decides, does one step, records it.

Each look begins from the rows and from Stripe, so that it may be killed anywhere and repeated at any time. Audit
entries name the user as the actor.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import assert_never

import structlog

from hermesops.agents.model_providers.service import UnverifiedKeyError
from hermesops.base.fan_out import Limits, as_they_come
from hermesops.base.narration import counted
from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.billing.checkout import CheckoutStatus
from hermesops.model.billing.user_request import (
    RequestKind,
    RequestState,
    UserRequest,
    actor_of,
    requests_lease,
)
from hermesops.model.ids import OperationId, UserId
from hermesops.model.operation import LeaseHeldError, OperationKind
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.log import acting_as
from hermesops.store.registry.repositories.user_requests import RequestOutcome
from hermesops.store.user_rows.requests import UserRequests
from hermesops.users.agent_settings.service import AgentSettings, ChangedMeanwhileError, Verdict
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.decide import Policy, counting
from hermesops.users.billing.subscription import Subscription, subscriptions_of
from hermesops.users.subscriptions.checkout import StripePages
from hermesops.users.subscriptions.plans import newest
from hermesops.users.subscriptions.sweep import SeenSubscriptions
from hermesops.users.user_requests.decide import (
    Action,
    BeginCheckout,
    CloseEarlier,
    Configure,
    Done,
    EndWithPeriod,
    Facts,
    LookAtCheckout,
    OpenPortal,
    RecordSubscription,
    Refuse,
    Wait,
    after_failure,
    decide,
)

_STEPS = 10
"""Most steps of one look: a request that needs more goes on with the next look."""

_VERDICT = "verdict"
"""Name in a request's sealed answer: what a model provider has said about the key of a request."""

_AT_ONCE = Limits(at_once=8, slow_after_s=5.0, within_s=120.0, begun_within_s=600.0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AtStripe:
    """Calls of Stripe that users' requests need."""

    pages: StripePages
    subscriptions: StripeSubscriptions


@dataclass(frozen=True)
class RequestCarrier:
    """Carries out users' requests.

    Attributes:
        rows: Opens and seals their content; opens the key for that, too.
        prices: Stripe's prices by which users buy plans.
        at_stripe: ``None`` where there is no key to Stripe's API.
        back: Address of the plan page, to which browsers come back, for the origin that a request names.
        refresh: Reads a user's statement anew.
        hold_lease: Holds the lease of a subject.
    """

    registry: Registry
    rows: Callable[[], UserRequests]
    policy: Policy
    prices: Mapping[Plan, str]
    at_stripe: Callable[[], AtStripe | None]
    seen: SeenSubscriptions
    settings: AgentSettings
    back: Callable[[str], str]
    refresh: Callable[[UserId], Awaitable[None]]
    hold_lease: Callable[[str], AbstractAsyncContextManager[object]] = field(repr=False)

    def due(self) -> list[str]:
        """Names of the pending work: users with a request, and old rows."""
        old = self.registry.user_requests.count_old()
        users = [f"user {user_id}" for user_id in self.registry.user_requests.due_users()]
        callers = self.registry.callers.unrecorded()
        keys = [f"{counted(callers, 'key')} of callers"] if callers else []
        return [*users, *([f"{counted(old, 'old request')}"] if old else []), *keys]

    async def run(self) -> str:
        """Look at every request that is due, those that come meanwhile as well; a summary in a line."""
        count = await as_they_come(self.registry.user_requests.due_users, self.carry, _AT_ONCE)
        self.registry.user_requests.forget()
        self.registry.callers.record()
        return f"requests of {counted(count, 'user')} looked at"

    async def carry(self, user_id: UserId) -> None:
        """Look at a user's requests that are due, the oldest first."""
        try:
            async with self.hold_lease(requests_lease(user_id)):
                with acting_as(actor_of(user_id)):
                    for request in self.registry.user_requests.due(user_id):
                        await self._carry(request)
        except LeaseHeldError:
            _log.info("user_requests_are_taken", user=user_id)  # another process carries them out

    async def _carry(self, request: UserRequest) -> None:
        """Decide and do, until the request ends or waits."""
        try:
            facts = self._facts(request)
            for _ in range(_STEPS):
                decision = decide(request, facts, now=self.registry.now())
                if isinstance(decision, Refuse | Done | Wait):
                    self._record(request, decision)
                    return
                result = await self._do(request, decision, facts)
                if isinstance(result, RequestOutcome):
                    self.registry.user_requests.decide(request, result)
                    return
                facts = result
        except HermesError as error:
            _log.warning("user_request_not_decided", request=request.id, kind=request.kind, why=error.message)
            self._record(request, after_failure(request, now=self.registry.now()), is_failed_try=True)

    def _record(self, request: UserRequest, decision: Refuse | Done | Wait, *, is_failed_try: bool = False) -> None:
        match decision:
            case Refuse(code=code, why=why):
                outcome = RequestOutcome(RequestState.REFUSED, why, code)
            case Done(words=words):
                outcome = RequestOutcome(RequestState.DONE, words)
            case Wait(words=words, pause=pause):
                # A step that failed in passing changes no state: the user sees what was reached.
                state = request.state if is_failed_try else RequestState.WAITING
                outcome = RequestOutcome(state, words, pause=pause, is_failed_try=is_failed_try)
        self.registry.user_requests.decide(request, outcome)

    # Observed

    def _facts(self, request: UserRequest) -> Facts:
        registry, body = self.registry, self.rows().body(request)
        if request.body and not body:
            raise RefusedError("its content is sealed with another messages.key than this process has")
        subscriptions = self._subscriptions(request.user_id)
        operation = registry.operations.get(request.operation_id) if request.operation_id else None
        session = self.rows().answer(request).get("session")
        return Facts(
            body=body,
            subscription=counting(subscriptions, self.policy, now=registry.now()),
            last=newest(subscriptions),
            prices=self.prices if self.at_stripe() else {},
            session=session if isinstance(session, str) else "",
            earlier=self._earlier(request),
            operation=operation.status if operation else None,
        )

    def _subscriptions(self, user_id: UserId) -> tuple[Subscription, ...]:
        events = self.registry.billing.of_user(user_id)
        return subscriptions_of(user_id, [event.fact for event in events if event.fact is not None])

    def _earlier(self, request: UserRequest) -> tuple[str, ...]:
        """The checkout sessions of other requests of the user that have not ended."""
        if request.kind != RequestKind.SUBSCRIBE:
            return ()
        others = self.registry.user_requests.open_of(request.user_id, RequestKind.SUBSCRIBE)
        sessions = (self.rows().answer(other).get("session") for other in others if other.id != request.id)
        return tuple(session for session in sessions if isinstance(session, str))

    # Done

    async def _do(self, request: UserRequest, action: Action, facts: Facts) -> RequestOutcome | Facts:
        """Do one step: returns the outcome for the row, or the facts for the next step."""
        if isinstance(action, Configure):
            return await self._configure(request, action)
        stripe = self.at_stripe()
        if stripe is None:
            raise RefusedError("there is no key to Stripe's API")
        match action:
            case CloseEarlier(session=session):
                return await self._close(stripe, session, facts)
            case BeginCheckout(price=price, paid_before=paid_before):
                return await self._begin(stripe, request, price, paid_before)
            case LookAtCheckout(session=session):
                return replace(facts, checkout=await stripe.pages.observe(session))
            case RecordSubscription(subscription_id=id_):
                return await self._bought(stripe, request, id_, facts)
            case EndWithPeriod(subscription_id=id_):
                await stripe.pages.end_with_period(id_)
                await self._refreshed(request.user_id)
                return RequestOutcome(RequestState.DONE, "your plan ends with the period that is paid")
            case OpenPortal(subscription_id=id_):
                customer = await stripe.pages.customer_of(id_)
                url = await stripe.pages.portal(customer, back=self._back(request))
                return self._answered(request, RequestState.DONE, {"url": url}, "the page is open for some minutes")
            case _ as never:
                assert_never(never)

    async def _close(self, stripe: AtStripe, session: str, facts: Facts) -> Facts | RequestOutcome:
        """Close an earlier request's page; one that was paid meanwhile ends this request."""
        checkout = await stripe.pages.observe(session)
        if checkout.status is CheckoutStatus.COMPLETE:
            why = "you have just paid for a plan; it is being confirmed"
            return RequestOutcome(RequestState.REFUSED, why, "has-plan")
        if checkout.status is CheckoutStatus.OPEN:
            await stripe.pages.close(session)
        return replace(facts, earlier=tuple(other for other in facts.earlier if other != session))

    async def _begin(self, stripe: AtStripe, request: UserRequest, price: str, paid_before: str) -> RequestOutcome:
        customer = await stripe.pages.customer_of(paid_before) if paid_before else ""
        checkout = await stripe.pages.begin(
            request.id,
            request.user_id,
            price,
            back=self._back(request),
            customer=customer,
            asked_at=request.created_at,
        )
        answer = {"session": checkout.id, "url": checkout.url}
        return self._answered(request, RequestState.WAITING, answer, "pay at the checkout page")

    async def _bought(self, stripe: AtStripe, request: UserRequest, subscription_id: str, facts: Facts) -> Facts:
        """Record what was bought, whose event may be late or lost."""
        await self.seen.record(await stripe.subscriptions.get(subscription_id))
        await self._refreshed(request.user_id)  # before the request ends: the page looks again until then
        subscriptions = self._subscriptions(request.user_id)
        return replace(
            facts,
            subscription=counting(subscriptions, self.policy, now=self.registry.now()),
            bought=next((each for each in subscriptions if each.id == subscription_id), None),
        )

    def _answered(
        self, request: UserRequest, state: RequestState, answer: Mapping[str, object], words: str
    ) -> RequestOutcome:
        pause = timedelta(seconds=5) if state is RequestState.WAITING else None
        return RequestOutcome(state, words, answer=self.rows().seal_answer(request, answer), pause=pause)

    async def _configure(self, request: UserRequest, action: Configure) -> RequestOutcome:
        """Open the operation that gives the agent its settings, or find the one that an earlier look opened."""
        pause = timedelta(seconds=1)
        opened = self._opened(request)
        if opened is None:
            try:
                opened = OperationId(await self._change(request, action))
            except ChangedMeanwhileError as error:
                return RequestOutcome(RequestState.REFUSED, error.message, "changed-meanwhile")
            except UnverifiedKeyError as error:  # a user is asked, instead of a provider that may never answer
                return RequestOutcome(RequestState.REFUSED, error.message, "unverified")
            except UsageError as error:
                return RequestOutcome(RequestState.REFUSED, error.message, "invalid")
            except RefusedError as error:
                return RequestOutcome(RequestState.REFUSED, error.message, "refused")
        words = "your agent gets the new settings"
        return RequestOutcome(RequestState.WAITING, words, operation_id=opened, pause=pause)

    async def _change(self, request: UserRequest, action: Configure) -> str:
        """Change the settings; the verdict of a model provider stays with the request, which may be tried again."""
        answer = self.rows().answer(request).get(_VERDICT)
        known = {str(name): str(value) for name, value in answer.items()} if isinstance(answer, dict) else {}

        def keep(verdict: Verdict) -> None:
            sealed = self.rows().seal_answer(request, {_VERDICT: dict(verdict)})
            kept = RequestOutcome(request.state, request.detail, answer=sealed, pause=timedelta(seconds=1))
            self.registry.user_requests.decide(request, kept)

        reason = _reason_of(request)
        return await self.settings.change(
            request.user_id, action.changes, tag=action.tag, reason=reason, known=known, keep=keep
        )

    def _opened(self, request: UserRequest) -> OperationId | None:
        """The operation of this request; the reason of each names its request."""
        instance = self.registry.instances.of_user(request.user_id)
        if instance is None:
            return None
        operations = self.registry.operations.list(instance_id=instance.id, kind=OperationKind.CONFIGURE, limit=20)
        is_its = (operation for operation in operations if operation.intent.get("reason") == _reason_of(request))
        return next((operation.id for operation in is_its), None)

    async def _refreshed(self, user_id: UserId) -> None:
        """Show the change at once; without it, the event of the change does."""
        try:
            await self.refresh(user_id)
        except HermesError as error:
            _log.info("statement_not_read", user=user_id, why=error.message)

    def _back(self, request: UserRequest) -> str:
        origin = self.rows().body(request).get("origin")
        return self.back(origin if isinstance(origin, str) else "")


def _reason_of(request: UserRequest) -> str:
    return f"request {request.id} of the user"
