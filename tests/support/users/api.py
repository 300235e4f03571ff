"""The users' API over HTTP, with a relay over TLS behind it, agents behind that, and an issuer of tokens."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from hermesops.access.sign_in.issuer_client import IssuerAddresses, IssuerClient
from hermesops.agents.relay.client import RelayClient
from hermesops.agents.relay.credential import CallerCredential, Signed
from hermesops.agents.relay.routes import API
from hermesops.api.application import application
from hermesops.api.calling import Calling, calling
from hermesops.api.pages_served import Pages
from hermesops.api.parts import ApiParts
from hermesops.api.routes import connections as connection_routes
from hermesops.api.routes.sign_in import CALLBACK
from hermesops.api.serve import LOCAL_CLIENT
from hermesops.api.server import Server
from hermesops.api.sign_in.page_sessions import PageSessions
from hermesops.api.sign_in.tokens import Issuer, Tokens
from hermesops.base.blocking import give_threads
from hermesops.base.network.http import own_client
from hermesops.base.network.public_hosts import PublicNetwork, internet
from hermesops.base.waiting import cancel
from hermesops.errors import UnavailableError
from hermesops.localcloud.vendors.composio.composio import LocalComposio
from hermesops.localcloud.vendors.issuer import LocalIssuer, Person
from hermesops.model.connections.service import SERVICES
from hermesops.model.fleet.instance import Instance
from hermesops.serving.limits import Limits
from hermesops.store.calling_rows.callers import AgentCallers
from hermesops.store.calling_rows.pushes import TaskPushes
from hermesops.store.calling_rows.tasks import CalledTasks
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.billing.events import receive
from hermesops.store.registry.schema.role_grants import API as API_ROLE
from hermesops.store.registry.schema.role_grants import CONNECTIONS as CONNECTIONS_ROLE
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.store.user_rows.approvals import TurnApprovals
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.files import ChatFiles
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.store.user_rows.metering import MeteredSums
from hermesops.store.user_rows.plans import UserPlans
from hermesops.store.user_rows.requests import UserRequests
from hermesops.store.user_rows.sessions import WebSessions
from hermesops.store.user_rows.settings_copies import SettingsCopies
from hermesops.store.user_rows.turns import Turns
from hermesops.users.agent_jobs.service import AgentJobs
from hermesops.users.agent_settings.service import CopiedSettings
from hermesops.users.billing.door import StripeDoor
from hermesops.users.callers.service import Callers, CallingRows
from hermesops.users.chat.agent_runs import AgentRuns
from hermesops.users.chat.carrier import ChatRows, TurnCarrier
from hermesops.users.chat.events import EventLog
from hermesops.users.chat.service import Chat
from hermesops.users.connections.agent_calls import AgentCalls
from hermesops.users.connections.mcp_proxy import McpProxy
from hermesops.users.connections.service import Connections
from hermesops.users.connections.upkeep import ConnectionUpkeep
from hermesops.users.user_requests.service import Requests
from hermesops.vendor.composio.client import Composio
from tests.support.billing.stripe_events import Endpoint, fresh_secret
from tests.support.real.relay import HOST, RelayWorld, relaying
from tests.support.real.stores.postgresql import as_role, make_role
from tests.support.real.stores.registries import KEYS, TurnedClock
from tests.support.users.scripted_agent import ScriptedAgent

STRIPE = Endpoint(fresh_secret())
"""The endpoint whose events the API takes."""

APPROVAL = timedelta(seconds=55)


@contextlib.asynccontextmanager
async def served(app: ASGIApp, listener: socket.socket | None = None) -> AsyncIterator[str]:
    """An application on loopback; its URL."""
    with listener or socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        serving = asyncio.ensure_future(Server(app, listening).serve_until_cancelled())
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            await cancel(serving)


WORLD_PROVIDER = "http://127.0.0.1:9/provider/v1"
"""Address of the local world's model provider, as this API knows it; its workers know none."""


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    id: str
    kind: str
    data: Mapping[str, Any]


@dataclass
class Process:
    """One process of the API: its own events and carrier."""

    chat: Chat
    parts: ApiParts
    url: str
    sweeping: "asyncio.Future[None]"

    async def die(self) -> None:
        """End as by ``kill -9``: nothing that it holds is released."""
        carrier: Any = self.chat._carrier
        carrier._turns = _Dead()
        await cancel(self.sweeping, *self.chat._carrying.values())


