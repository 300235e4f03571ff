"""What a subscription is now does not depend on the order in which events come, nor on how often."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.billing.events import CREATED, DELETED, PAID, PAYMENT_FAILED, BillingFact
from hermesops.model.ids import UserId
from hermesops.model.plan import Plan
from hermesops.users.billing.subscription import (
    Status,
    Subscription,
    is_status,
    owned_by,
    subscription_of,
    subscriptions_of,
)

UPDATED = "customer.subscription.updated"
ADA, BOB = UserId("11111111-1111-4111-8111-111111111111"), UserId("22222222-2222-4222-8222-222222222222")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def fact(
    kind: str,
    second: int,
    status: str = "active",
    price: str = "light",
    *,
    user: UserId = ADA,
    subscription_id: str = "sub_1",
    number: int = 0,
) -> BillingFact:
    event_id = f"evt_{kind}_{second}_{status}_{price}_{number}"
    if kind in {PAID, PAYMENT_FAILED}:
        return BillingFact(event_id, kind, subscription_id, at(second))
    return BillingFact(event_id, kind, subscription_id, at(second), user, (price,), status, BEGIN)


def now_of(*facts: BillingFact) -> Subscription:
    subscription = subscription_of(facts)
    assert subscription is not None
    return subscription


facts = st.builds(
    fact,
    st.sampled_from([CREATED, UPDATED, UPDATED, DELETED, PAID, PAYMENT_FAILED]),
    st.integers(0, 5),
    st.sampled_from([status.value for status in Status]),
    st.sampled_from(["light", "heavy"]),
)


@given(st.lists(facts, min_size=1, max_size=8), st.randoms())
def test_order_and_repetition_change_nothing(some: list[BillingFact], chance: object) -> None:
    shuffled = [*some, *some[: len(some) // 2]]
    chance.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a Random
    assert subscription_of(shuffled) == subscription_of(some)


@given(st.lists(facts, min_size=1, max_size=8))
def test_once_ended_it_stays_so(some: list[BillingFact]) -> None:
    subscription = now_of(fact(DELETED, 3, "canceled"), *some)
    assert (subscription.status, subscription.failing_since) == (Status.CANCELED, None)


def test_the_newest_event_counts() -> None:
    subscription = now_of(fact(UPDATED, 9, "active", "heavy"), fact(CREATED, 0, "incomplete"), fact(UPDATED, 3))
    assert (subscription.status, subscription.prices, subscription.started_at) == (Status.ACTIVE, ("heavy",), BEGIN)
    assert subscription.plan({"light": Plan.LIGHT, "heavy": Plan.HEAVY}) is Plan.HEAVY


def test_of_one_second_the_later_word_counts() -> None:
    assert now_of(fact(UPDATED, 0, "active"), fact(CREATED, 0, "incomplete")).status is Status.ACTIVE
    assert now_of(fact(UPDATED, 4, "past_due"), fact(UPDATED, 4, "active")).status is Status.PAST_DUE


def test_two_prices_of_one_second_are_told() -> None:
    twice = (fact(CREATED, 0), fact(UPDATED, 4, price="heavy"), fact(UPDATED, 4, price="light"))
    assert now_of(*twice).is_ambiguous
    assert not now_of(*twice, fact(UPDATED, 5)).is_ambiguous
    assert not now_of(fact(CREATED, 4), fact(UPDATED, 4, price="heavy")).is_ambiguous


def test_it_fails_since_its_status_says_so_first() -> None:
    failing = (fact(CREATED, 0), fact(UPDATED, 5, "past_due"), fact(UPDATED, 8, "unpaid"))
    assert now_of(*failing).failing_since == at(5)
    assert now_of(*failing, fact(UPDATED, 9)).failing_since is None
    assert now_of(*failing, fact(UPDATED, 6)).failing_since == at(8), "it was paid in between"
    assert now_of(*failing, fact(UPDATED, 5)).failing_since == at(5), "active is the word from before the failure"


@given(st.lists(facts, min_size=1, max_size=8), st.lists(facts, max_size=4))
def test_no_invoice_changes_what_a_subscription_is(some: list[BillingFact], others: list[BillingFact]) -> None:
    invoices = [each for each in others if each.type in {PAID, PAYMENT_FAILED}]
    assert subscription_of([*some, *invoices]) == subscription_of(some)


def test_collection_is_paused_as_the_newest_state_says() -> None:
    paused = replace(fact(UPDATED, 5), pause="void")
    assert now_of(fact(CREATED, 0), paused).pause == "void"
    assert now_of(fact(CREATED, 0), paused, fact(UPDATED, 6)).pause == ""


def test_the_first_event_says_whose_it_is() -> None:
    came = (fact(PAID, 3), fact(UPDATED, 4, price="heavy"), fact(CREATED, 0, user=BOB))
    assert owned_by(ADA, came) == {"sub_1"}
    assert owned_by(BOB, came) == frozenset()
    [subscription] = subscriptions_of(ADA, came)
    assert (subscription.user_id, subscription.prices) == (ADA, ("heavy",))
    assert subscriptions_of(BOB, came) == ()
    assert subscription_of([fact(PAID, 3)]) is None


def test_prices_stand_for_one_plan_or_for_none() -> None:
    prices = {"light": Plan.LIGHT, "year": Plan.LIGHT, "heavy": Plan.HEAVY}
    plans = [
        Subscription("sub_1", ADA, BEGIN, Status.ACTIVE, bought).plan(prices)
        for bought in (("light", "addon"), ("light", "year"), ("light", "heavy"), ("addon",), ())
    ]
    assert plans == [Plan.LIGHT, Plan.LIGHT, None, None, None]


def test_a_word_that_is_new_is_no_status() -> None:
    assert is_status("past_due")
    assert not is_status("on_holiday")
