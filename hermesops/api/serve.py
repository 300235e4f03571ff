"""The API as a process: its connections to agents, what runs beside it, and its listener."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn
from starlette.types import ASGIApp

from hermesops.agents.relay.client import RelayClient
from hermesops.agents.relay.credential import CallerCredential
from hermesops.agents.relay.routes import API
from hermesops.api.application import application
from hermesops.api.limits import Limits
from hermesops.api.pages_served import Pages
from hermesops.api.parts import ApiParts
from hermesops.api.routes.sign_in import CALLBACK
from hermesops.api.sign_in.issuer_client import IssuerAddresses, IssuerClient
from hermesops.api.sign_in.page_sessions import PageSessions
from hermesops.api.sign_in.tokens import Issuer, Tokens
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, Hint, RefusedError, UsageError
from hermesops.model.billing.events import BillingState
from hermesops.model.billing.user_request import RequestState
from hermesops.model.operation import Operation
from hermesops.users.chat.service import Chat
from hermesops.users.user_requests.service import Requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.ids import OperationId

LOCAL_CLIENT = "hermes-web"
"""Client of the local world's issuer."""

_LOOPBACK = "127.0.0.1"
_TOKENS_EVERY_S = 2.0
_AT_ONCE = 2_000
_KEEP_ALIVE_S = 30
_STOP_S = 3
_LOOK_S = 0.3
_AGAIN_S = 10.0
"""Seconds until an operation that stopped halfway is run again."""

log = structlog.get_logger()


async def serve(container: "Container", listener: socket.socket) -> None:
    """Serve users until cancelled. Closes the listener.

    In the local world, which has no relay of its own, this process is one too, renews the tokens that it needs, and
    carries out what users ask for.

    Raises:
        RefusedError: It is not the local world: this process would hold tokens that open machines.
        UsageError: A setting is missing.
        UnavailableError: The local world is not up.
    """
    if not container.env.is_local:
        raise RefusedError("the users' API is its own relay so far, which is for the local world alone")
    async with container.connect() as connected, _relay(container) as relay:
        chat = container.make_chat(relay)
        parts = _parts(connected, relay, chat, int(listener.getsockname()[1]))
        beside: list[Coroutine[Any, Any, None]] = [chat.run(), _renew_tokens(connected), _UsersWork(connected).run()]
        server = Server(application(parts), listener)
        running = [asyncio.ensure_future(work) for work in beside]
        try:
            await server.serve_until_cancelled()
        finally:
            await cancel(*running)


def origin_of(container: "Container", port: int) -> str:
    """The origin of users' pages."""
    return container.env.settings.web.origin or f"http://localhost:{port}"


@asynccontextmanager
async def _relay(container: "Container") -> AsyncIterator[RelayClient]:
    """The relay in this process, on a port of loopback that only its own certificate opens."""
    with socket.create_server((_LOOPBACK, 0)) as listener:
        listener.setblocking(False)
        url = f"https://{_LOOPBACK}:{listener.getsockname()[1]}"
        serving = asyncio.ensure_future(container.relay.serve(listener, [_LOOPBACK], grace_s=1))
        credential = CallerCredential(
            lambda request: container.callers.admit(API, request, why="the users' API of this process")
        )
        try:
            yield RelayClient(lambda: url, credential.context)
        finally:
            await cancel(serving)


async def _renew_tokens(connected: "Connected") -> None:
    """Renew the tokens by which agents are reached, as a worker does where there is one."""
    while True:
        try:
            due = await asyncio.to_thread(connected.proxy_tokens.due)
            if due.renew or due.drop:
                await connected.proxy_tokens.renew_due()
        except HermesError as error:
            log.warning("tokens_not_renewed", why=error.message)
        await pause(_TOKENS_EVERY_S)