class _Dead:
    """The rows of a process that is gone."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as any method
        raise UnavailableError(f"a dead process calls {name}")


@dataclass
class UsersApi:
    """The API, and what stands behind it.

    Attributes:
        database: As the API has it.
        connection_rows: The database as the process of connections has it.
        agent: Ada's.
        make_events: Makes the events of a process.
        denied: Users whom the API refuses.
    """

    relay: RelayWorld
    database: Database
    issuer: LocalIssuer
    agent: ScriptedAgent
    ada: Instance
    composio: LocalComposio
    connection_rows: Database
    make_events: Callable[[], EventLog] = EventLog
    denied: set[str] = field(default_factory=set)
    network: PublicNetwork = field(default_factory=internet)
    calling: Calling = field(init=False)
    processes: list[Process] = field(default_factory=list)

    @property
    def process(self) -> Process:
        """The newest process."""
        return self.processes[-1]

    @property
    def all_rows(self) -> Database:
        """The database as its owner has it."""
        return self.relay.registry._database

    @property
    def rows(self) -> ChatRows:
        database = self.database
        return ChatRows(Turns(database, KEYS), TurnApprovals(database, KEYS, APPROVAL), ChatFiles(database, KEYS))

    @property
    def calling_rows(self) -> CallingRows:
        database = self.database
        return CallingRows(AgentCallers(database, KEYS), CalledTasks(database), TaskPushes(database, KEYS))

    @property
    def vendor(self) -> Composio:
        return Composio(lambda: self.composio.key, self.composio.url)

    @property
    def upkeep(self) -> ConnectionUpkeep:
        rows, accesses = UserConnections(self.connection_rows), McpAccesses(self.connection_rows)
        return ConnectionUpkeep(UserAccounts(self.connection_rows), rows, accesses, self.vendor)

    def token(self, user: str = "", **changes: object) -> str:
        return self.issuer.access_token(Person(user or self.ada.user_id, "ada"), **changes)

    def user(self, alias: str) -> str:
        return self.relay.registry.users.resolve(alias, create=True).id

    @contextlib.asynccontextmanager
    async def client(self, user: str = "", *, process: Process | None = None) -> AsyncIterator["Client"]:
        async with own_client(base_url=(process or self.process).url, timeout=30) as http:
            yield Client(http, {"authorization": f"Bearer {self.token(user)}"})

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[Process]:
        """Start one more process of the API."""
        with socket.create_server((HOST, 0)) as listener:
            port = int(listener.getsockname()[1])
            chat, parts = self._parts(port)
            process = Process(chat, parts, f"http://localhost:{port}", asyncio.ensure_future(chat.run()))
            self.processes.append(process)
            try:
                async with served(application(parts), listener):
                    yield process
            finally:
                self.processes.remove(process)
                await cancel(process.sweeping)

    async def _admit(self, request: str) -> Signed:
        admitted = self.relay.callers.admit(API, request, why="test")
        return Signed(admitted.certificate, admitted.authorities)

    def _parts(self, port: int) -> tuple[Chat, ApiParts]:
        credential = CallerCredential(self._admit, lambda: self.relay.clock().timestamp())
        relay = RelayClient(lambda: f"https://{HOST}:{self.relay.port}", credential.context)
        accounts, rows, runs, events = UserAccounts(self.database), self.rows, AgentRuns(relay), self.make_events()
        carrier = TurnCarrier(rows, runs, events, uuid4().hex, accounts.now)
        chat = Chat(accounts, rows, runs, events, carrier)
        origin, url = f"http://localhost:{port}", self.issuer.url
        connected, accesses = UserConnections(self.connection_rows), McpAccesses(self.connection_rows)
        client = IssuerClient(IssuerAddresses(url, f"{url}/keys", f"{url}/authorize", f"{url}/token", LOCAL_CLIENT))
        issuers = [Issuer(url, "cognito", frozenset({LOCAL_CLIENT}), client.keys)]
        tokens = Tokens(issuers, denied=lambda user: user in self.denied)
        sessions = PageSessions(WebSessions(self.database, KEYS), tokens, client, f"{origin}{CALLBACK}", time.time)
        limits, callers = Limits(), Callers(accounts, self.calling_rows.callers, tokens.is_denied)
        called = calling(origin, callers, self.calling_rows, chat, limits, self.network)
        self.calling = called
        parts = ApiParts(
            origin=origin,
            hosts=frozenset({f"localhost:{port}"}),
            tokens=tokens,
            sessions=sessions,
            limits=limits,
            callers=callers,
            a2a=called.application,
            accounts=accounts,
            files=rows.files,
            chat=chat,
            jobs=AgentJobs(accounts, relay),
            settings=CopiedSettings(SettingsCopies(self.database, KEYS)),
            pages=Pages.load(),
            requests=Requests(UserRequests(self.database, KEYS)),
            plans=UserPlans(self.database, KEYS),
            metered=MeteredSums(self.database),
            stripe=StripeDoor(lambda: [STRIPE.secret], partial(receive, self.database), 300),
            connections=Connections(
                UserAccounts(self.connection_rows),
                connected,
                self.upkeep,
                self.vendor,
                {service.slug: f"ac_{service.slug}" for service in SERVICES[:-1]},
                f"{origin}{connection_routes.CALLBACK}",
            ),
            agent_calls=AgentCalls(McpProxy(connected, accesses, self.vendor)),
            model_provider_url=WORLD_PROVIDER,
        )
        return chat, parts


@contextlib.asynccontextmanager
async def users_api(
    folder: Path,
    url: str,
    clock: TurnedClock,
    make_events: Callable[[], EventLog] = EventLog,
    agent: ScriptedAgent | None = None,
) -> AsyncIterator[UsersApi]:
    """The API with one process, and ada's agent that answers what it is told."""
    give_threads()
    agent = agent or ScriptedAgent()
    async with contextlib.AsyncExitStack() as stack:
        own_url, connections_url = _url_of(url, API_ROLE), _url_of(url, CONNECTIONS_ROLE)
        relay = await stack.enter_async_context(relaying(folder, url=url, clock=clock))
        agent_url = await stack.enter_async_context(served(agent.app()))
        listener = socket.create_server((HOST, 0))
        issuer = LocalIssuer(
            f"http://{HOST}:{listener.getsockname()[1]}/issuer",
            lambda: [Person(id_, name) for id_, name in UserAccounts(database).named()],
        )
        routes = [Mount("/issuer", routes=issuer.routes())]
        composio_listener = socket.create_server((HOST, 0))
        composio = LocalComposio(
            f"http://{HOST}:{composio_listener.getsockname()[1]}/composio",
            key=f"ak_{uuid4().hex}",
            clock=lambda: clock().timestamp(),
        )
        mounted = Starlette(routes=[Mount("/composio", routes=composio.routes())])
        await stack.enter_async_context(served(mounted, composio_listener))
        await stack.enter_async_context(served(Starlette(routes=routes), listener))
        database = Database(own_url, clock=clock)
        stack.callback(database.close)
        connection_rows = Database(connections_url, clock=clock)
        stack.callback(connection_rows.close)
        ada = relay.agent("ada", agent_url)
        api = UsersApi(relay, database, issuer, agent, ada, composio, connection_rows, make_events)
        await stack.enter_async_context(api.started())
        yield api


