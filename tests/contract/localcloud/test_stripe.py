"""The stand-in of Stripe, asked by Stripe's own library: it refuses what Stripe refuses, and signs as Stripe does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import stripe
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError
from hermesops.localcloud.vendors.stripe import server
from hermesops.localcloud.vendors.stripe.books import Books
from hermesops.localcloud.vendors.stripe.form import parameters_of
from hermesops.localcloud.vendors.stripe.server import PREFIX, LocalStripe
from hermesops.localcloud.vendors.users_door import UsersDoor, door_in, write_door
from hermesops.users.billing.stripe_api import StripeApi, StripeRefusedError
from tests.support.billing.stripe_events import fresh_secret
from tests.support.users.api import served

NOON = 1_780_056_000
"""A whole minute, and no midnight."""

SESSION = {
    "mode": "subscription",
    "line_items": [{"price": "price_light", "quantity": 1}],
    "success_url": "http://localhost/back",
    "subscription_data": {"metadata": {"user_id": "u"}},
}


@dataclass
class Receiver:
    """An endpoint for events, which refuses the first ones."""

    refuses: int = 0
    taken: list[tuple[bytes, str]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        if self.refuses:
            self.refuses -= 1
            return Response(status_code=503)
        self.taken.append((await request.body(), request.headers["stripe-signature"]))
        self.hosts.append(request.headers["host"])
        return Response(status_code=204)


@dataclass
class World:
    """The stand-in with its endpoint, and a client of it."""

    stripe: LocalStripe
    receiver: Receiver
    secret: str
    url: str

    async def ask(self, call: Callable[[Any], Any], key: str = "sk_test_x") -> Any:  # noqa: ANN401 - as JSON
        return (await StripeApi(key, self.url).ask(call)).content

    async def begin(self, **changes: object) -> Any:  # noqa: ANN401 - as JSON
        params: Any = {**SESSION, **changes}
        return await self.ask(lambda v1: v1.checkout.sessions.create(params))


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(server, "_AGAIN_S", (0.01, 0.01))
    receiver, secret = Receiver(), fresh_secret()
    app = Starlette(routes=[Route("/take", receiver.take, methods=["POST"])])
    async with served(app) as url:
        door = partial(door_in, tmp_path / "door.json")
        local = LocalStripe("http://127.0.0.1:1/stripe", secret, f"{url}/take", door, tmp_path / "stripe.json")
        app.router.routes.append(Mount(PREFIX, routes=local.routes()))
        yield World(local, receiver, secret, f"{url}{PREFIX}")
        await local.close()


async def test_its_events_are_signed_as_stripes_and_sent_until_they_are_taken(world: World) -> None:
    world.receiver.refuses = 2
    session = await world.begin()
    world.stripe.books.pay(session["id"])
    await world.stripe.delivered()
    kinds = set()
    for body, signature in world.receiver.taken:
        kinds.add(stripe.Webhook.construct_event(body, signature, world.secret)["type"])
    assert kinds == {"checkout.session.completed", "customer.subscription.created", "invoice.paid"}


async def test_events_go_to_the_platforms_door_once_it_serves_users(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that the environment's own API has not taken, as while the registry moved to the platform."""
    monkeypatch.setattr(server, "_AGAIN_S", [0.05] * 1_000)
    world.receiver.refuses = 10_000
    session = await world.begin()
    world.stripe.books.pay(session["id"])

    async def refused() -> bool | Pending[bool]:
        return world.receiver.refuses <= 10_000 - 3 or Pending(str(world.receiver.refuses))

    await until(refused, what="each event to be refused once", timeout_s=20, every_s=0.01)
    door = Receiver()
    async with served(Starlette(routes=[Route("/take", door.take, methods=["POST"])])) as url:
        write_door(tmp_path / "door.json", UsersDoor(url, "agents.example"))
        await world.stripe.delivered()
    assert {stripe.Webhook.construct_event(*event, world.secret)["type"] for event in door.taken} == {
        "checkout.session.completed",
        "customer.subscription.created",
        "invoice.paid",
    }
    assert set(door.hosts) == {"agents.example"}
    assert world.receiver.taken == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"url": 1}', '{"url": "https://127.0.0.1:9", "authorities": "x"}'])
async def test_a_damaged_file_of_the_door_breaks_nothing(world: World, tmp_path: Path, text: str) -> None:
    (tmp_path / "door.json").write_text(text)
    session = await world.begin()
    world.stripe.books.pay(session["id"])
    await world.stripe.delivered()
    assert world.receiver.taken == []


async def test_the_account_outlives_the_server(world: World, tmp_path: Path) -> None:
    session = await world.begin()
    world.stripe.books.pay(session["id"])
    world.stripe.books.keep()
    again = Books(tmp_path / "stripe.json", lambda: 0.0, lambda _kind, _about: None)
    assert again.subscriptions == world.stripe.books.subscriptions
    assert json.loads((tmp_path / "stripe.json").read_text())["sessions"].keys() == {session["id"]}


@pytest.mark.parametrize(
    "changes",
    [
        {"line_items": [{"price": "price_huge", "quantity": 1}]},
        {"customer": "cus_none"},
        {"expires_at": 1_000},
        {"return_url": "http://localhost/"},
    ],
    ids=["price", "customer", "expiry", "unknown parameter"],
)
async def test_a_checkout_that_stripe_refuses_is_refused(world: World, changes: dict[str, object]) -> None:
    with pytest.raises(StripeRefusedError, match="Stripe knows no that"):
        await world.begin(**changes)
    assert world.stripe.books.sessions == {}


