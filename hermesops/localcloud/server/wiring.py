"""The server of a local world: the wiring of its parts, from the folder to two listening sockets.

It must not decide anything about machines; it starts the parts in order and stops them in the other order.
"""

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route

from hermesops.localcloud.api.account import Account
from hermesops.localcloud.api.disk_copies import BackupsApi, ImagesApi
from hermesops.localcloud.api.keys import PREFIX, KeyCheck, Keys, ProxyTokens
from hermesops.localcloud.api.machines import Machines
from hermesops.localcloud.api.problem import Problem, answer_http_exception, answer_problem, disk_handlers
from hermesops.localcloud.drivers.interface import (
    CONNECTOR_PORT,
    DAEMON_PORT,
    MODEL_PORT,
    OBJECT_STORE_PORT,
    PLATFORM_PORT,
    Driver,
    PlatformService,
)
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.middleware import FaultMiddleware, SilenceLimit
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.disk_copies import Backups, Images
from hermesops.localcloud.fleet.machine_tasks import Fleet, address_of
from hermesops.localcloud.model_router.router import ModelLog, Router, Upstream
from hermesops.localcloud.proxy.upgrade import Handshake, Serve
from hermesops.localcloud.proxy.vendor_proxy import Proxy
from hermesops.localcloud.server import control
from hermesops.localcloud.server.listener import Listener, listen_again, port_of
from hermesops.localcloud.server.process import hold
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.vendors.composio.composio import PREFIX as COMPOSIO
from hermesops.localcloud.vendors.composio.composio import LocalComposio
from hermesops.localcloud.vendors.issuer import PREFIX as ISSUER
from hermesops.localcloud.vendors.issuer import LocalIssuer, Person
from hermesops.localcloud.vendors.messengers import Messengers
from hermesops.localcloud.vendors.model_provider import KEY_PREFIX, LocalModelProvider
from hermesops.localcloud.vendors.model_provider import PREFIX as MODEL_PROVIDER
from hermesops.localcloud.vendors.phone.phone import PREFIX as PHONE
from hermesops.localcloud.vendors.phone.phone import to_page
from hermesops.localcloud.vendors.stripe.books import PRICES
from hermesops.localcloud.vendors.stripe.meters import METERS
from hermesops.localcloud.vendors.stripe.server import EVENTS_PATH, LocalStripe
from hermesops.localcloud.vendors.stripe.server import PREFIX as STRIPE
from hermesops.localcloud.vendors.telegram import HANGS
from hermesops.localcloud.vendors.users_door import door_in
from hermesops.localcloud.webhooks import Webhooks
from hermesops.localcloud.world import platform_forward, platform_socket
from hermesops.localcloud.world.files import PROVIDER_KEY, WorldFiles, key_of, write_object
from hermesops.localcloud.world.object_store import ObjectStore
from hermesops.programs.model_router.accounts.books import Ledger, open_books

_LOOPBACK = "127.0.0.1"
_NO_PROGRAM = Path("/nonexistent/versitygw")

log = structlog.get_logger()


@dataclass(frozen=True)
class Serving:
    """The URLs of a running server."""

    api_url: str
    model_base_url: str