def _url_of(url: str, role: str) -> str:
    """The database as a service has it: in PostgreSQL by a role with rights of its own, which a migration gives it."""
    if not url.startswith("postgresql"):
        return url
    make_role(url, role)
    return as_role(url, role)


@dataclass
class Client:
    """A client with its credentials."""

    http: httpx.AsyncClient
    headers: Mapping[str, str]

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        headers = {**self.headers, **options.pop("headers", {})}
        return await self.http.request(method, f"/api/hermes{path}", headers=headers, **options)

    @contextlib.asynccontextmanager
    async def send(
        self, message: str, *, conversation: str = "main", key: str = "", files: Sequence[str] = ()
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Send a message; its events as they come."""
        key = key or f"k{uuid4().hex}"
        body = {"message": message, "conversation": conversation, "client_key": key, "files": list(files)}
        async with self.http.stream("POST", "/api/hermes/chat", json=body, headers=self.headers) as response:
            yield events_in(response)

    @contextlib.asynccontextmanager
    async def resume(self, turn: str, last_event_id: str = "") -> AsyncIterator[AsyncIterator[Event]]:
        headers = {**self.headers, **({"last-event-id": last_event_id} if last_event_id else {})}
        path = f"/api/hermes/chat/turns/{turn}/events"
        async with self.http.stream("GET", path, headers=headers) as response:
            yield events_in(response)

    async def whole(self, message: str, **options: Any) -> list[Event]:  # noqa: ANN401 - as ``send``
        async with asyncio.timeout(30), self.send(message, **options) as events:
            return [event async for event in events]


async def events_in(response: httpx.Response) -> AsyncIterator[Event]:
    if response.status_code != 200:
        await response.aread()
        raise AssertionError(f"{response.status_code} {response.text}")
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            fields = {}
