"""The API as a process: its connections to agents, what runs beside it, and its listener."""

import asyncio
import resource
import socket
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from hermesops.access.sign_in.issuer_client import IssuerAddresses, IssuerClient
from hermesops.agents.relay.client import RelayClient
from hermesops.agents.relay.own_relay import own_relay
from hermesops.agents.relay.routes import API
from hermesops.api.application import application
from hermesops.api.calling import calling
from hermesops.api.figures import write_figures
from hermesops.api.pages_served import Pages
from hermesops.api.parts import ApiParts
from hermesops.api.routes.connections import CALLBACK as CONNECTED
from hermesops.api.routes.sign_in import CALLBACK
from hermesops.api.server import Server
from hermesops.api.sign_in.page_sessions import PageSessions
from hermesops.api.sign_in.tokens import Issuer, Tokens
from hermesops.app.users_container import RowsContainer, UsersContainer
from hermesops.base.network.public_hosts import internet
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, Hint, UsageError
from hermesops.model.billing.events import BillingState
from hermesops.model.billing.user_request import RequestState
from hermesops.model.operation import Operation
from hermesops.serving.limits import Limits
from hermesops.settings.sections import WebSettings
from hermesops.users.callers.pushes import PushSender
from hermesops.users.chat.service import Chat
from hermesops.users.connections.agent_calls import AgentCalls
from hermesops.users.connections.service import Connections
from hermesops.users.user_requests.service import Requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.ids import OperationId

LOCAL_CLIENT = "hermes-web"
"""Client of the local world's issuer."""

_LOOPBACK = "127.0.0.1"
_TOKENS_EVERY_S = 2.0
_MOST_FILES = 65_536
_CONNECTIONS_EVERY_S = 10.0
_LOOK_S = 0.3
_METERED_EVERY_S = 10.0
_AGAIN_S = 10.0
"""Seconds until an operation that stopped halfway is run again."""

log = structlog.get_logger()


@dataclass(frozen=True)
class _LocalParts:
    """Services that hold a vendor's key, which only the local world's process may."""

    connections: Connections | None
    agent_calls: AgentCalls | None
    model_provider_url: str = ""


async def serve(container: "Container", listener: socket.socket) -> None:
    """Serve users until cancelled. Closes the listener.

    With the setting ``relay.url`` this process holds no key that opens a machine. In the local world, which has no
    relay of its own, it is one too, renews the tokens that it needs, and carries out what users ask for.

    Raises:
        UsageError: A setting is missing.
        RefusedError: The registry's tables are of another hermesops.
        UnavailableError: The database, or the local world, is not up.
    """
    raise_open_files()
    settings = container.env.settings
    if container.env.is_local and not settings.relay.url:
        await _serve_local(container, listener)
        return
    users = UsersContainer(container.env, container.warn)
    relay, issuer, origin = users.relay_client, issuer_of(settings.web), origin_of(settings.web)
    await asyncio.to_thread(users.require_tables)
    chat = users.make_chat(relay)
    parts, sender = _parts(users, relay, chat, issuer, origin=origin, hosts=hosts_of(origin, listener))
    bell = users.message_bell()
    ringing = (bell.publish(),) if bell else ()
    parts = replace(parts, heard=bell.ring) if bell else parts
    await _serve(parts, listener, chat.run(), sender.run(), write_figures(parts.counts, users.api_figures), *ringing)


async def _serve_local(container: "Container", listener: socket.socket) -> None:
    why = "the users' API of this process"
    async with (
        container.connect() as connected,
        own_relay(container.relay, container.callers, API, why=why) as relay,
    ):
        web, chat = container.env.settings.web, container.make_chat(relay)
        issuer = issuer_of(web) if web.issuer else _issuer_of_world(container.endpoint.issuer_url)
        origin = web.origin or f"http://localhost:{_port_of(listener)}"
        local = _LocalParts(
            container.make_connections(f"{origin}{CONNECTED}"),
            container.make_agent_calls(),
            container.endpoint.model_provider_url,
        )
        hosts = hosts_of(origin, listener)
        parts, sender = _parts(container, relay, chat, issuer, origin=origin, hosts=hosts, local=local)
        figures = write_figures(parts.counts, container.api_figures)
        await _serve(parts, listener, chat.run(), sender.run(), figures, *_beside(connected))


def _beside(connected: "Connected") -> tuple[Coroutine[Any, Any, None], ...]:
    """The work of a platform's workers that a local world without any does in this process."""
    return _renew_tokens(connected), _UsersWork(connected).run(), _follow_connections(connected)


def raise_open_files() -> None:
    """Allow this process as many open files as its user may have: each connection is one, and 1,024 are usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if most == resource.RLIM_INFINITY else min(most, _MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def _serve(parts: ApiParts, listener: socket.socket, *beside: Coroutine[Any, Any, None]) -> None:
    """Serve until cancelled, with work beside that ends with it.

    An error that ends the work beside ends the service as well: its unit starts both again, and alerts see that.
    """
    server = Server(application(parts), listener)
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(work) for work in beside]
            await server.serve_until_cancelled()
            for work in running:
                work.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _port_of(listener: socket.socket) -> int:
    """The listener's TCP port; 0 where it is no TCP socket."""
    return 0 if listener.family == socket.AF_UNIX else int(listener.getsockname()[1])


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


