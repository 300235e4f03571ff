"""Settles users' subscriptions: observes, decides, and opens operations for the workers.

Everything is looked at anew each time, so that it may be killed anywhere and repeated at any time.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

import structlog

from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.requests.provision import ProvisionAdmission
from hermesops.errors import HermesError
from hermesops.model.billing.events import BillingEvent, BillingFact, BillingState, user_lease
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import UserId
from hermesops.model.operation import LeaseHeldError, Operation, OperationKind, OperationStatus
from hermesops.store.operations.kinds.table import KINDS
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.billing.events import Outcome
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.decide import (
    Agent,
    Bind,
    Decision,
    Policy,
    Provision,
    Request,
    Resize,
    Resume,
    SetAside,
    Settled,
    Suspend,
    Terminate,
    Wait,
    decide,
)
from hermesops.users.billing.subscription import owned_by, subscriptions_of

_OURS = re.compile(r"billing sub_\w+: ")
"""What the reasons of operations begin with that are opened here."""

_STEPS = 4
"""Most looks of one pass: a subscription is bound before what follows from that."""

_UNDER_WAY = timedelta(seconds=15)
_REFUSED = timedelta(minutes=2)

_KINDS: dict[type[Request], frozenset[OperationKind]] = {
    Provision: frozenset({OperationKind.PROVISION}),
    Resize: frozenset({OperationKind.RESIZE, OperationKind.RELOCATE}),
    Suspend: frozenset({OperationKind.SUSPEND}),
    Resume: frozenset({OperationKind.RESUME, OperationKind.RELOCATE}),
    Terminate: frozenset({OperationKind.TERMINATE, OperationKind.SCHEDULE_TERMINATION}),
}
"""Operations that a request opens."""

_UNDONE = frozenset({OperationStatus.FAILED, OperationStatus.ABANDONED})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PaidAgents:
    """Agents of users with a subscription.

    Attributes:
        is_graceful: Whether a termination can be cancelled for some days; else it is at once.
        keeps_backup: Whether one that is at once needs a last backup.
        leave: Leaves an operation to the workers.
        current: Returns ``None`` where Stripe is not asked.
    """

    registry: Registry
    policy: Policy
    is_graceful: bool
    keeps_backup: bool
    admission: Callable[[], ProvisionAdmission]
    requests: Callable[[], InstanceRequests]
    leave: Callable[[Operation], None]
    hold_lease: Callable[[str], AbstractAsyncContextManager[object]]
    current: Callable[[], StripeSubscriptions | None] = lambda: None

    async def settle(self, user_id: UserId) -> None:
        """Open the operations that a user's subscriptions request, and record the events' outcomes; failures wait."""
        try:
            async with self.hold_lease(user_lease(user_id)):
                for _ in range(_STEPS):
                    if await self._step(user_id):
                        return
        except LeaseHeldError:
            _log.info("billing_user_is_taken", user=user_id)  # another process looks at the same events

    async def _step(self, user_id: UserId) -> bool:
        """Do one step of a user's settlement; returns whether it was the last one for now."""
        registry = self.registry
        events = registry.billing.of_user(user_id)
        facts = [event.fact for event in events if event.fact is not None]
        theirs = owned_by(user_id, facts)
        pending = [event for event in events if _is_pending(event, user_id, theirs)]
        if not pending:
            return True
        try:
            decision = await self._decide(user_id, facts)
            if isinstance(decision, Bind):
                self._bind(user_id, decision)
                return False
            outcome = await self._outcome(user_id, decision, pending)
        except LeaseHeldError as error:
            outcome = self._waits(error.message, _UNDER_WAY)
        except HermesError as error:
            outcome = self._waits(error.message, _REFUSED)
        registry.billing.decide([event.id for event in pending], outcome, subject=f"user/{user_id}")
        return True

    async def _decide(self, user_id: UserId, facts: Sequence[BillingFact]) -> Decision:
        decision = self._decide_by(user_id, facts)
        if not isinstance(decision, Request) or (current := self.current()) is None:
            return decision
        # Events may be late or lost: before anything is done, Stripe says how things are.
        ids = sorted(owned_by(user_id, facts))
        return self._decide_by(user_id, [*facts, *[await current.get(id_) for id_ in ids]])

    def _decide_by(self, user_id: UserId, facts: Sequence[BillingFact]) -> Decision:
        registry = self.registry
        instance = registry.instances.of_user(user_id)
        paid_by = registry.subscriptions.of_user(user_id)
        mine = paid_by.pop(instance.id, "") if instance else ""
        return decide(
            subscriptions_of(user_id, facts),
            self._agent(instance, mine) if instance else None,
            self.policy,
            now=registry.now(),
            served=frozenset(paid_by.values()),
        )

    def _agent(self, instance: Instance, subscription_id: str) -> Agent:
        unfinished = self.registry.operations.list(unfinished=True, instance_id=instance.id)
        return Agent(
            instance.status,
            instance.plan,
            subscription_id,
            instance.grace_until,
            frozenset(operation.kind for operation in unfinished),
            suspended_by_billing=self._is_ours(instance, OperationKind.SUSPEND),
            ended_by_billing=self._is_ours(instance, OperationKind.SCHEDULE_TERMINATION),
        )

    def _is_ours(self, instance: Instance, kind: OperationKind) -> bool:
        """Whether the last operation of a kind was opened here."""
        last = self.registry.operations.list(instance_id=instance.id, kind=kind, limit=1)
        return any(_OURS.match(str(operation.intent.get("reason", ""))) for operation in last)

    def _bind(self, user_id: UserId, decision: Bind) -> None:
        instance = self.registry.instances.of_user(user_id)
        if instance is not None:
            self.registry.subscriptions.bind(instance.id, decision.subscription_id, why="it is paid by that one now")

    async def _outcome(self, user_id: UserId, decision: Decision, pending: Sequence[BillingEvent]) -> Outcome:
        match decision:
            case Settled(why=why):
                return Outcome(BillingState.APPLIED, why)
            case SetAside(why=why):
                return Outcome(BillingState.SET_ASIDE, why)
            case Wait(why=why, until=None):
                return self._waits(why, _UNDER_WAY)
            case Wait(why=why, until=until):
                return Outcome(BillingState.WAITING, why, due_at=until)
            case Bind():
                raise AssertionError("it was bound before")
        if (failed := self._failed(user_id, decision, pending)) is not None:
            title = KINDS[failed.kind].title
            return Outcome(
                BillingState.SET_ASIDE, f"operation {failed.id} ({title}) has {failed.status}: {failed.outcome}"
            )
        operation = await self._open(user_id, decision)
        self.leave(operation)
        why = f"operation {operation.id} ({KINDS[operation.kind].title}) is left to the workers"
        return Outcome(BillingState.WAITING, why, operation.id, self.registry.now() + _UNDER_WAY)

    def _failed(self, user_id: UserId, request: Request, pending: Sequence[BillingEvent]) -> Operation | None:
        """The operation that was opened for the same before, and was not done."""
        opened, kinds = {event.operation_id for event in pending}, _KINDS[type(request)]
        instance = self.registry.instances.of_user(user_id)
        operations = self.registry.operations.list(instance_id=instance.id) if instance else ()
        return next(
            (
                operation
                for operation in operations
                if operation.id in opened and operation.kind in kinds and operation.status in _UNDONE
            ),
            None,
        )

    async def _open(self, user_id: UserId, request: Request) -> Operation:
        """Open the requested operation, or find it unfinished."""
        requests = self.requests()
        reason = f"billing {request.subscription_id}: "
        match request:
            case Provision(plan=plan, subscription_id=subscription):
                _, operation = await self.admission().admit(user_id, plan, subscription=subscription)
                return operation
            case Resize(plan=plan):
                why = f"{reason}its price is of plan {plan}"
                # A machine's disk cannot shrink, so a smaller plan is on another machine.
                shrinks = requests.shrinks(self.registry.instances.find(user_id), plan)
                return await requests.resize(user_id, plan, onto_new_machine=shrinks, reason=why)
            case Suspend(why=why):
                return await requests.suspend(user_id, keep=None, reason=f"{reason}{why}")
            case Resume(cancels_termination=undo):
                return await requests.resume(user_id, undo=undo, reason=f"{reason}it is paid")
            case Terminate():
                why = f"{reason}it has ended"
                if self.is_graceful:
                    return await requests.schedule_termination(user_id, reason=why)
                return await requests.terminate(user_id, keeps_backup=self.keeps_backup, reason=why)
            case _ as never:
                assert_never(never)

    def _waits(self, why: str, pause: timedelta) -> Outcome:
        return Outcome(BillingState.WAITING, why, due_at=self.registry.now() + pause)


def _is_pending(event: BillingEvent, user_id: UserId, theirs: frozenset[str]) -> bool:
    """Whether an event is to be decided; not one that names another user than the subscription's first one."""
    fact = event.fact
    if fact is None or fact.subscription_id not in theirs or fact.user_id not in {None, user_id}:
        return False
    return event.state in {BillingState.WAITING, BillingState.SET_ASIDE}
