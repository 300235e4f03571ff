"""Events of a local world's Stripe reach the platform: by nginx with the role's file and ``hermesops api serve``."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.vendors.stripe import server
from hermesops.localcloud.vendors.stripe.server import LocalStripe
from hermesops.localcloud.vendors.users_door import UsersDoor, door_in, write_door
from tests.support.fakes.credentials import authority_in
from tests.support.real import edge
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.stores.registries import TurnedClock
from tests.support.suite.prerequisites import require
from tests.support.users.api import STRIPE, UsersApi, users_api
from tests.support.users.processes import of_api, running

pytestmark = pytest.mark.turns(15)

SESSION = {
    "mode": "subscription",
    "line_items": [{"price": "price_light", "quantity": "1"}],
    "success_url": "http://localhost/back",
    "subscription_data": {"metadata": {"user_id": "u"}},
}


@dataclass
class Host:
    """The platform's door, and the stand-in, whose file names an address."""

    api: UsersApi
    door: edge.Edge
    stripe: LocalStripe
    file: Path

    def pays(self) -> None:
        """A user pays at the checkout page."""
        session = self.stripe.books.begin_checkout(SESSION, "http://localhost/pay")
        self.stripe.books.pay(session["id"])

    def taken(self) -> set[str]:
        """Kinds of the events that wait for a worker as rows."""
        events = self.api.relay.registry.billing
        deliveries = [events.delivery(number) for number in events.queued()]
        return {json.loads(delivery.body)["type"] for delivery in deliveries if delivery}


@pytest.fixture
async def host(
    tmp_path: Path, registry_url: str, clock: TurnedClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Host]:
    monkeypatch.setattr(server, "_AGAIN_S", [0.05] * 100)
    clock.timestamp = datetime.now(UTC)
    root, folder = programs(), tmp_path / "host"
    require(root, "Debian's programs")
    assert root
    folder.mkdir()
    file = folder / "door.json"
    async with users_api(tmp_path, registry_url, clock) as api:
        with edge.running(folder, root, [folder / "api.sock"]) as door:
            env = of_api(folder / "of-api", api, door.url)
            stripe = LocalStripe("http://localhost", STRIPE.secret, door=partial(door_in, file))
            async with running(env, ["api", "serve"], folder / "api.sock", folder / "api.log"):
                yield Host(api, door, stripe, file)
            await stripe.close()


async def test_paid_subscriptions_become_rows_on_the_platform(host: Host) -> None:
    name = urlsplit(host.door.url).netloc
    stranger = authority_in(host.file.parent, environment="other").certificate
    write_door(host.file, UsersDoor(host.door.url, name, stranger))
    host.pays()

    async def refused() -> bool | Pending[bool]:
        return bool(host.stripe._deliveries) or Pending("nothing is sent")

    await until(refused, what="events to be sent", timeout_s=10, every_s=0.05)
    assert host.taken() == set(), "nothing is sent to a door that another authority signed"

    write_door(host.file, UsersDoor(host.door.url, name, host.door.authorities))
    await host.stripe.delivered()
    assert host.taken() == {"checkout.session.completed", "customer.subscription.created", "invoice.paid"}