def _parts(connected: "Connected", relay: RelayClient, chat: Chat, port: int) -> ApiParts:
    container = connected.container
    origin, addresses = origin_of(container, port), _issuer_of(container)
    issuer = IssuerClient(addresses)
    kind = container.env.settings.web.issuer_kind
    issuers = [Issuer(addresses.issuer, kind, frozenset({addresses.client_id}), issuer.keys)]
    denied = frozenset(text.strip() for text in container.env.settings.web.denied.split(",") if text.strip())
    tokens = Tokens(issuers, denied=lambda user: user in denied)
    sessions = PageSessions(container.web_sessions, tokens, issuer, f"{origin}{CALLBACK}", time.time)
    return ApiParts(
        origin=origin,
        hosts=_hosts(origin, port),
        tokens=tokens,
        sessions=sessions,
        limits=Limits(),
        accounts=container.accounts,
        files=container.chat_rows.files,
        chat=chat,
        jobs=container.make_agent_jobs(relay),
        settings=connected.request_carrier.settings,
        pages=Pages.load(),
        requests=Requests(container.user_requests),
        plans=container.user_plans,
        stripe=container.stripe_door(),
    )


def _hosts(origin: str, port: int) -> frozenset[str]:
    return frozenset({origin.partition("://")[2], f"localhost:{port}", f"{_LOOPBACK}:{port}"})


def _issuer_of(container: "Container") -> IssuerAddresses:
    web = container.env.settings.web
    if web.issuer:
        needed: Mapping[str, str] = {
            "web.client_id": web.client_id,
            "web.keys_url": web.keys_url,
            "web.authorize_url": web.authorize_url,
            "web.token_url": web.token_url,
        }
        for name, value in needed.items():
            if not value:
                raise UsageError("the issuer is not described", hint=Hint(("settings", "set", name, "VALUE")))
        return IssuerAddresses(web.issuer, web.keys_url, web.authorize_url, web.token_url, web.client_id)
    url = container.endpoint.issuer_url
    if not url:
        raise UsageError(
            "the users' API needs an issuer of tokens", hint=Hint(("settings", "set", "web.issuer", "https://ISSUER"))
        )
    return IssuerAddresses(url, f"{url}/keys", f"{url}/authorize", f"{url}/token", LOCAL_CLIENT)


class _UsersWork:
    """Does in this process what workers do for users: requests, and with a stand-in of Stripe events and statements.

    Operations that follow are run here too. A worker beside it does the same; leases keep the two apart.
    """

    def __init__(self, connected: "Connected") -> None:
        self._connected = connected
        self._running: dict[OperationId, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                for work in (self._carry_requests, self._bill, self._read_statements):
                    try:
                        await work()
                    except HermesError as error:
                        log.warning("users_work_failed", why=error.message)
                for operation in await asyncio.to_thread(self._left):
                    self._running[operation.id] = asyncio.ensure_future(self._run(operation))
                await pause(_LOOK_S)
        finally:
            await cancel(*self._running.values())

    async def _carry_requests(self) -> None:
        carrier = self._connected.request_carrier
        if await asyncio.to_thread(carrier.due):
            await carrier.run()

    async def _bill(self) -> None:
        billing = self._connected.billing
        if not self._connected.container.endpoint.stripe_url:
            return
        if await asyncio.to_thread(billing.due):
            await billing.run()

    async def _read_statements(self) -> None:
        statements = self._connected.container.plan_statements
        if await asyncio.to_thread(statements.due):
            await statements.run()

    def _left(self) -> list[Operation]:
        """Operations of users' requests and subscriptions that have not ended and are not run here."""
        registry = self._connected.container.registry
        ids = {event.operation_id for event in registry.billing.list(states=(BillingState.WAITING,))}
        ids |= {request.operation_id for request in registry.user_requests.list(state=RequestState.WAITING)}
        operations = (registry.operations.get(id_) for id_ in ids - {None} - self._running.keys() if id_)
        return [operation for operation in operations if not operation.status.has_ended]

    async def _run(self, operation: Operation) -> None:
        try:
            await self._connected.operations.run(operation)
        except HermesError as error:
            log.warning("operation_not_ended", operation=operation.id, why=error.message)
            await pause(_AGAIN_S)
        finally:
            del self._running[operation.id]


class Server(uvicorn.Server):
    """uvicorn on a socket that is ours before it starts; signals are the process's."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                access_log=False,  # lines of requests hold cursors and codes
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                limit_concurrency=_AT_ONCE,
                timeout_graceful_shutdown=_STOP_S,  # streams of events end with a turn, which may be long
            )
        )
        self._listener = listener

    @contextmanager
    def capture_signals(self) -> "Iterator[None]":
        """Leave signals to the process."""
        yield

    async def serve_until_cancelled(self) -> None:
        """Serve until cancelled, then give requests under way some seconds."""
        serving = asyncio.ensure_future(self.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
