"""A plan over HTTP, from the checkout page to its end: what a user buys, sees, and ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.localcloud.vendors.stripe.server import EVENTS_PATH, LocalStripe
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import UserId
from tests.support.billing.plan_world import PlanWorld, plan_world
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import STRIPE, Client, UsersApi


@pytest.fixture
def clock() -> TurnedClock:
    """Begins now: the stand-in of Stripe has this computer's clock."""
    turned = TurnedClock()
    turned.timestamp = datetime.now(UTC)
    return turned


@pytest.fixture
async def world(api: UsersApi) -> AsyncIterator[PlanWorld]:
    """The work of workers for users, done beside the API; Stripe's events go to the API."""
    async with plan_world(api.relay.registry, api.relay.registry._database) as world:
        world.secret = world.stripe._secret = STRIPE.secret
        world.stripe.webhook = f"{api.process.url}{EVENTS_PATH}"
        working = asyncio.ensure_future(work(world, api.relay.clock))
        yield world
        await cancel(working)


async def work(world: PlanWorld, clock: TurnedClock) -> None:
    """Time passes a second at each look."""
    while True:
        await world.carrier().run()
        await world.billing().run()
        await world.metering().run()
        await world.statements().run()
        clock.turn(1)
        await pause(0.02)


@pytest.fixture
async def grace(api: UsersApi, world: PlanWorld) -> AsyncIterator[Client]:
    """A user without an agent, and without a row."""
    world.user = UserId("33333333-3333-4333-8333-333333333333")
    async with api.client(world.user) as client:
        yield client


async def eventually(client: Client, path: str, **fields: object) -> Any:  # noqa: ANN401 - as JSON
    """The answer of a path once it has these fields."""
    answer: Any = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            while True:
                answer = (await client.ask("GET", path)).json()
                if all(answer.get(name) == value for name, value in fields.items()):
                    return answer
                await pause(0.05)
    raise AssertionError(f"{path}: {answer}")


async def pay(stripe: LocalStripe, url: str) -> str:
    """Pay at the checkout page as a browser does; where it goes on to."""
    async with own_client() as http:
        shown = await http.get(url)
        assert "29.00 EUR" in shown.text
        paid = await http.post(url, data={"action": "pay"})
    await stripe.delivered()
    return paid.headers["location"]


async def test_a_user_buys_a_plan_gets_an_agent_and_ends_it(api: UsersApi, world: PlanWorld, grace: Client) -> None:
    assert (await grace.ask("GET", "/plan")).json()["status"] == "none"
    assert (await grace.ask("GET", "/instance")).json()["code"] == "no-agent"
    body = {"plan": "light", "client_key": "k1"}
    response = await grace.ask("POST", "/subscribe", json=body)
    assert response.status_code == 202
    request = response.json()["request"]
    url = (await eventually(grace, f"/requests/{request}", state="waiting"))["url"]
    assert (await grace.ask("POST", "/subscribe", json=body)).json() == {"request": request, "checkout_url": url}
    shown = (await grace.ask("GET", "/plan")).json()["subscribing"]
    assert (shown["request"], shown["url"]) == (request, url)
    assert await pay(world.stripe, url) == f"{api.process.url}/hermes-max/chat#/plan"
    paid = await eventually(grace, "/plan", status="active", subscribing=None)
    assert (paid["plan"], paid["next_charge"]["amount"], paid["next_charge"]["currency"]) == ("light", 2_900, "eur")
    assert [line["amount"] for invoice in paid["invoices"] for line in invoice["lines"]] == [2_900]
    assert (await eventually(grace, "/instance", status="provisioning"))["plan"] == "light"
    again = await grace.ask("POST", "/subscribe", json={"plan": "heavy", "client_key": "k2"})
    assert (again.status_code, again.json()["code"]) == (409, "has-plan")
    portal = await grace.ask("POST", "/plan/portal", json={"client_key": "k3"})
    assert (portal.status_code, "/portal/bps_" in portal.json()["url"]) == (202, True)
    ended = await grace.ask("POST", "/plan/cancel", json={"client_key": "k4"})
    assert (ended.status_code, ended.json()["state"]) == (202, "done")
    shown = await eventually(grace, "/plan", next_charge=None)
    assert shown["ends_at"] is not None


async def test_usage_is_shown_by_meter_and_on_the_next_charge(api: UsersApi, world: PlanWorld, grace: Client) -> None:
    assert (await grace.ask("GET", "/plan")).json()["metered"] == []
    response = await grace.ask("POST", "/subscribe", json={"plan": "light", "client_key": "k1"})
    url = (await eventually(grace, f"/requests/{response.json()['request']}", state="waiting"))["url"]
    await pay(world.stripe, url)
    await eventually(grace, "/instance", status="provisioning")
    registry = api.relay.registry
    instance = registry.instances.of_user(world.user)
    assert instance is not None
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    await until(partial(_metered, grace), what="usage", timeout_s=20, every_s=0.05)
    shown = await eventually(grace, "/plan", status="active", subscribing=None)
    [days] = shown["metered"]
    assert (days["meter"], days["quantity"], days["reported"]) == ("instance_days", 1, 1)
    assert shown["metered_since"] is not None
    plan, of_days, *_ = [line["description"] for line in shown["next_charge"]["lines"]]
    assert plan == "Hermes agent, plan light, one month"
    assert of_days.startswith("Days of the agent: ")


async def _metered(client: Client) -> bool | Pending[bool]:
    metered = (await client.ask("GET", "/plan")).json()["metered"]
    return True if metered and metered[0]["reported"] else Pending(str(metered))


async def test_a_user_without_a_plan_ends_none_and_sees_nobody_elses_request(
    api: UsersApi, grace: Client, ada: Client
) -> None:
    refused = await grace.ask("POST", "/plan/cancel", json={"client_key": "k1"})
    assert (refused.status_code, refused.json()["code"]) == (409, "no-plan")
    answer = (await grace.ask("POST", "/subscribe", json={"plan": "heavy", "client_key": "k2"})).json()
    others = await ada.ask("GET", f"/requests/{answer['request']}")
    assert (others.status_code, others.json()["code"]) == (404, "no-such-request")
    assert (await ada.ask("GET", "/plan")).json()["subscribing"] is None
    assert api.ada


async def test_a_change_of_settings_that_comes_late_is_refused_at_once(
    api: UsersApi, world: PlanWorld, ada: Client
) -> None:
    tag = (await ada.ask("GET", "/settings")).headers["etag"]
    for brevity, status in (("brief", 202), ("very brief", 412)):
        answer = await ada.ask("PATCH", "/settings", json={"personality": brevity}, headers={"if-match": tag})
        assert answer.status_code == status, answer.text
    assert answer.json()["code"] == "changed-meanwhile"
    assert world.registry.instance_secrets.settings(api.ada.id).personality == "brief"
