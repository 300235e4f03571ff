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
from hermesops.api.routes.connections import CALLBACK as CONNECTED
from hermesops.api.routes.sign_in import CALLBACK
from hermesops.api.sign_in.issuer_client import IssuerAddresses, IssuerClient
from hermesops.api.sign_in.page_sessions import PageSessions
from hermesops.api.sign_in.tokens import Issuer, Tokens
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, Hint, RefusedError, UsageError
from hermesops.model.ids import UserId
from hermesops.model.operation import Operation
from hermesops.users.agent_settings.service import AgentSettings, Patch
from hermesops.users.chat.service import Chat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container

LOCAL_CLIENT = "hermes-web"
"""Client of the local world's issuer."""

_LOOPBACK = "127.0.0.1"
_TOKENS_EVERY_S = 2.0
_CONNECTIONS_EVERY_S = 10.0
_AT_ONCE = 2_000
_KEEP_ALIVE_S = 30
_STOP_S = 3

log = structlog.get_logger()


async def serve(container: "Container", listener: socket.socket) -> None:
    """Serve users until cancelled. Closes the listener.

    In the local world, which has no relay of its own, this process is one too, and renews the tokens that it needs.

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
        beside: list[Coroutine[Any, Any, None]] = [chat.run(), _renew_tokens(connected), _follow_connections(connected)]
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


async def _follow_connections(connected: "Connected") -> None:
    """Do the job ``connections``, as a worker does where there is one; each step of it is safe to repeat."""
    work = connected.make_connection_work()
    while work is not None:
        try:
            for subject, problem in (await work.run()).items():
                if problem:
                    log.warning("connection_not_followed", subject=subject, why=problem)
        except HermesError as error:
            log.warning("connections_not_followed", why=error.message)
        await pause(_CONNECTIONS_EVERY_S)


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
        settings=AgentSettings(container.registry, _Configuring(connected).begin),
        pages=Pages.load(),
        stripe=container.stripe_door(),
        connections=container.make_connections(f"{origin}{CONNECTED}"),
        agent_calls=container.make_agent_calls(),
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


class _Configuring:
    """Opens operations that give agents settings, and runs them in this process; a worker goes on with one left."""

    def __init__(self, connected: "Connected") -> None:
        self._connected = connected
        self._running: set[asyncio.Task[None]] = set()

    async def begin(self, user_id: str, patch: Patch, why: str) -> Operation:
        """Open one."""
        operation = await self._connected.instance_requests.configure(UserId(user_id), patch, reason=why)
        task = asyncio.ensure_future(self._run(operation))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return operation

    async def _run(self, operation: Operation) -> None:
        try:
            await self._connected.operations.run(operation)
        except HermesError as error:
            log.warning("operation_not_ended", operation=operation.id, why=error.message)


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