async def serve(  # noqa: PLR0913 - the one place where a server is put together
    folder: Path,
    driver: Driver,
    *,
    port: int = 0,
    model_port: int = MODEL_PORT,
    upstream: Upstream | None = None,
    platform: platform_socket.Service | None = None,
    users: platform_socket.Service | None = None,
    connector: platform_socket.Service | None = None,
    people: Callable[[], Sequence[Person]] = tuple,
    object_store_program: Callable[[], Path] | None = None,
    ledger: Ledger | None = None,
    serving: Callable[[Serving], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a world's server until SIGTERM, SIGINT or ``stop``. Machines keep running when it ends.

    Args:
        folder: The world's; made when absent.
        port: Port of API and proxy on loopback; 0 takes the one of last time, at first any free one.
        model_port: Port of the model router on the driver's gateway; 0 as above, for the object store and the platform
            too.
        platform: Starts the service that machines prove themselves to; none without.
        users: Starts the users' API; none without.
        connector: Starts the connector of agents' sockets; none without, nor in a world that came up without vendors.
        people: The users who can sign in.
        object_store_program: Says where versitygw is; without, the world has no object store.
        ledger: The registry, as the model router uses it; without, no token is revoked and no budget used up.
        serving: Called once everything answers.
        stop: Set by a caller that runs it inside its own process.

    Raises:
        RefusedError: Another server has this folder.
        UnavailableError: A port is taken, or the driver cannot run machines here.
        BrokenInvariantError: The world's file is damaged.
    """
    files = WorldFiles(folder)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(hold(files.lock))
        store = stack.enter_context(contextlib.closing(Store(files.database)))
        api_socket = stack.enter_context(listen_again(store, "port", _LOOPBACK, port))

        parts = await _opened_parts(stack, store, driver, key_of(files.api_key, "sk_local_"))
        router = await _opened_router(stack, files, parts, upstream, ledger)
        model_socket = stack.enter_context(listen_again(store, "model_port", str(driver.gateway), model_port))
        where = Serving(
            api_url=f"http://{_LOOPBACK}:{port_of(api_socket)}",
            model_base_url=f"http://{driver.gateway}:{port_of(model_socket)}/v1",
        )
        program = object_store_program or (lambda: _NO_PROGRAM)
        objects = ObjectStore(files, store, driver.gateway, OBJECT_STORE_PORT if model_port else 0, program)
        stack.push_async_callback(objects.close)
        objects.open()
        facts = _facts(files, where, driver)
        if platform and model_port:
            forwarded = platform_forward.opened(driver, store, files.platform, port_of(api_socket))
            facts |= _platform_facts(await stack.enter_async_context(forwarded))
        if platform:
            opened = platform_socket.opened(platform, store, driver.gateway, PLATFORM_PORT if model_port else 0)
            facts["platform_url"] = await stack.enter_async_context(opened)
        if users:
            opened_users = platform_socket.opened_for_users(users, store, _LOOPBACK, files.users_door.exists)
            facts["users_url"] = await stack.enter_async_context(opened_users)
        others = await _opened_vendors(stack, files, where, facts, people)
        sockets: Mapping[bytes, Serve] = {}
        models = router.app()
        if files.stripe.exists():
            models = _with_provider(models, files, where, facts)
            wanted = asyncio.Event()
            fault = functools.partial(_messenger_fault, parts.faults)
            messengers = await stack.enter_async_context(_messengers(files, where, facts, wanted.set, fault))
            others += [*messengers.mounts(), Route(PHONE, to_page), Mount(PHONE, routes=messengers.phone.routes())]
            sockets = messengers.sockets(where.api_url)
            if connector:
                own_port = CONNECTOR_PORT if model_port else 0
                opened_connector = platform_socket.opened_for_agents(
                    connector, store, driver.gateway, own_port, wanted, files.users_door.exists
                )
                facts["connector_url"] = await stack.enter_async_context(opened_connector)
        api = _api(parts, port_of(api_socket), facts, objects, files.date_shift, others)
        proxy = Proxy(api, store, parts.fleet.broker, parts.faults)
        listeners = [
            Listener(SilenceLimit(proxy, parts.faults), api_socket, _upgrading(sockets, proxy.upgrade)),
            Listener(models, model_socket),
        ]
        stack.callback(files.world.unlink, missing_ok=True)

        def begun() -> None:
            write_object(files.world, facts)
            log.info("world_serving", api=where.api_url, model=where.model_base_url)
            if serving:
                serving(where)

        await _listen(listeners, begun, stop or _signalled())


async def _listen(listeners: Sequence[Listener], begun: Callable[[], None], ended: asyncio.Event) -> None:
    """Answer on all sockets until ``ended``; ``begun`` is called once everything answers."""
    async with asyncio.TaskGroup() as group:
        for listener in listeners:
            group.create_task(listener.run_until_stopped())
        # The sockets listen already: whoever connects now is answered as soon as the loop gets there.
        begun()
        await ended.wait()
        log.info("world_stopping")
        for listener in listeners:
            listener.stop()


def _signalled() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    event = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


@dataclass(frozen=True)
class _Parts:
    """The parts of the server that handlers use."""

    store: Store
    faults: Faults
    fleet: Fleet
    images: Images
    backups: Backups
    webhooks: Webhooks
    keys: Keys
    model_log: ModelLog


def _model_fault(faults: Faults) -> int:
    """The status of a waiting fault of the model; 0 without one."""
    if faults.take(FaultKind.MODEL_LIMITED):
        return HTTPStatus.TOO_MANY_REQUESTS
    failing = faults.take(FaultKind.MODEL_FAILS)
    return failing.status if failing else 0


def _messenger_fault(faults: Faults) -> int:
    """The status of a waiting fault of messengers; 0 without one, ``HANGS`` for no answer."""
    if faults.take(FaultKind.MESSENGER_HANGS):
        return HANGS
    if faults.take(FaultKind.MESSENGER_REFUSES):
        return HTTPStatus.UNAUTHORIZED
    failing = faults.take(FaultKind.MESSENGER_FAILS)
    return failing.status if failing else 0


async def _opened_parts(stack: contextlib.AsyncExitStack, store: Store, driver: Driver, api_key: str) -> _Parts:
    """The parts, at work until the stack is unwound; machines keep running."""
    parts = _parts(store, driver, api_key)
    stack.push_async_callback(driver.close, purge=False)
    stack.push_async_callback(parts.webhooks.close)
    stack.push_async_callback(parts.fleet.close)
    stack.push_async_callback(parts.images.close)
    stack.push_async_callback(parts.backups.close)
    await parts.fleet.open()
    parts.images.open()
    parts.backups.open()
    parts.webhooks.open()
    return parts


async def _opened_router(
    stack: contextlib.AsyncExitStack,
    files: WorldFiles,
    parts: _Parts,
    upstream: Upstream | None,
    ledger: Ledger | None,
) -> Router:
    books = open_books(ledger, files.model_usage) if ledger else None
    if books:
        await stack.enter_async_context(books.accounts.kept())
    router = Router(
        key_of(files.model_key, "").encode(),
        parts.model_log,
        upstream,
        books,
        functools.partial(_model_fault, parts.faults),
        key_of(files.provider_key, PROVIDER_KEY),
    )
    stack.push_async_callback(router.close)
    return router


def _parts(store: Store, driver: Driver, api_key: str) -> _Parts:
    faults = Faults(store)
    webhooks = Webhooks(store, faults, functools.partial(address_of, driver))
    fleet = Fleet(store, driver, webhooks)
    return _Parts(
        store=store,
        faults=faults,
        fleet=fleet,
        images=Images(store, driver, faults),
        backups=Backups(store, driver, faults),
        webhooks=webhooks,
        keys=Keys(store, api_key),
        model_log=ModelLog(store),
    )


def vendor_routes(parts: _Parts, port: int) -> list[Route]:
    """Every call of the vendor's API, below its prefix."""
    store, fleet, faults = parts.store, parts.fleet, parts.faults
    machines = Machines(store, fleet, parts.images, faults, port)
    return [
        *machines.routes(),
        *BackupsApi(machines, store, parts.backups).routes(),
        *ImagesApi(store, parts.images).routes(),
        *ProxyTokens(store).routes(),
        *parts.keys.routes(),
        *parts.webhooks.routes(),
        *Account(store, faults).routes(),
    ]


def _api(
    parts: _Parts,
    port: int,
    facts: Mapping[str, object],
    objects: ObjectStore,
    date_shift: Path,
    others: Sequence[Mount | Route],
) -> Starlette:
    handlers = {Problem: answer_problem, HTTPException: answer_http_exception, **disk_handlers(parts.store.path)}
    answering = functools.partial(Starlette, exception_handlers=handlers)
    vendor = answering(routes=vendor_routes(parts, port))
    own = control.Control(
        parts.store, parts.fleet, parts.faults, parts.model_log, parts.webhooks, facts, objects, date_shift
    )
    return answering(
        routes=[
            Mount(PREFIX, app=KeyCheck(FaultMiddleware(vendor, parts.faults, parts.fleet.names_of), parts.keys)),
            *others,
            Mount(control.PREFIX, app=KeyCheck(answering(routes=own.routes()), parts.keys)),
        ],
    )


async def _opened_vendors(
    stack: contextlib.AsyncExitStack,
    files: WorldFiles,
    where: Serving,
    facts: dict[str, object],
    people: Callable[[], Sequence[Person]],
) -> list[Mount | Route]:
    """The stand-ins of vendors of the users' half, with their facts added; the issuer's pages are the platform's."""
    services = facts.get("platform_services")
    pages = f"https://{services[PlatformService.USERS.value]}" if isinstance(services, Mapping) else ""
    issuer = LocalIssuer(f"{where.api_url}{ISSUER}", people, pages=pages)
    key = key_of(files.composio_key, "ak_local_")
    composio = LocalComposio(f"{where.api_url}{COMPOSIO}", key=key, file=files.composio)
    facts |= {
        "issuer_url": issuer.url,
        "composio_url": composio.url,
        "composio_key_file": str(files.composio_key),
    }
    stripe = await stack.enter_async_context(_stripe(files, where, facts))
    return [Mount(ISSUER, routes=issuer.routes()), Mount(COMPOSIO, routes=composio.routes()), *stripe]


@contextlib.asynccontextmanager
async def _stripe(files: WorldFiles, where: Serving, facts: dict[str, object]) -> AsyncIterator[list[Mount]]:
    """The stand-in of Stripe, while the block lasts; none in a world that came up without."""
    if not files.stripe.exists():
        yield []
        return
    users_url = str(facts.get("users_url", ""))
    webhook = f"{users_url}{EVENTS_PATH}" if users_url else ""
    door = functools.partial(door_in, files.users_door)
    key_of(files.stripe_key, "sk_test_")
    secret = key_of(files.stripe_secret, "whsec_")
    stripe = LocalStripe(f"{where.api_url}{STRIPE}", secret, webhook, door, files.stripe)
    facts |= {
        "stripe_url": stripe.url,
        "stripe_prices": {price: plan for price, (plan, _) in PRICES.items()},
        "stripe_meters": {meter.counts: meter.event_name for meter in METERS},
        "stripe_metered_prices": sorted(meter.price for meter in METERS),
    }
    try:
        yield [Mount(STRIPE, routes=stripe.routes())]
    finally:
        await stripe.close()


def _with_provider(router: Starlette, files: WorldFiles, where: Serving, facts: dict[str, object]) -> Starlette:
    """The model router, and beside it, where machines reach both, a stand-in of a provider of users' own keys."""
    key_of(files.own_provider_keys, KEY_PREFIX)
    provider = LocalModelProvider(files.own_provider_keys)
    facts |= {
        "model_provider_url": f"{where.model_base_url.removesuffix('/v1')}{MODEL_PROVIDER}",
        "model_provider_keys_file": str(files.own_provider_keys),
    }
    return Starlette(routes=[Mount(MODEL_PROVIDER, routes=provider.routes()), Mount("/", app=router)])


@contextlib.asynccontextmanager
async def _messengers(
    files: WorldFiles, where: Serving, facts: dict[str, object], heard: Callable[[], None], fault: Callable[[], int]
) -> AsyncIterator[Messengers]:
    """The stand-ins of messengers, while the block lasts.

    Args:
        heard: Called when the users' API has taken what a person wrote.
        fault: The status of a waiting fault; 0 without one.
    """
    keys = {file: key_of(file, _BEGINNINGS.get(file.name, "")) for file in files.messenger_keys}
    messengers = Messengers.of(files, keys, str(facts.get("users_url", "")), heard, fault)
    facts |= {"messengers": messengers.settings(where.api_url), "phone_url": f"{where.api_url}{PHONE}/"}
    async with messengers.open():
        yield messengers


def _upgrading(sockets: Mapping[bytes, Serve], otherwise: Serve) -> Serve:
    """Serve WebSockets by the beginnings of their paths, and all others ``otherwise``."""

    async def serve(handshake: Handshake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen = (carry for path, carry in sockets.items() if handshake.target.startswith(path))
        await next(chosen, otherwise)(handshake, reader, writer)

    return serve


_BEGINNINGS = {"telegram.token": "1000000001:", "slack.token": "xoxb-", "whatsapp.token": "EAA"}
"""First characters of tokens by their files, so that people and scanners recognise them."""


def _platform_facts(forwarded: platform_forward.Forwarded) -> dict[str, object]:
    services = {service.value: where for service, where in forwarded.services.items()}
    return {
        "platform_services": {**services, "vendor_api": forwarded.vendor_api},
        "monitoring_url": f"https://{forwarded.services[PlatformService.MONITORING]}",
    }


def _facts(files: WorldFiles, where: Serving, driver: Driver) -> dict[str, object]:
    return {
        "api_url": where.api_url,
        "api_key_file": str(files.api_key),
        "pid": os.getpid(),
        "model_base_url": where.model_base_url,
        "model_secret_file": str(files.model_key),
        "subnet": driver.subnet,
        "broker_address": str(driver.gateway),
        "daemon_port": DAEMON_PORT,
    }
