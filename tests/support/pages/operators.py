"""The served console over a registry: its issuer on loopback, operators' browsers, and a worker that a test calls."""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from hermesops.agents.operator_requests.carrier import PROOF_S, OperatorRequestCarrier
from hermesops.app.console_container import ConsoleContainer
from hermesops.base.network.http import own_client
from hermesops.base.waiting import cancel, pause
from hermesops.console.actions.served import action_of
from hermesops.console.application import application
from hermesops.console.operators.gate import COOKIE, OperatorGate
from hermesops.console.operators.serve import console_of, gate_of
from hermesops.localcloud.vendors.issuer import CONSOLE_CLIENT, OPERATORS, PREFIX, LocalIssuer, Person
from hermesops.settings.environment import Environment
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from tests.support.rollouts.service import connected_of
from tests.support.users.api import served

HOST = "console.test"
ORIGIN = f"https://{HOST}"
VISIT = {"sec-fetch-mode": "navigate", "sec-fetch-site": "none"}
CHANGE = {"origin": ORIGIN, "hx-request": "true", "sec-fetch-site": "same-origin"}
"""Headers of a change that the console's own page asks for."""


class Clock:
    """Seconds that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class ServedConsole:
    """The served console in this process.

    Attributes:
        issuer: Whose operators are ``operators``.
        clock: Of sessions.
        work: What a worker does while a page waits, if anything.
    """

    container: ConsoleContainer
    issuer: LocalIssuer
    operators: list[Person]
    gate: OperatorGate
    app: ASGIApp
    clock: Clock
    work: Callable[[], Awaitable[object]] | None = None
    _clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, agent: str = "browser") -> httpx.AsyncClient:
        """A browser that has not signed in."""
        headers = {"user-agent": agent, **VISIT}
        client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ORIGIN, headers=headers)
        self._clients.append(client)
        return client

    async def signed_in(self, name: str) -> httpx.AsyncClient:
        """The browser of an operator who has signed in at the issuer's page."""
        client = self.client()
        ended = await client.get(await self.authorized(client, name))
        assert ended.status_code == 303, ended.text
        assert COOKIE in client.cookies
        return client

    async def authorized(self, client: httpx.AsyncClient, name: str) -> str:
        """Sign in at the issuer's page; the address to which it sends the browser back."""
        begun = await client.get("/console/sign-in")
        assert begun.status_code == 303, begun.text
        url = begun.headers["location"]
        async with own_client(timeout=30) as http:
            page = await http.get(url)
            form = {
                key: html.unescape(text) for key, text in re.findall(r'name="([a-z_]+)" value="([^"]*)"', page.text)
            }
            person = next(each for each in self.operators if each.name.startswith(name))
            chosen = await http.post(url.partition("?")[0], data={**form, "user": person.id})
        assert chosen.status_code == 303, chosen.text
        return chosen.headers["location"]

    async def close(self) -> None:
        """Close the browsers."""
        for client in self._clients:
            await client.aclose()


def settings_of(issuer: str, registry_url: str, home: Path) -> Mapping[str, str]:
    """Variables of the environment of a served console."""
    return {
        "HOME": str(home),
        "HERMESOPS_HOME": str(home),
        "HERMESOPS_REGISTRY_URL": registry_url,
        "HERMESOPS_CONSOLE_ORIGIN": ORIGIN,
        "HERMESOPS_CONSOLE_ISSUER": issuer,
        "HERMESOPS_CONSOLE_CLIENT_ID": CONSOLE_CLIENT,
        "HERMESOPS_CONSOLE_KEYS_URL": f"{issuer}/keys",
        "HERMESOPS_CONSOLE_AUTHORIZE_URL": f"{issuer}/authorize",
        "HERMESOPS_CONSOLE_TOKEN_URL": f"{issuer}/token",
        "HERMESOPS_CONSOLE_VIEWERS": "viewers",
        "HERMESOPS_CONSOLE_OPERATORS": "operators",
        "HERMESOPS_CONSOLE_ADMINS": "admins",
    }


def carrier_of(console: ServedConsole, registry: Registry, instance_requests: object = None) -> OperatorRequestCarrier:
    """A worker over the same registry, which believes the same issuer and asks no machine.

    Args:
        instance_requests: Opens operations of instances.
    """
    return OperatorRequestCarrier(
        registry=registry,
        operator_of=partial(console.container.operator_tokens.operator_of, age_s=PROOF_S),
        host=HOST,
        find_action=partial(action_of, connected_of(registry, instance_requests)),
        hold_lease=lambda subject: LeaseKeeper(registry, subject),
    )


@asynccontextmanager
async def working(carrier: OperatorRequestCarrier) -> AsyncIterator[None]:
    """Decide requests while the block lasts, as a worker does."""

    async def work() -> None:
        while True:
            await carrier.run()
            await pause(0.05)

    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        await cancel(task)


@asynccontextmanager
async def served_console(registry_url: str, home: Path, **more: str) -> AsyncIterator[ServedConsole]:
    """The served console over a registry that is there.

    Args:
        more: Further variables of its environment.
    """
    operators = list(OPERATORS)
    app = Starlette()
    async with served(app) as url:
        issuer = LocalIssuer(f"{url}{PREFIX}", list, console=ORIGIN, operators=lambda: operators)
        app.router.routes.append(Mount(PREFIX, routes=issuer.routes()))
        env = Environment.load("local", {**settings_of(issuer.url, registry_url, home), **more})
        container = ConsoleContainer(env, lambda _: None)
        gate, clock = gate_of(container), Clock()
        gate.sessions._monotonic = clock
        console = ServedConsole(container, issuer, operators, gate, application(console_of(container), gate), clock)
        try:
            yield console
        finally:
            await console.close()
