"""Decision about a user's agent, from the user's subscriptions. Pure.

It compares two states, what is paid for and what is there, so that it may be asked again at any time: after each event,
after a kill, after an operation has ended or failed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.users.billing.subscription import ENDED, FAILING, PAID, Status, Subscription


@dataclass(frozen=True)
class Agent:
    """A user's agent, as the registry has it.

    Attributes:
        subscription_id: By which it is paid for; empty for none.
        ends_at: When it is terminated unless that is cancelled; ``None`` for one that stays.
        unfinished: Operations of it that have not ended.
        suspended_by_billing: Whether the last suspension was asked for here, and by no operator.
        ended_by_billing: The same of a scheduled termination.
    """

    status: InstanceStatus
    plan: Plan
    subscription_id: str = ""
    ends_at: datetime | None = None
    unfinished: frozenset[OperationKind] = frozenset()
    suspended_by_billing: bool = False
    ended_by_billing: bool = False


@dataclass(frozen=True)
class Policy:
    """Settings of billing.

    Attributes:
        prices: Plans by the ids of their prices at Stripe.
        grace: From the first day without a payment to the suspension.
        suspending_pauses: Values of Stripe's ``pause_collection`` for which the agent is suspended, as ``void``.
    """

    prices: Mapping[str, Plan]
    grace: timedelta
    suspending_pauses: frozenset[str] = frozenset({"void"})


@dataclass(frozen=True)
class Provision:
    """Give the user an agent, or finish the one that was begun."""

    plan: Plan
    subscription_id: str


@dataclass(frozen=True)
class Bind:
    """Record that another subscription pays for the agent."""

    subscription_id: str


@dataclass(frozen=True)
class Resize:
    """Request to change the agent's plan."""

    plan: Plan
    subscription_id: str


@dataclass(frozen=True)
class Suspend:
    """Suspend the agent.

    Attributes:
        why: For people.
    """

    subscription_id: str
    why: str


@dataclass(frozen=True)
class Resume:
    """Request to resume a suspended agent, or to cancel its termination."""

    subscription_id: str
    cancels_termination: bool = False


@dataclass(frozen=True)
class Terminate:
    """Request to schedule the agent's termination."""

    subscription_id: str


@dataclass(frozen=True)
class Wait:
    """Look again later.

    Attributes:
        until: Nothing changes before; ``None`` where that is not known.
    """

    why: str
    until: datetime | None = None


@dataclass(frozen=True)
class SetAside:
    """Decision to leave the events to an operator."""

    why: str


@dataclass(frozen=True)
class Settled:
    """The agent is as it is paid for."""

    why: str


class Due(StrEnum):
    """Entitlements that a subscription gives its user."""

    NOTHING = "nothing"
    """It was never paid."""

    RUNS = "runs"
    IN_GRACE = "in grace"
    """Nobody pays, and the days of grace are not over: the agent is neither suspended nor resumed."""

    SUSPENDED = "suspended"
    ENDS = "ends"


def due(subscription: Subscription, policy: Policy, *, now: datetime) -> Due:
    """The entitlement of a subscription's user now, by the subscription's newest state alone.

    No invoice changes it: Stripe says by the status when the newest one is paid. The table with its reasons stands in
    ``runbooks/billing-events.md``.
    """
    if subscription.status in ENDED:
        return Due.ENDS
    if subscription.status not in PAID | FAILING:
        return Due.NOTHING
    if subscription.pause in policy.suspending_pauses:
        return Due.SUSPENDED
    if subscription.status in PAID:
        return Due.RUNS
    return Due.IN_GRACE if now < _grace_ends(subscription, policy) else Due.SUSPENDED


def _grace_ends(subscription: Subscription, policy: Policy) -> datetime:
    return (subscription.failing_since or subscription.started_at) + policy.grace


Request = Provision | Resize | Suspend | Resume | Terminate
Decision = Request | Bind | Wait | SetAside | Settled


def decide(
    subscriptions: Sequence[Subscription],
    agent: Agent | None,
    policy: Policy,
    *,
    now: datetime,
    served: frozenset[str] = frozenset(),
) -> Decision:
    """The next step towards the agent that is paid for.

    Args:
        subscriptions: All that the user has or had.
        agent: ``None`` where the user has none.
        served: Subscriptions whose agent was terminated.
    """
    counts = counting(subscriptions, policy, now=now)
    if counts is None:
        return _without(subscriptions, agent)
    entitled = due(counts, policy, now=now)
    if entitled is Due.SUSPENDED:
        return _unpaid(counts, agent)
    decision = _paid(counts, agent, policy, served, is_failing=entitled is Due.IN_GRACE)
    if isinstance(decision, Settled) and entitled is Due.IN_GRACE:
        why = f"{counts.id} is unpaid at the moment; its agent is suspended at the end of the grace period"
        return Wait(why, _grace_ends(counts, policy))
    return decision


_ALIVE = (Due.SUSPENDED, Due.IN_GRACE, Due.RUNS)
"""Entitlements of an agent that exists, the best last."""


