"""Ten thousand signed events, a tenth of them twice, in random order and in parts, end in the one right state.

``tests/soak/test_billing.py`` does the same with operations on simulated machines.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.billing.decide import Agent, Policy, SetAside, Settled, Wait, decide
from hermesops.billing.events import Rules, read_event
from hermesops.billing.subscription import subscriptions_of
from hermesops.model.billing import BillingFact, Delivery
from hermesops.model.ids import UserId
from hermesops.model.instance import InstanceStatus
from tests.support.billing.lifecycles import ENDS, PRICES, RESTS, Expected, delivered, lifecycles
from tests.support.billing.model_agent import after
from tests.support.billing.stripe_events import Endpoint

USERS, EVENTS, PARTS = 400, 10_000, 5
POLICY = Policy(PRICES, timedelta(days=3))


@pytest.mark.parametrize("seed", [20261126])
def test_ten_thousand_events_end_in_the_one_right_state(seed: int) -> None:
    now, endpoint = datetime.now(UTC), Endpoint()
    rules = Rules((endpoint.secret,), 300, livemode=False)
    lives = lifecycles(USERS, EVENTS, seed)
    told = list(delivered(lives, again=0.1, seed=seed))
    facts: dict[str, dict[str, BillingFact]] = {}
    agents: dict[UserId, Agent | None] = {}
    size = len(told) // PARTS + 1
    for begin in range(0, len(told), size):
        for one in told[begin : begin + size]:
            fact = read_event(Delivery(*endpoint.signed(one), now), rules, now=now).fact
            assert fact is not None
            facts.setdefault(fact.subscription_id, {}).setdefault(fact.event_id, fact)
        for life in lives:
            user = UserId(life.user)
            theirs = [fact for of in facts.values() for fact in of.values() if fact.subscription_id[4:12] == user[:8]]
            agents[user] = settled(user, theirs, agents.get(user), now)
    assert len(told) >= 11_000
    wrong = {life.user: life.expected for life in lives if not fits(agents[UserId(life.user)], life.expected)}
    assert wrong == {}


def settled(user: UserId, facts: Sequence[BillingFact], agent: Agent | None, now: datetime) -> Agent | None:
    """The agent once nothing is left to do."""
    subscriptions = subscriptions_of(user, facts)
    for _ in range(6):
        decision = decide(subscriptions, agent, POLICY, now=now)
        if isinstance(decision, (Settled, Wait, SetAside)):
            return agent
        agent = after(agent, decision)
    raise AssertionError(f"{decision} again and again")


def fits(agent: Agent | None, expected: Expected) -> bool:
    """Whether an agent is as it should be."""
    if agent is None:
        return expected.how in {RESTS, ENDS}
    if expected.how == RESTS:
        return agent.status is InstanceStatus.SUSPENDED and agent.ends_at is None
    if expected.how == ENDS:
        return agent.ends_at is not None
    return agent.status is InstanceStatus.RUNNING and agent.plan is expected.plan
