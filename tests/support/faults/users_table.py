"""Faults of the users' half on a platform's host: its door, its processes, its database, Stripe's secret, Composio.

Users are real ones of the door: they sign in at the world's issuer, and ask the API by its own address.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.localcloud.world.files import WorldFiles, read_object
from hermesops.platform.parts.users import USERS_DOWN, USERS_UP
from tests.support.faults.chains import Act, Chain, both, on_platform
from tests.support.faults.platform_table import UP, ended, in_database
from tests.support.faults.watched import USERS, WatchedFleet
from tests.support.users.api import Client
from tests.support.users.browser import Browser

_STRIPE_FILE = "/var/lib/hermesops-api/local/keys/billing.secret"
_SERVICE = "gmail"
_LEFT = "RUN: sleep 20"
_LOCKED = "chain-lock"
_LOCK = (
    f"systemd-run --quiet --unit={_LOCKED} --uid=postgres psql --no-psqlrc --quiet "
    "--host=/run/hermes-platform-postgresql --dbname=hermesops "
    '--command="BEGIN; LOCK TABLE user_plans IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3600)"'
)
"""A statement of hours keeps a table that users read: the row of their plan."""

_END_STATEMENT = in_database(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE query LIKE '%pg_sleep(3600)%' AND pid <> pg_backend_pid()"
)
_ALERT_S = 1_200.0
"""Seconds until an alert: ten minutes until an account is looked at again, the rule's fifteen in the time scale of the
fleet, and a minute of figures."""


@asynccontextmanager
async def _page(fleet: WatchedFleet, user: str) -> AsyncIterator[Browser]:
    """A user's browser, signed in at the platform's door."""
    home = fleet.command.home / "local"
    facts: dict[str, Any] = read_object(WorldFiles(home / "world").world) or {}
    origin = f"https://{facts['platform_services']['users']}"
    trusted = ssl.create_default_context(cafile=home / "platform" / "authorities.crt")
    async with httpx.AsyncClient(base_url=origin, verify=trusted, timeout=60, trust_env=False) as http:
        browser = Browser(http, origin)
        await browser.sign_in(user)
        yield browser


def _client(browser: Browser) -> Client:
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    own = {"cookie": cookie, "origin": browser.origin, "x-hermes-request": "1", "sec-fetch-site": "same-origin"}
    return Client(browser.http, own)


# A turn without a process


async def _turn_left(fleet: WatchedFleet, user: str) -> None:
    """The agent begins an answer; then somebody stops the users' processes, as an interrupted ``connect`` does."""
    async with _page(fleet, user) as browser:
        client = _client(browser)
        async with client.send(_LEFT, conversation=f"left-{id(fleet)}") as events:
            async for event in events:
                if event.kind == "tool":
                    break
        await fleet.on_platform(USERS_DOWN)


async def _turn_answered(fleet: WatchedFleet, user: str) -> None:
    """The conversation has the question once, and its answer once."""

    async def answered() -> bool | Pending[bool]:
        async with _page(fleet, user) as browser:
            shown = (await _client(browser).ask("GET", f"/chat/conversations/left-{id(fleet)}")).json()
        roles = [message["role"] for message in shown["messages"]]
        return (roles.count("user") == 1 and roles[-1] != "user") or Pending(json.dumps(roles))

    await until(answered, what="the answer of the turn that was left", timeout_s=180, every_s=2)


# Stripe's secret


async def _paid(fleet: WatchedFleet, user: str) -> None:
    """The user pays at the world's Stripe for the plan that the agent has."""
    world = WorldFiles(fleet.command.home / "local" / "world")
    facts: dict[str, Any] = read_object(world.world) or {}
    plan, user_id = "price_light", (await fleet.instance(user))["user_id"]
    form = {
        "mode": "subscription",
        "line_items[0][price]": plan,
        "line_items[0][quantity]": "1",
        "success_url": "http://localhost/back",
        "subscription_data[metadata][user_id]": user_id,
    }
    async with own_client(timeout=30) as http:
        bearer = {"authorization": f"Bearer {world.stripe_key.read_text().strip()}"}
        begun = await http.post(f"{facts['stripe_url']}/v1/checkout/sessions", data=form, headers=bearer)
        assert begun.status_code == 200, begun.text
        paid = await http.post(begun.json()["url"], data={"act": "pay"})
        assert paid.status_code < 400, paid.text