def counting(subscriptions: Sequence[Subscription], policy: Policy, *, now: datetime) -> Subscription | None:
    """Of the subscriptions that have not ended, the one with the highest entitlement, then with the latest start."""
    ranks = {entitled: rank for rank, entitled in enumerate(_ALIVE)}
    ranked = [(ranks.get(due(each, policy, now=now), -1), each) for each in subscriptions]
    rank, best = max(ranked, key=lambda pair: (pair[0], pair[1].started_at, pair[1].id), default=(-1, None))
    return best if rank >= 0 else None


def _without(subscriptions: Sequence[Subscription], agent: Agent | None) -> Decision:
    """No subscription goes on: the agent that one of them paid for ends."""
    ended = {each.id for each in subscriptions if each.status in ENDED}
    if agent is None:
        return Settled("there is no agent" if ended else "the subscription is not paid yet")
    if agent.subscription_id not in ended:
        return Settled("the agent is of no subscription that has ended")
    if agent.ends_at is not None:
        return Settled(f"the agent ends at {agent.ends_at:%Y-%m-%d %H:%M} UTC")
    if busy := _busy(agent, OperationKind.TERMINATE, OperationKind.SCHEDULE_TERMINATION):
        return busy
    if agent.status is InstanceStatus.PROVISIONING:
        return Wait("the agent has not started yet, and has nothing to keep for days of grace")
    return Terminate(agent.subscription_id)


def _unpaid(counts: Subscription, agent: Agent | None) -> Decision:
    """The agent is not to run, and stays for as long as the subscription goes on."""
    why = _why_unpaid(counts)
    if agent is not None and agent.ended_by_billing and (undone := _undone(counts, agent)) is not None:
        return undone
    if agent is None or agent.status is InstanceStatus.SUSPENDED:
        return Settled(f"{why}, and no agent runs")
    if busy := _busy(agent, OperationKind.SUSPEND):
        return busy
    if agent.status is InstanceStatus.PROVISIONING:
        return Wait(f"{why}, and the agent has not started yet")
    if agent.subscription_id != counts.id:
        return Bind(counts.id)
    return Suspend(counts.id, why)


def _why_unpaid(counts: Subscription) -> str:
    if counts.status in PAID:
        return f"its collection is paused ({counts.pause})"
    return "its trial ended without a card" if counts.status is Status.PAUSED else "a payment failed days ago"


def _paid(
    counts: Subscription, agent: Agent | None, policy: Policy, served: frozenset[str], *, is_failing: bool
) -> Decision:
    """The agent is to run, with the plan that was bought."""
    plan = counts.plan(policy.prices)
    if plan is None:
        named = ", ".join(counts.prices) or "none"
        return SetAside(f"the prices of {counts.id} do not belong to one plan: {named}")
    if agent is None:
        if counts.id in served:
            return SetAside(f"the agent of {counts.id} was terminated, and the subscription goes on")
        return Provision(plan, counts.id)
    return _undone(counts, agent) or _running(counts, agent, plan, is_failing=is_failing)


def _undone(counts: Subscription, agent: Agent) -> Decision | None:
    """Decision about an agent that is being terminated although it is paid for; ``None`` when it stays."""
    if OperationKind.TERMINATE in agent.unfinished:
        return Wait("the agent is being terminated")
    if agent.ends_at is None and OperationKind.SCHEDULE_TERMINATION not in agent.unfinished:
        return None
    if not agent.ended_by_billing:
        return Wait("an operator has ended the agent")
    return Resume(counts.id, cancels_termination=True)


def _running(counts: Subscription, agent: Agent, plan: Plan, *, is_failing: bool) -> Decision:
    """The next step towards a running agent of that plan."""
    if agent.subscription_id != counts.id:
        return Bind(counts.id)
    match agent.status:
        case InstanceStatus.PROVISIONING:
            return _busy(agent, OperationKind.PROVISION) or Provision(agent.plan, counts.id)
        case InstanceStatus.SUSPENDED:
            return _busy(agent, *OperationKind) or _suspended(counts, agent, plan, is_failing=is_failing)
    if busy := _busy(agent, OperationKind.RESUME, OperationKind.RESIZE, OperationKind.RELOCATE, OperationKind.SUSPEND):
        return busy
    if agent.plan is plan:
        return Settled(f"the agent runs with plan {plan}")
    if counts.is_ambiguous:
        return SetAside(f"{counts.id} changed its price twice within a second: which price is the last is not known")
    return Resize(plan, counts.id)


def _suspended(counts: Subscription, agent: Agent, plan: Plan, *, is_failing: bool) -> Decision:
    if is_failing:
        return Settled("it is unpaid at the moment, and no agent runs")
    if agent.suspended_by_billing:
        return Resume(counts.id)
    if agent.plan is not plan:
        return Wait(f"an operator has suspended the agent; it gets plan {plan} once it is resumed")
    return Settled("an operator suspended the agent; it stays suspended")


def _busy(agent: Agent, *kinds: OperationKind) -> Wait | None:
    """Whether an operation of these kinds is to end first."""
    unfinished = sorted(agent.unfinished.intersection(kinds))
    return Wait(f"{' and '.join(unfinished)} of the agent has not ended") if unfinished else None
