"""Requests of users on either database and the stand-in of Stripe: each ends once, whatever dies."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.model.billing.user_request import BODY_STAYS, ROW_STAYS, RequestKind, RequestState, UserRequest
from hermesops.model.ids import UserId
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.requests import MOST_OPEN, UserRequests
from hermesops.users.agent_settings.service import tag_of
from tests.support.billing.plan_world import PlanWorld, plan_world
from tests.support.crash.death import Death, KilledError, Mortal
from tests.support.real.stores.registries import KEYS, TurnedClock, placed

SETTINGS, SUBSCRIBE = RequestKind.SETTINGS, RequestKind.SUBSCRIBE
WRITES = ("user_requests.decide", "subscriptions.add_seen", "billing.decide", "subscriptions.bind")


@pytest.fixture
def clock() -> TurnedClock:
    """Begins now: the stand-in of Stripe has this computer's clock."""
    turned = TurnedClock()
    turned.timestamp = datetime.now(UTC)
    return turned


@pytest.fixture
def database(registry: Registry, registry_url: str, clock: TurnedClock) -> Iterator[Database]:
    assert registry.actor
    database = Database(registry_url, clock=clock)
    yield database
    database.close()


@pytest.fixture
async def world(registry: Registry, database: Database) -> AsyncIterator[PlanWorld]:
    async with plan_world(registry, database) as world:
        yield world


async def carried(world: PlanWorld, request: UserRequest) -> UserRequest:
    await world.carrier().run()
    return world.now(request)


def outcome(request: UserRequest) -> tuple[RequestState, str]:
    return request.state, request.code


async def test_a_plan_is_bought_at_the_checkout_page_though_no_event_comes(
    world: PlanWorld, clock: TurnedClock
) -> None:
    request = await carried(world, world.ask(SUBSCRIBE, plan="heavy"))
    assert request.state is RequestState.WAITING
    answer = world.answer(request)
    assert answer["url"].startswith(world.stripe_url)
    session = world.stripe.books.sessions[answer["session"]]
    assert (session["client_reference_id"], session["metadata"]) == (world.user, {"user_id": world.user})
    assert session["success_url"] == "http://localhost/hermes-max/chat#/plan"
    clock.turn(6)
    assert (await carried(world, request)).detail == "pay at the checkout page"
    world.stripe.books.pay(answer["session"])
    clock.turn(16)
    assert outcome(await carried(world, request)) == (RequestState.DONE, "")
    [operation] = world.registry.operations.list()
    assert (operation.kind, operation.intent["plan"]) == (OperationKind.PROVISION, "heavy")
    assert world.carrier().due() == []


async def test_what_a_user_asked_for_is_audited_as_the_users_and_without_its_content(world: PlanWorld) -> None:
    request = await carried(world, world.ask(SUBSCRIBE, plan="light"))
    entries = [entry for entry in world.registry.audit.list() if entry.action == "user_request_decided"]
    assert [(entry.who, entry.subject, entry.after["state"]) for entry in entries] == [
        (f"user:{world.user}", f"user/{world.user}", "waiting")
    ]
    assert world.answer(request)["url"] not in str(world.registry.audit.list())


async def test_a_user_with_a_plan_buys_no_second_one_and_one_without_ends_none(world: PlanWorld) -> None:
    for kind in (RequestKind.CANCEL, RequestKind.PORTAL):
        assert outcome(await carried(world, world.ask(kind))) == (RequestState.REFUSED, "no-plan")
    bought = await world.subscribed()
    await world.sweep().run()
    assert outcome(await carried(world, world.ask(SUBSCRIBE, plan="heavy"))) == (RequestState.REFUSED, "has-plan")
    portal = await carried(world, world.ask(RequestKind.PORTAL))
    assert (portal.state, "/portal/" in world.answer(portal)["url"]) == (RequestState.DONE, True)
    for _ in range(2):
        ended = await carried(world, world.ask(RequestKind.CANCEL))
        assert outcome(ended) == (RequestState.DONE, "")
    assert world.stripe.books.subscription(bought)["cancel_at_period_end"] is True
    shown = world.plans.get(world.user)
    assert shown is not None
    assert shown.statement.ends_at is not None
    assert shown.statement.next_charge is None