async def test_a_known_key_of_a_request_has_the_same_answer_and_no_other_parameters(world: World) -> None:
    options: Any = {"idempotency_key": "k"}
    params: Any = SESSION
    first = await world.ask(lambda v1: v1.checkout.sessions.create(params, options))
    assert await world.ask(lambda v1: v1.checkout.sessions.create(params, options)) == first
    other: Any = {**SESSION, "success_url": "http://localhost/other"}
    with pytest.raises(Exception, match="Stripe"):
        await world.ask(lambda v1: v1.checkout.sessions.create(other, options))
    assert len(world.stripe.books.sessions) == 1


async def test_a_closed_page_is_neither_paid_nor_closed_again(world: World) -> None:
    session = await world.begin()
    close: Callable[[Any], Any] = lambda v1: v1.checkout.sessions.expire(session["id"])  # noqa: E731 - as ``ask`` takes it
    assert (await world.ask(close))["status"] == "expired"
    with pytest.raises(StripeRefusedError, match="Stripe knows no"):
        await world.ask(close)


async def test_a_key_of_the_other_mode_opens_nothing(world: World) -> None:
    with pytest.raises(RefusedError, match=r"refuses billing\.key"):
        await world.ask(lambda v1: v1.subscriptions.list(), "sk_live_x")


def _event(**changes: object) -> Any:  # noqa: ANN401 - as Stripe's library takes it
    payload = {"stripe_customer_id": "cus_1", "value": "2"}
    event = {"event_name": "hermes_instance_days", "identifier": "i-1", "payload": payload, "timestamp": NOON}
    return {name: value for name, value in {**event, **changes}.items() if value is not None}


@pytest.fixture
def noon(world: World) -> World:
    """The world at noon."""
    world.stripe.books.clock = lambda: float(NOON + 30)
    return world


async def test_an_event_counts_once_within_a_day_and_is_in_the_sum_of_its_minute(noon: World) -> None:
    params = _event()
    await noon.ask(lambda v1: v1.billing.meter_events.create(params))
    with pytest.raises(StripeRefusedError) as refused:
        await noon.ask(lambda v1: v1.billing.meter_events.create(params))
    assert refused.value.vendor_message == "An event already exists with identifier i-1."
    period = {"customer": "cus_1", "start_time": NOON, "end_time": NOON + 60}
    summed = await noon.ask(lambda v1: v1.billing.meters.event_summaries.list("mtr_days", period))
    assert [row["aggregated_value"] for row in summed["data"]] == [2]
    noon.stripe.books.clock = lambda: float(NOON + 24 * 3600 + 31)
    await noon.ask(lambda v1: v1.billing.meter_events.create(params))
    summed = await noon.ask(lambda v1: v1.billing.meters.event_summaries.list("mtr_days", period))
    assert [row["aggregated_value"] for row in summed["data"]] == [4], "it forgot the identifier, as Stripe may"


@pytest.mark.parametrize(
    "changes",
    [
        {"event_name": "no_such_meter"},
        {"identifier": "i" * 101},
        {"timestamp": NOON - 35 * 86_400 - 1},
        {"timestamp": NOON + 30 + 301},
        {"payload": {"value": "2"}},
        {"payload": {"stripe_customer_id": "cus_1", "value": "two"}},
        {"quantity": "2"},
    ],
    ids=["meter", "identifier", "too old", "too new", "customer", "value", "unknown parameter"],
)
async def test_an_event_that_stripe_refuses_is_refused(noon: World, changes: dict[str, object]) -> None:
    params = _event(**changes)
    with pytest.raises(StripeRefusedError, match="Stripe knows no that"):
        await noon.ask(lambda v1: v1.billing.meter_events.create(params))
    assert noon.stripe.books.meter_events == {}


async def test_two_events_of_a_customer_and_meter_at_once_are_one_too_many(noon: World) -> None:
    """Over plain HTTP: Stripe's library waits and tries again."""
    headers = {"authorization": "Bearer sk_test_x"}
    async with own_client(base_url=noon.url, headers=headers) as http:
        bodies = [
            {
                "event_name": "hermes_instance_days",
                "identifier": f"i-{number}",
                "timestamp": str(NOON),
                "payload[stripe_customer_id]": "cus_1",
                "payload[value]": "1",
            }
            for number in range(6)
        ]
        answers = await asyncio.gather(*(http.post("/v1/billing/meter_events", data=body) for body in bodies))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    assert len(noon.stripe.books.meter_events) == statuses.count(200)


@pytest.mark.parametrize("end", [NOON + 30, NOON + 3_600])
async def test_sums_are_of_whole_minutes_and_days(noon: World, end: int) -> None:
    period = {"customer": "cus_1", "start_time": NOON, "end_time": end, "value_grouping_window": "day"}
    with pytest.raises(StripeRefusedError, match="Stripe knows no that"):
        await noon.ask(lambda v1: v1.billing.meters.event_summaries.list("mtr_days", period))


async def test_prices_of_meters_are_sold_beside_a_plan_without_a_quantity(world: World) -> None:
    plan = {"price": "price_light", "quantity": 1}
    session = await world.begin(line_items=[plan, {"price": "price_days"}])
    world.stripe.books.pay(session["id"])
    [subscription] = world.stripe.books.subscriptions.values()
    assert [item["price"]["id"] for item in subscription["items"]["data"]] == ["price_light", "price_days"]
    with pytest.raises(StripeRefusedError, match="Stripe knows no that"):
        await world.begin(line_items=[plan, {"price": "price_days", "quantity": 1}])


def test_parameters_are_read_in_stripes_notation() -> None:
    text = "mode=subscription&line_items[0][price]=p&line_items[0][quantity]=1&metadata[user_id]=u&empty="
    assert parameters_of(text) == {
        "mode": "subscription",
        "line_items": [{"price": "p", "quantity": "1"}],
        "metadata": {"user_id": "u"},
        "empty": "",
    }