def _parts(
    container: "Container | UsersContainer",
    relay: RelayClient,
    chat: Chat,
    addresses: IssuerAddresses,
    *,
    origin: str,
    hosts: frozenset[str],
    local: "_LocalParts | None" = None,
) -> tuple[ApiParts, PushSender]:
    tokens, sessions = sign_in_of(container, addresses, origin)
    limits, callers = Limits(), container.make_callers(tokens.is_denied)
    called = calling(origin, callers, container.calling_rows, chat, limits, internet())
    parts = ApiParts(
        origin=origin,
        hosts=hosts,
        tokens=tokens,
        sessions=sessions,
        limits=limits,
        accounts=container.accounts,
        files=container.chat_rows.files,
        chat=chat,
        jobs=container.make_agent_jobs(relay),
        settings=container.make_copied_settings(),
        pages=Pages.load(),
        requests=Requests(container.user_requests),
        plans=container.user_plans,
        metered=container.metered_sums,
        stripe=container.stripe_door(),
        messengers=container.messenger_links(),
        telegram=container.telegram_door(),
        slack=container.slack_door(),
        whatsapp=container.whatsapp_door(),
        discord=container.discord_door(),
        connections=local.connections if local else None,
        agent_calls=local.agent_calls if local else None,
        model_provider_url=local.model_provider_url if local else "",
        callers=callers,
        a2a=called.application,
    )
    return parts, called.sender


def sign_in_of(
    container: "Container | RowsContainer", addresses: IssuerAddresses, origin: str
) -> tuple[Tokens, PageSessions]:
    """Users' tokens of an issuer, and sessions of pages that have such tokens.

    Args:
        origin: Of the pages, to which the issuer sends browsers back.
    """
    web, issuer = container.env.settings.web, IssuerClient(addresses)
    issuers = [Issuer(addresses.issuer, web.issuer_kind, frozenset({addresses.client_id}), issuer.keys)]
    denied = frozenset(text.strip() for text in web.denied.split(",") if text.strip())
    tokens = Tokens(issuers, denied=lambda user: user in denied)
    return tokens, PageSessions(container.web_sessions, tokens, issuer, f"{origin}{CALLBACK}", time.time)


def origin_of(web: WebSettings) -> str:
    """The origin of the pages outside the local world.

    Raises:
        UsageError: It is not set.
    """
    if not web.origin:
        raise UsageError("missing web.origin", hint=Hint(("settings", "set", "web.origin", "https://HOST")))
    return web.origin


def hosts_of(origin: str, listener: socket.socket) -> frozenset[str]:
    """Names by which a process is asked: the origin's, and on a TCP port those of loopback."""
    port = _port_of(listener)
    loopback = {f"localhost:{port}", f"{_LOOPBACK}:{port}"} if port else set[str]()
    return frozenset({origin.partition("://")[2], *loopback})


def issuer_of(web: WebSettings) -> IssuerAddresses:
    """The issuer of users' tokens that the settings describe.

    Raises:
        UsageError: A setting is missing.
    """
    needed: Mapping[str, str] = {
        "web.issuer": web.issuer,
        "web.client_id": web.client_id,
        "web.keys_url": web.keys_url,
        "web.authorize_url": web.authorize_url,
        "web.token_url": web.token_url,
    }
    for name, value in needed.items():
        if not value:
            hint = Hint(("settings", "set", name, "VALUE"))
            raise UsageError(f"missing {name}, which describes the issuer of users' tokens", hint=hint)
    return IssuerAddresses(web.issuer, web.keys_url, web.authorize_url, web.token_url, web.client_id)


def _issuer_of_world(url: str) -> IssuerAddresses:
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
        self._metered_at = 0.0

    async def run(self) -> None:
        """Carry requests, settings, billing and usage on in turn until cancelled; a failing one delays no other."""
        try:
            while True:
                for work in (self._carry_requests, self._copy_settings, self._bill, self._meter, self._read_statements):
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

    async def _copy_settings(self) -> None:
        copying = self._connected.container.settings_copying
        if await asyncio.to_thread(copying.due):
            await asyncio.to_thread(copying.run)

    async def _bill(self) -> None:
        billing = self._connected.billing
        if not self._connected.container.endpoint.stripe_url:
            return
        if await asyncio.to_thread(billing.due):
            await billing.run()

    async def _meter(self) -> None:
        metering, now = self._connected.container.metering, time.monotonic()
        if now - self._metered_at < _METERED_EVERY_S:
            return
        self._metered_at = now
        if await asyncio.to_thread(metering.due):
            await metering.run()

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