async def test_the_last_of_two_checkout_pages_is_the_only_open_one(world: PlanWorld) -> None:
    first = await carried(world, world.ask(SUBSCRIBE, plan="light"))
    second = await carried(world, world.ask(SUBSCRIBE, plan="heavy"))
    assert second.state is RequestState.WAITING
    status = {id_: session["status"] for id_, session in world.stripe.books.sessions.items()}
    assert status == {world.answer(first)["session"]: "expired", world.answer(second)["session"]: "open"}
    world.stripe.books.pay(world.answer(second)["session"])
    third = await carried(world, world.ask(SUBSCRIBE, plan="light"))
    assert outcome(third) == (RequestState.REFUSED, "has-plan")


async def test_a_page_that_nobody_pays_ends_its_request(world: PlanWorld, clock: TurnedClock) -> None:
    request = await carried(world, world.ask(SUBSCRIBE, plan="light"))
    world.stripe.books.close_checkout(world.answer(request)["session"])
    clock.turn(60)
    assert outcome(await carried(world, request)) == (RequestState.REFUSED, "not-paid")


async def test_nothing_is_sold_without_a_key_and_no_other_plan(world: PlanWorld) -> None:
    assert outcome(await carried(world, world.ask(SUBSCRIBE, plan="huge"))) == (RequestState.REFUSED, "invalid")
    world.is_sold = False
    assert outcome(await carried(world, world.ask(SUBSCRIBE, plan="light"))) == (RequestState.REFUSED, "not-sold")


async def test_stripe_away_is_waited_for_longer_each_time_and_an_hour_at_most(
    world: PlanWorld, clock: TurnedClock
) -> None:
    world.stripe_url, there = "http://127.0.0.1:9", world.stripe_url
    request = world.ask(SUBSCRIBE, plan="light")
    pauses = []
    for tries in range(1, 4):
        request = await carried(world, request)
        assert (request.state, request.tries) == (RequestState.QUEUED, tries)
        assert request.due_at is not None
        pauses.append((request.due_at - clock()).total_seconds())
        clock.turn(pauses[-1])
    assert pauses == [1, 2, 4]
    world.stripe_url = there
    assert (await carried(world, request)).state is RequestState.WAITING
    world.stripe_url = "http://127.0.0.1:9"
    late = world.ask(SUBSCRIBE, plan="heavy")
    clock.turn(3601)
    assert outcome(await carried(world, late)) == (RequestState.REFUSED, "unavailable")


async def test_the_same_key_is_the_same_request_and_of_one_kind(world: PlanWorld) -> None:
    first = world.ask(SUBSCRIBE, "k1", plan="light")
    assert world.ask(SUBSCRIBE, "k1", plan="heavy").id == first.id
    with pytest.raises(Exception, match="another request"):
        world.ask(RequestKind.CANCEL, "k1")
    for number in range(MOST_OPEN - 1):
        world.ask(RequestKind.CANCEL, f"c{number}")
    assert world.rows.add(world.user, RequestKind.CANCEL, "more", {"origin": ""}) is None
    assert world.ask(SUBSCRIBE, "k1").id == first.id


async def test_settings_become_an_operation_whose_end_ends_the_request(world: PlanWorld, clock: TurnedClock) -> None:
    agent = placed(world.registry, world.user)
    tag = tag_of(world.registry.instance_secrets.settings(agent.id))
    request = await carried(world, world.ask(SETTINGS, changes={"personality": "brief"}, tag=tag))
    assert (request.state, request.operation_id is not None) == (RequestState.WAITING, True)
    assert world.registry.instance_secrets.settings(agent.id).personality == "brief"
    old = await carried(world, world.ask(SETTINGS, changes={"personality": "kind"}, tag=tag))
    assert outcome(old) == (RequestState.REFUSED, "changed-meanwhile")
    wrong = world.ask(
        SETTINGS, changes={"model": "none"}, tag=tag_of(world.registry.instance_secrets.settings(agent.id))
    )
    assert outcome(await carried(world, wrong)) == (RequestState.REFUSED, "invalid")
    clock.turn(2)
    assert (await carried(world, request)).state is RequestState.WAITING
    assert request.operation_id is not None
    world.registry.operations.finish(request.operation_id, OperationStatus.DONE, "done")
    clock.turn(2)
    assert outcome(await carried(world, request)) == (RequestState.DONE, "")
    changes = [entry for entry in world.registry.audit.list() if entry.action == "settings_changed"]
    assert {entry.who for entry in changes} <= {f"user:{world.user}"}