# Slow reads


class _Readers:
    """Users whose pages ask for their plan again and again, until cancelled."""

    def __init__(self) -> None:
        self._reading: list[asyncio.Task[None]] = []

    async def begin(self, fleet: WatchedFleet, _: str) -> None:
        self._reading = [asyncio.create_task(self._read(fleet, user)) for user in USERS]

    async def end(self, _: WatchedFleet, __: str) -> None:
        await cancel(*self._reading)

    @staticmethod
    async def _read(fleet: WatchedFleet, user: str) -> None:
        async with _page(fleet, user) as browser:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    await _client(browser).ask("GET", "/plan")
                await pause(2)


_READERS = _Readers()

# Connections


async def _connected(fleet: WatchedFleet, user: str) -> None:
    async with _page(fleet, user) as browser:
        response = await browser.change("POST", f"/connections/{_SERVICE}")
        assert response.status_code == 200, response.text
        async with own_client(timeout=30) as composio:
            agreed = await composio.post(response.json()["auth_url"], data={"agree": "yes"})
        done = await browser.ask("GET", agreed.headers["location"])
        assert done.status_code == 303, done.text


async def _connections_end(fleet: WatchedFleet, _: str) -> None:
    """Three users connect a service; then Composio has none of their accounts any more."""
    for user in USERS:
        await _connected(fleet, user)
    world = WorldFiles(fleet.command.home / "local" / "world")
    facts: dict[str, Any] = read_object(world.world) or {}
    key = {"x-api-key": world.composio_key.read_text().strip()}
    async with own_client(base_url=facts["composio_url"], timeout=30, headers=key) as http:
        listed = (await http.get("/api/v3.1/connected_accounts")).json()["items"]
        for account in listed:
            await http.delete(f"/api/v3.1/connected_accounts/{account['id']}")


async def _connected_again(fleet: WatchedFleet, _: str) -> None:
    for user in USERS:
        await _connected(fleet, user)


async def _by_the_runbook(_: WatchedFleet, __: str) -> None:
    """Nothing is left to do by hand: its commands have repaired it."""


def _chain(fault: str, alert: str, inject: Act, repair: Act, *, undo: Act | None = None) -> Chain:
    return Chain(
        fault,
        alert,
        about="fleet",
        is_alone=True,
        inject=inject,
        whose=("",),
        halts=True,
        by_hand=both(repair, ended(alert)),
        again="alerts-after" if alert == "PlatformServiceDown" else "status-after",
        undo=undo,
        alert_s=_ALERT_S,
    )


USERS_CHAINS = (
    _chain(
        "turns-left",
        "TurnsOrphaned",
        _turn_left,
        both(on_platform(USERS_UP), _turn_answered),
        undo=on_platform(USERS_UP),
    ),
    _chain(
        "webhook-secret-wrong",
        "WebhooksRefused",
        both(on_platform(f"cp --preserve {_STRIPE_FILE} /root/before; printf whsec_other >{_STRIPE_FILE}"), _paid),
        UP,
        undo=on_platform(f"cp --preserve /root/before {_STRIPE_FILE}"),
    ),
    _chain(
        "api-waits",
        "ApiSlow",
        both(on_platform(_LOCK), _READERS.begin),
        on_platform(_END_STATEMENT),
        undo=both(_READERS.end, on_platform(f"systemctl stop {_LOCKED} 2>/dev/null || true")),
    ),
    # An agent is started anew with the first service that its user connects.
    replace(_chain("connections-ended", "ConnectionsExpired", _connections_end, _connected_again), restarted=USERS),
    _chain(
        "platform-door-ended",
        "PlatformServiceDown",
        on_platform("systemctl stop hermes-platform-edge"),
        _by_the_runbook,
        undo=on_platform("systemctl start hermes-platform-edge"),
    ),
)
"""Alone, one after the other: each is about all users."""
