"""The decision about a request: for each state of what is known, one step, and none that could sell twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.model.billing.checkout import LATEST_BEGIN, Checkout, CheckoutStatus
from hermesops.model.billing.user_request import RequestKind, RequestState, UserRequest
from hermesops.model.ids import UserId
from hermesops.model.operation import OperationStatus
from hermesops.model.plan import Plan
from hermesops.users.billing.subscription import Status, Subscription
from hermesops.users.user_requests.decide import (
    CLOCKS,
    CLOSED,
    GIVEN_UP,
    LATER,
    SOON,
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
    sold_prices,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USER = UserId("11111111-1111-4111-8111-111111111111")
PRICES = {Plan.LIGHT: "price_light"}
BODY = {"plan": "light"}
BUYS = Facts(BODY, prices=PRICES)


def request(kind: RequestKind = RequestKind.SUBSCRIBE, *, age: timedelta = timedelta(), tries: int = 0) -> UserRequest:
    return UserRequest("r1", USER, kind, "k", RequestState.QUEUED, NOW - age, tries=tries)


def subscription(status: Status, id_: str = "sub_1") -> Subscription:
    return Subscription(id_, USER, NOW, status, ("price_light",))


def checkout(status: CheckoutStatus, bought: str = "") -> Checkout:
    return Checkout("cs_1", status, "", bought)


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        (Facts(), Refuse("lost", "your request cannot be read any more; make it again")),
        (replace(BUYS, body={"plan": "huge"}), Refuse("invalid", "there is no such plan")),
        (replace(BUYS, body={"plan": "heavy"}), Refuse("not-sold", "this plan cannot be bought here")),
        (BUYS, BeginCheckout("price_light", "")),
        (replace(BUYS, last=subscription(Status.CANCELED)), BeginCheckout("price_light", "sub_1")),
        (replace(BUYS, earlier=("cs_0", "cs_2")), CloseEarlier("cs_0")),
        (replace(BUYS, session="cs_1"), LookAtCheckout("cs_1")),
        (
            replace(BUYS, session="cs_1", subscription=subscription(Status.ACTIVE)),
            Done("your plan is paid, and your agent is being made"),
        ),
        (replace(BUYS, session="cs_1", subscription=subscription(Status.PAST_DUE)), LookAtCheckout("cs_1")),
        (
            replace(BUYS, session="cs_1", checkout=checkout(CheckoutStatus.OPEN)),
            Wait("pay at the checkout page", SOON),
        ),
        (
            replace(BUYS, session="cs_1", checkout=checkout(CheckoutStatus.EXPIRED)),
            Refuse("not-paid", "the checkout page was closed before anything was paid"),
        ),
        (
            replace(BUYS, session="cs_1", checkout=checkout(CheckoutStatus.COMPLETE, "sub_2")),
            RecordSubscription("sub_2"),
        ),
        (
            replace(
                BUYS,
                session="cs_1",
                checkout=checkout(CheckoutStatus.COMPLETE, "sub_2"),
                bought=subscription(Status.INCOMPLETE, "sub_2"),
            ),
            Wait("the payment is being confirmed", SOON),
        ),
        (
            replace(
                BUYS,
                session="cs_1",
                checkout=checkout(CheckoutStatus.COMPLETE, "sub_2"),
                bought=subscription(Status.INCOMPLETE_EXPIRED, "sub_2"),
            ),
            Refuse("not-paid", "the payment failed, and nothing was bought"),
        ),
    ],
)
def test_each_state_of_a_purchase_has_one_step(facts: Facts, decision: object) -> None:
    assert decide(request(), facts, now=NOW) == decision


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.TRIALING, Status.PAST_DUE, Status.UNPAID, Status.PAUSED])
def test_whoever_has_a_plan_buys_no_second_one(status: Status) -> None:
    decision = decide(request(), replace(BUYS, subscription=subscription(status)), now=NOW)
    assert isinstance(decision, Refuse)
    assert decision.code == "has-plan"


def test_a_checkout_page_begins_while_it_can_still_be_paid() -> None:
    assert decide(request(age=LATEST_BEGIN), BUYS, now=NOW) == BeginCheckout("price_light", "")
    late = decide(request(age=LATEST_BEGIN + timedelta(seconds=1)), BUYS, now=NOW)
    assert isinstance(late, Refuse)
    open_page = replace(BUYS, session="cs_1", checkout=checkout(CheckoutStatus.OPEN))
    assert decide(request(age=timedelta(minutes=10)), open_page, now=NOW) == Wait("pay at the checkout page", LATER)


@pytest.mark.parametrize("kind", [RequestKind.CANCEL, RequestKind.PORTAL])
def test_only_what_is_paid_is_ended_or_changed(kind: RequestKind) -> None:
    body = {"origin": "https://chat.example"}
    refused = decide(request(kind), Facts(body), now=NOW)
    assert isinstance(refused, Refuse)
    assert refused.code == "no-plan"
    late = subscription(Status.PAST_DUE)
    step = decide(request(kind), Facts(body, subscription=late, last=late), now=NOW)
    assert step == (EndWithPeriod("sub_1") if kind is RequestKind.CANCEL else OpenPortal("sub_1"))


def test_an_old_request_ends_no_plan_that_was_bought_since() -> None:
    since = subscription(Status.ACTIVE)
    for age, expected in ((CLOCKS, EndWithPeriod), (CLOCKS + timedelta(seconds=1), Refuse)):
        step = decide(request(RequestKind.CANCEL, age=age), Facts({"origin": "x"}, subscription=since), now=NOW)
        assert isinstance(step, expected), age


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (None, Configure),
        (OperationStatus.PENDING, Wait),
        (OperationStatus.RUNNING, Wait),
        (OperationStatus.DONE, Done),
        (OperationStatus.FAILED, Refuse),
        (OperationStatus.ABANDONED, Refuse),
    ],
)
def test_settings_follow_their_operation(operation: OperationStatus | None, kind: type[object]) -> None:
    facts = Facts({"changes": {"model": "x"}, "tag": "t"}, operation=operation)
    assert isinstance(decide(request(RequestKind.SETTINGS), facts, now=NOW), kind)


@pytest.mark.parametrize("body", [{"changes": [], "tag": "t"}, {"changes": {}, "tag": 1}, {"tag": "t"}])
def test_malformed_settings_are_refused(body: dict[str, object]) -> None:
    decision = decide(request(RequestKind.SETTINGS), Facts(body), now=NOW)
    assert isinstance(decision, Refuse)
    assert decision.code == "invalid"


def test_a_failing_step_is_tried_again_ever_later_and_given_up() -> None:
    pauses = [after_failure(request(tries=tries), now=NOW) for tries in (0, 1, 5, 9, 500)]
    assert [each.pause.total_seconds() for each in pauses if isinstance(each, Wait)] == [1, 2, 32, 300, 300]
    late = request(age=GIVEN_UP + timedelta(seconds=1))
    assert isinstance(after_failure(late, now=NOW), Refuse)
    begun = replace(late, state=RequestState.WAITING)
    assert isinstance(after_failure(begun, now=NOW), Wait), "its page may still be paid"
    assert isinstance(after_failure(replace(begun, created_at=NOW - CLOSED - SOON), now=NOW), Refuse)


def test_a_plan_is_sold_by_its_only_price_or_by_the_chosen_one() -> None:
    prices = {"a": Plan.LIGHT, "b": Plan.HEAVY, "c": Plan.HEAVY}
    assert sold_prices(prices, {}) == {Plan.LIGHT: "a"}
    assert sold_prices(prices, {Plan.HEAVY: "c"}) == {Plan.LIGHT: "a", Plan.HEAVY: "c"}
    assert sold_prices(prices, {Plan.LIGHT: "b"}) == {Plan.LIGHT: "a"}