async def test_a_worker_with_another_key_refuses_nothing_for_an_hour(world: PlanWorld, clock: TurnedClock) -> None:
    request = world.ask(SUBSCRIBE, plan="light")
    carrier = replace(world.carrier(), rows=lambda: UserRequests(world.database, KeyRing("k2", {"k2": bytes(32)})))
    await carrier.run()
    assert (world.now(request).state, world.now(request).tries) == (RequestState.QUEUED, 1)
    clock.turn(2)
    assert (await carried(world, request)).state is RequestState.WAITING


async def test_content_is_sealed_and_gone_a_day_after_the_end(world: PlanWorld, clock: TurnedClock) -> None:
    request = await carried(world, world.ask(SUBSCRIBE, plan="huge"))
    assert "huge" not in request.body
    assert UserRequests(world.database, KEYS).body(request)["plan"] == "huge"
    clock.turn(BODY_STAYS.total_seconds() + 1)
    assert world.carrier().due() == ["1 old request"]
    await world.carrier().run()
    assert (world.now(request).body, world.now(request).state) == ("", RequestState.REFUSED)
    clock.turn(ROW_STAYS.total_seconds())
    await world.carrier().run()
    assert world.rows.get(world.user, request.id) is None


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_whoever_carries_a_purchase_may_die_at_each_write(
    world: PlanWorld, clock: TurnedClock, *, is_done: bool
) -> None:
    steps = 0
    for step in range(1, 10):
        world.user = UserId(str(uuid4()))
        request = world.ask(SUBSCRIBE, plan="light")
        death = (Death.after if is_done else Death.before)(step)
        mortal: Any = Mortal(world.registry, death, WRITES)
        with contextlib.suppress(KilledError):
            await bought(world, clock, request, mortal)
        steps += death.is_dead
        await bought(world, clock, request, world.registry)
        await world.billing().run()  # of whoever died between a recorded subscription and its operation
        assert outcome(world.now(request)) == (RequestState.DONE, ""), step
        assert len(world.stripe.books.sessions) == step
        assert len(world.registry.operations.list()) == step
        if not death.is_dead:
            break
    assert steps >= 4


async def bought(world: PlanWorld, clock: TurnedClock, request: UserRequest, registry: Any) -> None:  # noqa: ANN401 - may be mortal
    """Carry a purchase out; the user pays as soon as there is a page."""
    for _ in range(3):
        await world.carrier(registry).carry(world.user)
        session = world.answer(request).get("session", "")
        if session and world.stripe.books.session(session)["status"] == "open":
            world.stripe.books.pay(session)
        clock.turn(61)


async def test_a_death_after_an_operation_was_opened_opens_no_second_one(world: PlanWorld, clock: TurnedClock) -> None:
    agent = placed(world.registry, world.user)
    tag = tag_of(world.registry.instance_secrets.settings(agent.id))
    request = world.ask(SETTINGS, changes={"personality": "brief"}, tag=tag)
    mortal: Any = Mortal(world.registry, Death.before(1), WRITES)
    with pytest.raises(KilledError):
        await world.carrier(mortal).carry(world.user)
    assert world.now(request).state is RequestState.QUEUED
    clock.turn(31)
    carried_out = await carried(world, request)
    assert (carried_out.state, carried_out.code) == (RequestState.WAITING, "")
    assert len(world.registry.operations.list()) == 1
