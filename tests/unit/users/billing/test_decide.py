"""What is paid for is what there is, in the end: from every state, and one step at a time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import UserId
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.users.billing.decide import (
    Agent,
    Bind,
    Decision,
    Due,
    Policy,
    Provision,
    Resize,
    Resume,
    SetAside,
    Settled,
    Suspend,
    Terminate,
    Wait,
    counting,
    decide,
    due,
)
from hermesops.users.billing.subscription import ENDED as HAS_ENDED
from hermesops.users.billing.subscription import Status, Subscription
from tests.support.billing.model_agent import after
from tests.support.suite.cases import each_case

ADA = UserId("11111111-1111-4111-8111-111111111111")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = Policy({"light": Plan.LIGHT, "heavy": Plan.HEAVY}, timedelta(days=3))
PAID = Subscription("sub_1", ADA, NOW - timedelta(days=40), Status.ACTIVE, ("light",))
NEWER = replace(PAID, id="sub_2", started_at=NOW - timedelta(days=1))
FRESHLY = replace(PAID, status=Status.PAST_DUE, failing_since=NOW - timedelta(days=1))
LONG = replace(PAID, status=Status.PAST_DUE, failing_since=NOW - timedelta(days=4))
HELD = replace(PAID, pause="void")
ENDED = replace(PAID, status=Status.CANCELED)
RUNNING = Agent(InstanceStatus.RUNNING, Plan.LIGHT, "sub_1")
SUSPENDED = replace(RUNNING, status=InstanceStatus.SUSPENDED)
OURS = replace(SUSPENDED, suspended_by_billing=True)
ENDING = replace(SUSPENDED, ends_at=NOW + timedelta(days=5))


def busy(agent: Agent, *kinds: OperationKind) -> Agent:
    return replace(agent, unfinished=frozenset(kinds))


def of(*subscriptions: Subscription, agent: Agent | None = None, served: str = "") -> Decision:
    return decide(subscriptions, agent, POLICY, now=NOW, served=frozenset({served}))


@each_case(
    ("subscriptions", "agent", "decision"),
    [
        ((PAID,), None, Provision(Plan.LIGHT, "sub_1")),
        ((replace(PAID, prices=("heavy",)),), RUNNING, Resize(Plan.HEAVY, "sub_1")),
        ((PAID,), replace(RUNNING, subscription_id=""), Bind("sub_1")),
        ((PAID,), OURS, Resume("sub_1")),
        ((LONG,), RUNNING, Suspend("sub_1", "a payment failed days ago")),
        ((HELD,), RUNNING, Suspend("sub_1", "its collection is paused (void)")),
        ((replace(LONG, status=Status.PAUSED),), RUNNING, Suspend("sub_1", "its trial ended without a card")),
        ((LONG,), replace(RUNNING, subscription_id=""), Bind("sub_1")),
        ((ENDED,), RUNNING, Terminate("sub_1")),
        ((ENDED,), SUSPENDED, Terminate("sub_1")),
        ((ENDED, NEWER), replace(ENDING, ended_by_billing=True), Resume("sub_2", cancels_termination=True)),
        ((ENDED, NEWER), RUNNING, Bind("sub_2")),
        (
            (ENDED, replace(LONG, id="sub_2")),
            replace(ENDING, ended_by_billing=True),
            Resume("sub_2", cancels_termination=True),
        ),
        ((PAID,), replace(RUNNING, status=InstanceStatus.PROVISIONING), Provision(Plan.LIGHT, "sub_1")),
        ((FRESHLY,), None, Provision(Plan.LIGHT, "sub_1")),
    ],
)
def test_each_difference_has_its_step(
    subscriptions: tuple[Subscription, ...], agent: Agent | None, decision: Decision
) -> None:
    assert of(*subscriptions, agent=agent) == decision


@each_case(
    ("subscriptions", "agent"),
    [
        ((), None),
        ((PAID,), RUNNING),
        ((replace(PAID, status=Status.INCOMPLETE),), None),
        ((ENDED,), None),
        ((ENDED,), ENDING),
        ((ENDED,), replace(RUNNING, subscription_id="")),
        ((ENDED,), replace(RUNNING, subscription_id="sub_other")),
        ((LONG,), OURS),
        ((HELD,), OURS),
        ((HELD,), None),
        ((LONG,), None),
        ((PAID,), SUSPENDED),
    ],
)
def test_nothing_is_left_to_do(subscriptions: tuple[Subscription, ...], agent: Agent | None) -> None:
    assert isinstance(of(*subscriptions, agent=agent), Settled)


@each_case(
    ("subscriptions", "agent", "why"),
    [
        ((PAID,), busy(RUNNING, OperationKind.RESIZE), "resize"),
        ((PAID,), busy(OURS, OperationKind.BACKUP), "backup"),
        ((PAID,), busy(replace(RUNNING, status=InstanceStatus.PROVISIONING), OperationKind.PROVISION), "provision"),
        ((PAID,), busy(RUNNING, OperationKind.TERMINATE), "terminated"),
        ((PAID,), ENDING, "operator"),
        ((replace(PAID, prices=("heavy",)),), SUSPENDED, "plan heavy once it is resumed"),
        ((ENDED,), busy(RUNNING, OperationKind.SCHEDULE_TERMINATION), "schedule_termination"),
        ((ENDED,), replace(RUNNING, status=InstanceStatus.PROVISIONING), "not started"),
        ((LONG,), busy(RUNNING, OperationKind.SUSPEND), "suspend"),
        ((LONG,), replace(RUNNING, status=InstanceStatus.PROVISIONING), "not started"),
    ],
)
def test_what_is_under_way_or_an_operators_is_waited_for(
    subscriptions: tuple[Subscription, ...], agent: Agent, why: str
) -> None:
    decision = of(*subscriptions, agent=agent)
    assert isinstance(decision, Wait)
    assert why in decision.why
    assert decision.until is None


@pytest.mark.parametrize("agent", [RUNNING, OURS])
def test_a_failed_payment_changes_nothing_within_its_grace(agent: Agent) -> None:
    decision = of(FRESHLY, agent=agent)
    assert isinstance(decision, Wait)
    assert decision.until == NOW + timedelta(days=2)


def test_a_person_decides_about_what_is_not_known() -> None:
    assert isinstance(of(replace(PAID, prices=("addon",))), SetAside)
    assert isinstance(of(replace(PAID, prices=("light", "heavy")), agent=RUNNING), SetAside)
    assert isinstance(of(PAID, served="sub_1"), SetAside), "somebody has terminated what is still paid for"
    assert isinstance(of(replace(PAID, prices=("heavy",), is_ambiguous=True), agent=RUNNING), SetAside)


def test_of_several_the_paid_one_counts_and_then_the_newest() -> None:
    failing = replace(NEWER, status=Status.PAST_DUE, failing_since=NOW)
    assert counts(PAID, NEWER) == NEWER
    assert counts(PAID, failing) == PAID
    assert counts(failing, replace(NEWER, id="sub_3", pause="void")) == failing
    assert counts(ENDED, replace(NEWER, status=Status.INCOMPLETE)) is None


def counts(*subscriptions: Subscription) -> Subscription | None:
    return counting(subscriptions, POLICY, now=NOW)


statuses = st.sampled_from(list(Status))
subscriptions_ = st.builds(
    Subscription,
    st.sampled_from(["sub_1", "sub_2", "sub_3"]),
    st.just(ADA),
    st.integers(1, 90).map(lambda days: NOW - timedelta(days=days)),
    statuses,
    st.sampled_from([("light",), ("heavy",), ("addon",)]),
    st.one_of(st.none(), st.integers(0, 9).map(lambda days: NOW - timedelta(days=days))),
    pause=st.sampled_from(["", "", "void", "keep_as_draft"]),
)
agents = st.one_of(
    st.none(),
    st.builds(
        Agent,
        st.sampled_from([InstanceStatus.RUNNING, InstanceStatus.SUSPENDED, InstanceStatus.PROVISIONING]),
        st.sampled_from(Plan),
        st.sampled_from(["", "sub_1", "sub_2", "sub_3"]),
        suspended_by_billing=st.booleans(),
        ended_by_billing=st.booleans(),
    ),
)


@given(st.lists(subscriptions_, max_size=3, unique_by=lambda item: item.id), agents)
def test_steps_that_are_done_end(subscriptions: list[Subscription], agent: Agent | None) -> None:
    """Whatever is there and whatever is paid for: a few steps later nothing is left to do, and it is right."""
    for _ in range(6):
        decision = decide(subscriptions, agent, POLICY, now=NOW)
        if isinstance(decision, (Settled, SetAside, Wait)):
            break
        agent = after(agent, decision)
    else:
        pytest.fail(f"{decision} again and again")
    best = counts(*subscriptions)
    entitled = due(best, POLICY, now=NOW) if best else None
    runs = agent is not None and agent.status is InstanceStatus.RUNNING
    if best is not None and entitled is Due.RUNS and isinstance(decision, Settled):
        assert agent is not None
        assert not runs or agent.plan is best.plan(POLICY.prices)
    if entitled is Due.SUSPENDED:
        assert not runs
    if best is None and runs:
        assert agent is not None
        assert agent.subscription_id not in {each.id for each in subscriptions if each.status in HAS_ENDED}
