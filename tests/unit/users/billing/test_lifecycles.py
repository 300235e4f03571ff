"""Thousands of signed events, a tenth of them twice, in random order and in parts, end in the one right state.

``tests/soak/test_billing.py`` does the same with operations on simulated machines.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.model.billing.events import BillingFact, Delivery
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import UserId
from hermesops.users.billing.decide import Agent, Policy, SetAside, Settled, Wait, decide
from hermesops.users.billing.events import Rules, read_event
from hermesops.users.billing.subscription import subscriptions_of
from tests.support.billing.lifecycles import ENDS, PRICES, RESTS, Expected, delivered, lifecycles
from tests.support.billing.model_agent import after
from tests.support.billing.stripe_events import Endpoint

SEED, PARTS = 20261126, 5
POLICY = Policy(PRICES, timedelta(days=3))


@pytest.mark.parametrize(
    ("users", "events"), [(40, 1_000), pytest.param(400, 10_000, marks=pytest.mark.turns(5, each=True))]
)
def test_events_in_any_order_end_in_the_one_right_state(users: int, events: int) -> None:
    now, endpoint = datetime.now(UTC), Endpoint()
    rules = Rules((endpoint.secret,), 300, livemode=False)
    lives = lifecycles(users, events, SEED)
    documents = list(delivered(lives, again=0.1, seed=SEED))
    facts: defaultdict[str, dict[str, BillingFact]] = defaultdict(dict)
    agents: dict[UserId, Agent | None] = {}
    size = len(documents) // PARTS + 1
    for begin in range(0, len(documents), size):
        for event in documents[begin : begin + size]:
            fact = read_event(Delivery(*endpoint.signed(event), now), rules, now=now).fact
            assert fact is not None
            facts[fact.subscription_id[4:12]].setdefault(fact.event_id, fact)
        for life in lives:
            user = UserId(life.user)
            agents[user] = settled(user, list(facts[user[:8]].values()), agents.get(user), now)
    assert len(documents) >= events * 11 // 10
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
