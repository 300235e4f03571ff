"""Stripe's events with Stripe's own signatures: what is taken in, what is refused, and what is kept of them."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.billing.events import MOST_BYTES, MOST_SIGNATURE, SUBSCRIPTION_EVENTS, BillingEvent, BillingState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import UserId
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.store.registry.schema.tables import billing_events
from hermesops.users.billing.decide import Policy
from hermesops.users.billing.events import Rules
from hermesops.users.billing.service import Billing
from hermesops.users.billing.settlement import PaidAgents
from tests.support.billing.stripe_events import USER, Endpoint, event, fresh_secret, invoice, subscription
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

CREATED, UPDATED = "customer.subscription.created", "customer.subscription.updated"
FAILED = "invoice.payment_failed"
NOW = datetime.now(UTC).replace(microsecond=0)
EMAIL = "ada.lovelace@example.com"

SQLITE = pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
"""For what no database has to do with."""


@dataclass
class World:
    """Billing on a real registry; what it opens are rows, which the test ends."""

    registry: Registry
    endpoint: Endpoint = field(default_factory=Endpoint)
    rules: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    def billing(self) -> Billing:
        agents = PaidAgents(
            self.registry,
            Policy({"price_light": Plan.LIGHT, "price_heavy": Plan.HEAVY}, timedelta(days=3)),
            is_graceful=True,
            keeps_backup=True,
            admission=lambda: part(admit=self.admit),
            requests=part,
            leave=lambda _operation: None,
            hold_lease=lambda subject: LeaseKeeper(self.registry, subject),
        )
        return Billing(self.registry, self._rules, timedelta(days=14), agents)

    def _rules(self) -> Rules:
        return replace(Rules((self.endpoint.secret,), 300, livemode=False), **self.rules)

    async def admit(self, user: str, plan: Plan, *, subscription: str) -> tuple[object, object]:
        if self.problem:
            raise RefusedError(self.problem)
        instance = placed(self.registry, user, plan)
        self.registry.subscriptions.bind(instance.id, subscription)
        subject = f"instance/{instance.id}"
        intent = {"user": user, "plan": plan.value, "machine_name": instance.machine_name}
        opened = self.registry.operations.open(OperationKind.PROVISION, subject, intent=intent, instance_id=instance.id)
        return instance, opened

    async def apply(self, stripe_event: dict[str, Any], *, at: datetime | None = None) -> BillingEvent:
        return await self.billing().apply(*self.endpoint.signed(stripe_event, at=at))

    def rows(self) -> list[Any]:
        with self.registry._database.reading() as connection:
            return list(connection.execute(sa.select(billing_events).order_by(billing_events.c.id)))

    def written(self) -> str:
        """Everything that is kept of events, and the audit log."""
        return f"{self.rows()}{self.registry.audit.list()}"


@pytest.fixture
def clock() -> TurnedClock:
    """Begins now: Stripe's library compares with the computer's clock."""
    turned = TurnedClock()
    turned.timestamp = datetime.now(UTC)
    return turned


@pytest.fixture
def world(registry: Registry) -> World:
    return World(registry)


def created(**stripe_event: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
    return event(CREATED, subscription("sub_1", **stripe_event), at=NOW)


# What is taken in


async def test_an_event_is_read_and_nothing_personal_is_kept(world: World) -> None:
    stripe_event = created()
    stripe_event["data"]["object"]["customer_email"] = EMAIL
    taken = await world.apply(stripe_event)
    assert (taken.state, taken.event_id, taken.has_body) == (BillingState.WAITING, stripe_event["id"], False)
    assert taken.fact is not None
    assert (taken.fact.user_id, taken.fact.prices, taken.fact.status) == (USER, ("price_light",), "active")
    assert taken.fact.created_at == NOW
    await world.apply(event("invoice.paid", invoice("sub_1", email=EMAIL), at=NOW))
    assert "ada.lovelace" not in world.written()
    assert "cus_1" not in world.written()


async def test_an_invoice_of_before_2025_names_its_subscription_elsewhere(world: World) -> None:
    taken = await world.apply(event(FAILED, {"object": "invoice", "id": "in_1", "subscription": "sub_9"}, at=NOW))
    assert taken.fact is not None
    assert (taken.fact.subscription_id, taken.state) == ("sub_9", BillingState.WAITING)


async def test_either_secret_counts_while_it_is_rolled(world: World) -> None:
    world.rules = {"secrets": (fresh_secret(), world.endpoint.secret)}
    assert (await world.apply(created())).state is BillingState.WAITING


async def test_what_comes_twice_is_one_event(world: World) -> None:
    stripe_event = created()
    first = await world.apply(stripe_event)
    world.registry.billing.receive(*world.endpoint.signed(stripe_event))
    await world.billing().run()
    again = await world.apply(stripe_event)
    assert (again.id, again.deliveries) == (first.id, 3)
    assert len(world.rows()) == 1
    assert len(world.registry.operations.list()) == 1


async def test_what_waits_in_the_queue_for_a_day_is_not_too_old(world: World, clock: TurnedClock) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    clock.timestamp = yesterday
    world.registry.billing.receive(*world.endpoint.signed(created(), at=yesterday))
    clock.timestamp = datetime.now(UTC)
    assert world.billing().due() == ["event 1"]
    await world.billing().run()
    assert world.registry.billing.get(1).state is BillingState.WAITING


def nobodys(**stripe_event: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
    """An event that a person has to look at."""
    return event(CREATED, {**subscription("sub_8", user="fred"), **stripe_event}, at=NOW)


async def test_an_event_of_another_type_is_kept_as_such_and_pages_nobody(world: World) -> None:
    for number, kind in enumerate(
        ("charge.succeeded", "invoice.payment_succeeded", "invoice.created", "customer.updated")
    ):
        taken = await world.apply(event(kind, {"receipt_email": EMAIL}, at=NOW, event_id=f"evt_{number}"))
        assert (taken.state, taken.has_body) == (BillingState.APPLIED, False)
        assert taken.detail == "events of that type say nothing of a subscription's state"
    assert world.registry.billing.oldest_pending() == {}
    assert EMAIL not in world.written()


async def test_each_type_about_a_subscription_says_its_state(world: World) -> None:
    for number, kind in enumerate(sorted(SUBSCRIPTION_EVENTS)):
        taken = await world.apply(event(kind, subscription(f"sub_{number}"), at=NOW))
        assert taken.fact is not None, kind
        assert taken.fact.status == "active"


async def test_an_event_that_names_no_user_is_kept_aside_and_forgotten(world: World, clock: TurnedClock) -> None:
    taken = await world.apply(nobodys(receipt_email=EMAIL))
    assert (taken.state, taken.has_body) == (BillingState.SET_ASIDE, True)
    assert taken.detail == "the subscription's metadata user_id is no user's id: it has to be a UUID in lower case"
    assert (await world.apply(nobodys(metadata=None))).detail == "the subscription's metadata has no user_id"
    assert world.billing().due() == []
    clock.turn(15 * 86400)
    assert world.billing().due() == ["2 old events"]
    await world.billing().run()
    assert not world.registry.billing.get(taken.id).has_body
    assert EMAIL not in world.written()
    assert world.billing().due() == []


async def test_a_paused_collection_is_kept(world: World) -> None:
    taken = await world.apply(created(pause="void"))
    assert taken.fact is not None
    assert taken.fact.pause == "void"
    assert (taken.state, taken.detail) == (BillingState.APPLIED, "its collection is paused (void), and no agent runs")


async def test_what_is_pending_is_told_with_its_age_until_it_is_decided(world: World, clock: TurnedClock) -> None:
    billing, begun = world.registry.billing, clock.timestamp
    assert billing.oldest_pending() == {}
    billing.receive(*world.endpoint.signed(created(), at=begun))
    clock.turn(60)
    assert billing.oldest_pending() == {BillingState.QUEUED: begun}
    await world.billing().run()
    assert billing.oldest_pending() == {BillingState.WAITING: clock.timestamp}, "its operation was opened now"
    [operation] = world.registry.operations.list()
    world.registry.operations.finish(operation.id, OperationStatus.FAILED, "no machine")
    clock.turn(60)
    await world.billing().run()
    assert billing.oldest_pending() == {BillingState.SET_ASIDE: begun}
    clock.turn(30 * 86400)
    assert billing.oldest_pending() == {BillingState.SET_ASIDE: begun}, "a person has to look, however late"


async def test_what_cannot_be_done_yet_is_pending_all_the_time(world: World, clock: TurnedClock) -> None:
    world.problem = "the fleet is frozen"
    begun = clock.timestamp
    await world.apply(created())
    for _ in range(10):
        clock.turn(45)
        assert world.registry.billing.oldest_pending() == {BillingState.WAITING: begun}
        await world.billing().run()


async def test_days_of_grace_are_waited_for_and_pending_only_when_they_are_over(
    world: World, clock: TurnedClock
) -> None:
    await world.apply(created())
    [instance] = world.registry.instances.list()
    [operation] = world.registry.operations.list()
    world.registry.operations.finish(operation.id, OperationStatus.DONE, "made")
    world.registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    clock.turn(60)
    await world.billing().run()
    assert world.registry.billing.oldest_pending() == {}
    failed = subscription("sub_1", status="past_due")
    await world.apply(event(UPDATED, failed, at=clock.timestamp.replace(microsecond=0)))
    clock.turn(2 * 86400)
    await world.billing().run()
    assert world.registry.billing.oldest_pending() == {}
    clock.turn(86400)
    assert list(world.registry.billing.oldest_pending()) == [BillingState.WAITING]


async def test_what_nobody_can_apply_is_pending_until_it_is_dismissed(world: World, clock: TurnedClock) -> None:
    begun = clock.timestamp
    await world.apply(nobodys())
    await world.apply(created())
    [operation] = world.registry.operations.list()
    world.registry.operations.finish(operation.id, OperationStatus.DONE, "made")
    [instance] = world.registry.instances.list()
    world.registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    other = await world.apply(
        event(UPDATED, subscription("sub_1", user="22222222-2222-4222-8222-222222222222"), at=NOW)
    )
    clock.turn(60)
    await world.billing().run()
    assert (other.state, other.detail[:19]) == (BillingState.SET_ASIDE, "it names another us")
    clock.turn(7 * 86400)
    billing = world.registry.billing
    assert billing.oldest_pending() == {BillingState.SET_ASIDE: begun}
    aside = billing.list(states=(BillingState.SET_ASIDE,))
    dismissed = world.billing().dismiss(aside, reason="neither is ours")
    assert {billing_event.state for billing_event in dismissed} == {BillingState.DISMISSED}
    assert billing.oldest_pending() == {}
    assert world.billing().dismiss(dismissed, reason="again") == dismissed
    assert [entry.why for entry in world.registry.audit.list() if entry.action == "billing_events_dismissed"] == [
        "neither is ours"
    ]


async def test_only_what_was_set_aside_is_dismissed(world: World) -> None:
    aside = await world.apply(nobodys())
    waits = await world.apply(created())
    with pytest.raises(RefusedError, match="is waiting and needs no review"):
        world.billing().dismiss([aside, waits], reason="t")
    assert world.registry.billing.get(aside.id).state is BillingState.SET_ASIDE


async def test_a_dismissed_event_is_forgotten_in_the_end_or_looked_at_again(world: World, clock: TurnedClock) -> None:
    aside = await world.apply(nobodys(receipt_email=EMAIL))
    [dismissed] = world.billing().dismiss([aside], reason="t")
    assert dismissed.detail == aside.detail
    again = await world.billing().retry(dismissed, reason="look again")
    assert (again.state, again.has_body) == (BillingState.SET_ASIDE, True)
    world.billing().dismiss([again], reason="t")
    clock.turn(86400 + 1)
    await world.billing().run()
    left = world.registry.billing.get(aside.id)
    assert (left.state, left.has_body) == (BillingState.DISMISSED, False)
    with pytest.raises(RefusedError, match="its received data are deleted"):
        await world.billing().retry(left, reason="look again")
    clock.turn(15 * 86400)
    await world.billing().run()
    assert world.registry.billing.list() == ()


async def test_what_a_dismissed_event_says_of_its_subscription_counts(world: World, clock: TurnedClock) -> None:
    """It is the newest: an older one that comes late does not undo what it says, however late."""
    newest = await world.apply(event(UPDATED, subscription("sub_1", price="price_new"), at=NOW + timedelta(minutes=1)))
    assert newest.state is BillingState.SET_ASIDE
    world.billing().dismiss([newest], reason="the price is a mistake")
    clock.turn(20 * 86400)
    await world.billing().run()
    clock.turn(20 * 86400)
    await world.billing().run()
    clock.timestamp = datetime.now(UTC)
    late = await world.apply(created())
    assert (late.state, late.detail) == (BillingState.SET_ASIDE, newest.detail)
    assert world.registry.billing.get(newest.id).state is BillingState.DISMISSED
    assert world.registry.operations.list() == ()
    later = await world.apply(event(UPDATED, subscription("sub_1"), at=NOW + timedelta(minutes=2)))
    assert later.state is BillingState.WAITING
    assert len(world.registry.operations.list()) == 1


async def test_other_products_of_the_account_are_none_of_ours(world: World) -> None:
    world.rules = {"product": "prod_agents"}
    for stripe_event in (
        created(product="prod_other", user=""),
        event("invoice.paid", invoice("sub_7", product="prod_other"), at=NOW),
        event("invoice.paid", {"object": "invoice", "id": "in_3"}, at=NOW),
    ):
        taken = await world.apply(stripe_event)
        assert (taken.state, taken.fact, taken.has_body) == (BillingState.APPLIED, None, False)
    assert (await world.apply(created())).state is BillingState.WAITING


# What is refused


def _forged(body: bytes, _: str) -> tuple[bytes, str]:
    return body, Endpoint().signature(body)


def _changed(body: bytes, signature: str) -> tuple[bytes, str]:
    return body.replace(b"price_light", b"price_heavy"), signature


BAD: dict[str, Callable[[bytes, str], tuple[bytes, str]]] = {
    "forged": _forged,
    "changed": _changed,
    "no signature": lambda body, _: (body, ""),
    "no time": lambda body, _: (body, "v1=aa"),
    "many times": lambda body, signature: (body, f"t={'9' * 400},{signature}"),
    "other scheme": lambda body, signature: (body, signature.replace("v1=", "v0=")),
    "not ASCII": lambda body, _: (body, "t=1,v1=é\u202e"),
    "lines": lambda body, signature: (body, f"\r\n{signature}"),
    "huge signature": lambda body, signature: (body, signature + "," * MOST_SIGNATURE),
    "not text": lambda _body, signature: (b"\xff\xfe\x00", signature),
    "empty": lambda _body, signature: (b"", signature),
    "huge": lambda body, signature: (body + b" " * MOST_BYTES, signature),
    "deep": lambda _body, signature: (b"[" * 100_000, signature),
}


@SQLITE
@pytest.mark.parametrize("name", BAD)
async def test_what_is_not_stripes_writes_an_audit_row_and_nothing_else(world: World, name: str) -> None:
    body, signature = BAD[name](*world.endpoint.signed(created()))
    with pytest.raises(RefusedError) as refused:
        await world.billing().apply(body, signature)
    assert refused.value.exit_code == 3
    assert world.rows() == []
    [entry] = world.registry.audit.list()
    assert (entry.action, entry.after) == ("billing_event_refused", {"bytes": len(body)})
    assert (world.registry.operations.list(), world.registry.instances.list()) == ((), ())
    # The same in the queue, where it came before anybody could refuse it.
    number = world.registry.billing.receive(
        body, signature.replace("\x00", "")
    )  # PostgreSQL has none of these in texts
    await world.billing().run()
    assert world.registry.billing.get(number).state is BillingState.REFUSED
    assert world.registry.operations.list() == ()


async def test_a_character_that_postgresql_cannot_store_is_refused_behind_a_right_signature(world: World) -> None:
    body, signature = world.endpoint.signed(created())
    with pytest.raises(RefusedError, match="it is no header"):
        await world.billing().apply(body, f"{signature},v1=\x00")


async def test_one_audit_row_stands_for_many_that_are_forged(world: World, clock: TurnedClock) -> None:
    for _ in range(150):
        world.registry.billing.receive(b"{}", "t=1,v1=aa")
    await world.billing().run()
    assert world.registry.billing.count() == {BillingState.REFUSED: 150}
    assert [row.id for row in world.rows() if row.body] == list(range(51, 151)), "anybody may send such"
    assert {entry.after["count"] for entry in world.registry.audit.list()} == {50, 100}
    clock.turn(86401)
    await world.billing().run()
    assert not any(row.body for row in world.rows())
    clock.turn(14 * 86400 + 1)
    await world.billing().run()
    assert world.rows() == []


async def test_an_event_that_is_old_when_it_comes_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="too old"):
        await world.apply(created(), at=datetime.now(UTC) - timedelta(seconds=400))


async def test_an_old_event_counts_no_more_whatever_its_row_says(world: World, clock: TurnedClock) -> None:
    month_ago = datetime.now(UTC) - timedelta(days=30)
    clock.timestamp = month_ago
    world.registry.billing.receive(*world.endpoint.signed(created(), at=month_ago))
    clock.timestamp = datetime.now(UTC)
    await world.billing().run()
    assert (world.registry.billing.get(1).state, world.registry.billing.get(1).detail) == (
        BillingState.REFUSED,
        "the signature is refused: too old",
    )


async def test_an_event_of_the_future_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="an event of the future"):
        await world.apply(event(CREATED, subscription("sub_1"), at=datetime.now(UTC) + timedelta(seconds=400)))


@pytest.mark.parametrize(
    ("livemode", "account", "why"),
    [(True, None, "live mode"), (False, "acct_other", "another account")],
)
async def test_events_of_elsewhere_are_refused(world: World, livemode: bool, account: str | None, why: str) -> None:  # noqa: FBT001 - pytest's
    with pytest.raises(RefusedError, match=why):
        await world.apply({**created(), "livemode": livemode, "account": account})
    assert world.rows() == []


async def test_an_account_that_is_named_is_taken(world: World) -> None:
    world.rules = {"account": "acct_1", "livemode": True}
    taken = await world.apply({**created(), "livemode": True, "account": "acct_1"})
    assert taken.state is BillingState.WAITING
    with pytest.raises(RefusedError, match="test mode"):
        await world.apply({**created(), "livemode": False})


async def test_without_a_secret_events_stay_in_the_queue(world: World) -> None:
    def no_secret() -> Rules:
        raise RefusedError("there is no secret")

    world.registry.billing.receive(*world.endpoint.signed(created()))
    with pytest.raises(RefusedError, match="no secret"):
        await replace(world.billing(), rules=no_secret).run()
    assert world.registry.billing.count() == {BillingState.QUEUED: 1}


async def test_what_was_refused_for_a_wrong_secret_is_read_again_within_a_day(world: World) -> None:
    world.registry.billing.receive(*world.endpoint.signed(created()))
    world.rules = {"secrets": (fresh_secret(),)}
    await world.billing().run()
    refused = world.registry.billing.get(1)
    assert refused.state is BillingState.REFUSED
    world.rules = {}
    assert (await world.billing().retry(refused, reason="the secret is right now")).state is BillingState.WAITING


# What is signed, and strange all the same

STRANGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "no list": lambda stripe_event: [stripe_event],
    "no object": lambda stripe_event: {**stripe_event, "object": "v2.core.event"},
    "no id": lambda stripe_event: {**stripe_event, "id": "evt_" + "x" * 500},
    "control characters": lambda stripe_event: {**stripe_event, "type": "customer.\x1b[2J"},
    "no time": lambda stripe_event: {**stripe_event, "created": -1},
    "a far time": lambda stripe_event: {**stripe_event, "created": 10**30},
    "a fraction of time": lambda stripe_event: {**stripe_event, "created": 1.5e9},
    "no mode": lambda stripe_event: {**stripe_event, "livemode": "false"},
    "no data": lambda stripe_event: {**stripe_event, "data": None},
    "no subscription": lambda stripe_event: _with(stripe_event, id="sub_'; DROP TABLE users; --"),
    "no items": lambda stripe_event: _with(stripe_event, items={"data": "all"}),
    "too many items": lambda stripe_event: _with(
        stripe_event, items={"data": stripe_event["data"]["object"]["items"]["data"] * 50}
    ),
    "no price": lambda stripe_event: _with(stripe_event, items={"data": [{"price": {"id": "<script>"}}]}),
    "new status": lambda stripe_event: _with(stripe_event, status="on_holiday"),
    "no user": lambda stripe_event: _with(stripe_event, metadata={}),
    "an alias": lambda stripe_event: _with(stripe_event, metadata={"user_id": "ada"}),
    "another spelling": lambda stripe_event: _with(stripe_event, metadata={"user_id": f"urn:uuid:{USER}"}),
    "an address": lambda stripe_event: _with(stripe_event, metadata={"user_id": EMAIL, EMAIL: EMAIL}),
    "metadata of lists": lambda stripe_event: _with(stripe_event, metadata={"user_id": [USER]}),
}


def _with(stripe_event: dict[str, Any], **changed: object) -> dict[str, Any]:
    return {**stripe_event, "data": {"object": {**stripe_event["data"]["object"], **changed}}}


@SQLITE
@pytest.mark.parametrize("name", STRANGE)
async def test_what_is_signed_and_strange_is_kept_aside_without_a_word_of_it(world: World, name: str) -> None:
    body = json.dumps(STRANGE[name]({"livemode": False, **created()})).encode()
    taken = await world.billing().apply(body, world.endpoint.signature(body))
    assert (taken.state, taken.has_body, taken.fact) == (BillingState.SET_ASIDE, True, None)
    assert taken.detail.isprintable()
    for secret in (EMAIL, "<script>", "DROP", USER):
        assert secret not in taken.detail
    again = await world.billing().retry(taken, reason="again")
    assert again.state is BillingState.SET_ASIDE
    assert world.registry.operations.list() == ()


async def test_a_subscription_stays_its_first_users(world: World) -> None:
    await world.apply(created())
    stranger = "22222222-2222-4222-8222-222222222222"
    taken = await world.apply(event(UPDATED, subscription("sub_1", user=stranger, price="price_heavy"), at=NOW))
    assert (taken.state, taken.has_body) == (BillingState.SET_ASIDE, False)
    assert f"which names {USER}" in taken.detail
    await world.billing().run(everybody=True)
    assert [instance.user_id for instance in world.registry.instances.list()] == [USER]
    with pytest.raises(RefusedError, match="names another user"):
        await world.billing().retry(taken, reason="again")
    [left] = await world.billing().retry_all(reason="again")
    assert (left.id, left.state) == (taken.id, BillingState.SET_ASIDE)


# What waits


async def test_an_invoice_waits_for_the_event_that_names_its_user(world: World, clock: TurnedClock) -> None:
    early = await world.apply(event("invoice.paid", invoice("sub_1"), at=NOW))
    lost = await world.apply(event("invoice.paid", invoice("sub_2"), at=NOW))
    assert early.state is BillingState.WAITING
    await world.apply(created())
    [operation] = world.registry.operations.list()
    assert world.registry.billing.get(early.id).operation_id == operation.id
    clock.turn(5 * 86400)
    await world.billing().run()
    assert world.registry.billing.get(lost.id).state is BillingState.SET_ASIDE
    assert world.registry.billing.get(early.id).state is BillingState.WAITING


async def test_a_refused_request_waits_and_is_made_again(world: World, clock: TurnedClock) -> None:
    world.problem = "the budget is spent"
    taken = await world.apply(created())
    assert (taken.state, taken.detail) == (BillingState.WAITING, "the budget is spent")
    assert world.billing().due() == []
    clock.turn(121)
    assert world.billing().due() == [f"user {USER}"]
    world.problem = ""
    await world.billing().run()
    assert "left to the workers" in world.registry.billing.get(taken.id).detail


async def test_a_failed_operation_is_opened_again_by_a_person_only(world: World, clock: TurnedClock) -> None:
    taken = await world.apply(created())
    [operation] = world.registry.operations.list()
    world.registry.operations.finish(operation.id, OperationStatus.FAILED, "no machine came")
    for _ in range(2):
        clock.turn(600)
        await world.billing().run()
    billing_event = world.registry.billing.get(taken.id)
    assert billing_event.state is BillingState.SET_ASIDE
    assert "no machine came" in billing_event.detail
    assert len(world.registry.operations.list()) == 1
    again = await world.billing().retry(billing_event, reason="the vendor has machines")
    assert again.state is BillingState.WAITING
    assert len(world.registry.operations.list()) == 2


async def test_an_unknown_price_is_set_aside_until_it_is_known(world: World) -> None:
    taken = await world.apply(created(price="price_new"))
    assert taken.state is BillingState.SET_ASIDE
    assert "price_new" in taken.detail
    knows = world.billing()
    policy = Policy({"price_new": Plan.HEAVY}, timedelta(days=3))
    known = replace(knows, agents=replace(knows.agents, policy=policy))
    [again] = await known.retry_all(reason="it is of plan heavy")
    assert (again.id, again.state) == (taken.id, BillingState.WAITING)
    assert [instance.plan for instance in world.registry.instances.list()] == [Plan.HEAVY]


async def test_what_is_done_is_not_done_again(world: World) -> None:
    taken = await world.apply(event(UPDATED, subscription("sub_1", status="incomplete"), at=NOW))
    assert taken.state is BillingState.APPLIED
    with pytest.raises(RefusedError, match="nothing is left"):
        await world.billing().retry(taken, reason="again")
    with pytest.raises(UsageError, match="no billing event"):
        world.registry.billing.find("evt_none")


@pytest.mark.turns(7)
@pytest.mark.parametrize("committed", [False, True])
async def test_whatever_write_it_is_killed_at_the_next_worker_goes_on(tmp_path: Path, committed: bool) -> None:  # noqa: FBT001 - pytest's
    endpoint, clock = Endpoint(), TurnedClock()
    stripe_event = created()
    bodies = [
        stripe_event,
        stripe_event,
        event("invoice.paid", invoice("sub_1"), at=NOW),
        event("charge.failed", {}, at=NOW),
    ]
    at, survived = 0, False
    while not survived:
        at += 1
        url = f"sqlite:///{tmp_path}/{at}/registry.db"
        clock.timestamp = datetime.now(UTC)
        first = registry_at(url, clock=clock)
        for body in bodies:
            first.billing.receive(*endpoint.signed(body))
        death = (Death.after if committed else Death.before)(at)
        first._database.writing = death.around_commit(first._database.writing)  # type: ignore[method-assign]
        try:
            await World(first, endpoint).billing().run()
            survived = True
        except KilledError:
            pass
        first.close()
        clock.turn(60)  # leases of the dead one end
        second = registry_at(url, clock=clock)
        await World(second, endpoint).billing().run(everybody=True)
        assert [instance.user_id for instance in second.instances.list()] == [USER], at
        assert len(second.operations.list()) == 1
        rows = {row.type: row for row in second.billing.list()}
        assert rows[CREATED].deliveries == 2
        assert {row.state for row in rows.values()} == {BillingState.WAITING, BillingState.APPLIED}
        assert second.subscriptions.of_user(UserId(USER)) == {second.instances.list()[0].id: "sub_1"}
        second.close()
    assert at > 8


@pytest.mark.parametrize("registry_url", ["postgresql"], indirect=True)
@pytest.mark.postgres
async def test_two_workers_at_once_apply_once(registry_url: str) -> None:
    endpoint = Endpoint()
    users = [f"{number:08d}-1111-4111-8111-111111111111" for number in range(12)]
    first = registry_at(registry_url)
    for number, user in enumerate(users):
        stripe_event = event(CREATED, subscription(f"sub_{number}", user=user), at=NOW)
        for _ in range(2):
            first.billing.receive(*endpoint.signed(stripe_event))
    registries = [first, registry_at(registry_url), registry_at(registry_url)]

    def work(registry: Registry) -> None:
        asyncio.run(World(registry, endpoint).billing().run(everybody=True))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, registries))
    assert sorted(instance.user_id for instance in first.instances.list()) == users
    assert len(first.operations.list()) == len(users)
    rows = first.billing.list()
    assert [row.deliveries for row in rows] == [2] * len(users)
    assert {row.state for row in rows} == {BillingState.WAITING}
    for opened in registries:
        opened.close()


@pytest.mark.parametrize("registry_url", ["postgresql"], indirect=True)
@pytest.mark.postgres
async def test_the_webhook_endpoint_may_queue_and_nothing_else(world: World) -> None:
    """As runbooks/environments.md grants it."""
    body, signature = world.endpoint.signed(created())
    database = world.registry._database
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE ROLE control_plane NOLOGIN")
        connection.exec_driver_sql("GRANT INSERT (body, signature) ON billing_events TO control_plane")
        connection.exec_driver_sql("GRANT USAGE ON SEQUENCE billing_events_id_seq TO control_plane")
    try:
        with database.writing() as connection:
            connection.exec_driver_sql("SET LOCAL ROLE control_plane")
            adding = sa.text("INSERT INTO billing_events (body, signature) VALUES (:body, :signature)")
            connection.execute(adding, {"body": body, "signature": signature})
        with pytest.raises(HermesError, match="permission denied"), database.writing() as connection:
            connection.exec_driver_sql(
                "SET LOCAL ROLE control_plane; INSERT INTO billing_events (body, state) VALUES ('', 'applied')"
            )
    finally:
        with database.writing() as connection:
            connection.exec_driver_sql("DROP OWNED BY control_plane")
            connection.exec_driver_sql("DROP ROLE control_plane")
    await world.billing().run()
    [event_] = world.registry.billing.list()
    assert (event_.state, event_.event_id.startswith("evt_")) == (BillingState.WAITING, True)
