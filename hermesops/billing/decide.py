"""What a user's subscriptions ask for of the user's agent now. Pure.

It compares two states, what is paid for and what is there, so that it may be asked again at any time: after each event,
after a kill, after an operation has ended or failed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.billing.subscription import Payment, Subscription
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan


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
    """What the settings say.

    Attributes:
        prices: Plans by the ids of their prices at Stripe.
        grace: From a failed payment to the suspension.
    """

    prices: Mapping[str, Plan]
    grace: timedelta


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
    """Give the agent another plan."""

    plan: Plan
    subscription_id: str


@dataclass(frozen=True)
class Suspend:
    """Suspend the agent: its payment has failed for too long."""

    subscription_id: str


@dataclass(frozen=True)
class Resume:
    """Resume the agent."""

    subscription_id: str
    cancels_termination: bool = False


@dataclass(frozen=True)
class Terminate:
    """Schedule the agent's termination."""

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
    """A person has to decide."""

    why: str


@dataclass(frozen=True)
class Settled:
    """The agent is as it is paid for."""

    why: str


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
    counts = counting(subscriptions)
    if counts is None:
        return _without(subscriptions, agent)
    failing_until = None
    if counts.failing_since is not None:
        failing_until = counts.failing_since + policy.grace
        if failing_until <= now:
            return _unpaid(counts, agent)
    decision = _paid(counts, agent, policy, served, is_failing=failing_until is not None)
    if isinstance(decision, Settled) and failing_until is not None:
        return Wait(
            f"a payment of {counts.id} has failed; its agent is suspended when the grace is over", failing_until
        )
    return decision


def counting(subscriptions: Sequence[Subscription]) -> Subscription | None:
    """The one that counts of those that go on: paid ones first, then the one that was begun last; ``None`` of none."""
    alive = [one for one in subscriptions if one.payment in {Payment.PAID, Payment.FAILING}]
    return max(alive, key=lambda one: (one.payment is Payment.PAID, one.started_at, one.id), default=None)


def _without(subscriptions: Sequence[Subscription], agent: Agent | None) -> Decision:
    """No subscription goes on: the agent that one of them paid for ends."""
    ended = {one.id for one in subscriptions if one.payment is Payment.ENDED}
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
    """The grace is over: the agent is not to run, and stays for as long as the subscription goes on."""
    if agent is not None and agent.ended_by_billing and (undone := _undone(counts, agent)) is not None:
        return undone
    if agent is None or agent.status is InstanceStatus.SUSPENDED:
        return Settled("a payment has failed, and no agent runs")
    if busy := _busy(agent, OperationKind.SUSPEND):
        return busy
    if agent.status is InstanceStatus.PROVISIONING:
        return Wait("a payment has failed, and the agent has not started yet")
    if agent.subscription_id != counts.id:
        return Bind(counts.id)
    return Suspend(counts.id)


def _paid(
    counts: Subscription, agent: Agent | None, policy: Policy, served: frozenset[str], *, is_failing: bool
) -> Decision:
    """The agent is to run, with the plan that was bought."""
    plan = counts.plan(policy.prices)
    if plan is None:
        named = ", ".join(counts.prices) or "none"
        return SetAside(f"the prices of {counts.id} are of no one plan: {named}")
    if agent is None:
        if counts.id in served:
            return SetAside(f"the agent of {counts.id} was terminated, and the subscription goes on")
        return Provision(plan, counts.id)
    return _undone(counts, agent) or _running(counts, agent, plan, is_failing=is_failing)


def _undone(counts: Subscription, agent: Agent) -> Decision | None:
    """What a paid subscription does about an agent that ends; ``None`` where it stays."""
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
        return Settled("a payment has failed, and no agent runs")
    if agent.suspended_by_billing:
        return Resume(counts.id)
    if agent.plan is not plan:
        return Wait(f"an operator has suspended the agent; it gets plan {plan} once it is resumed")
    return Settled("an operator has suspended the agent, which stays so")


def _busy(agent: Agent, *kinds: OperationKind) -> Wait | None:
    """Whether an operation of these kinds is to end first."""
    unfinished = sorted(agent.unfinished.intersection(kinds))
    return Wait(f"{' and '.join(unfinished)} of the agent has not ended") if unfinished else None
