"""The server of a local world: the wiring of its parts, from the folder to two listening sockets.

It must not decide anything about machines; it starts the parts in order and stops them in the other order.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount

from hermesops.localcloud import control, vendor_api
from hermesops.localcloud.account import Account
from hermesops.localcloud.driver import DAEMON_PORT
from hermesops.localcloud.edge import Edge
from hermesops.localcloud.faults import Faults
from hermesops.localcloud.fleet import Fleet
from hermesops.localcloud.host_driver import MODEL_PORT, HostDriver
from hermesops.localcloud.images import Images
from hermesops.localcloud.listener import Listener, listen
from hermesops.localcloud.machines_api import Machines
from hermesops.localcloud.misbehaviour import Misbehaviour
from hermesops.localcloud.model_log import ModelLog
from hermesops.localcloud.places import Places
from hermesops.localcloud.private_files import key_of, write_object
from hermesops.localcloud.problem import Problem, answer_http_exception, answer_problem
from hermesops.localcloud.proxy import Proxy
from hermesops.localcloud.router import Router, Upstream
from hermesops.localcloud.server_process import hold
from hermesops.localcloud.store import Store

_LOOPBACK = "127.0.0.1"

log = structlog.get_logger()


@dataclass(frozen=True)
class Serving:
    """Where a running server is reachable."""

    api_url: str
    model_base_url: str


async def serve(
    folder: Path,
    driver: HostDriver,
    *,
    port: int = 0,
    model_port: int = MODEL_PORT,
    upstream: Upstream | None = None,
    serving: Callable[[Serving], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a world's server until SIGTERM, SIGINT or ``stop``. Machines keep running when it ends.

    Args:
        folder: The world's; made when absent.
        driver: Runs the machines.
        port: Port of API and proxy on loopback; 0 takes the one of last time, at first any free one.
        model_port: Port of the model router on the driver's gateway; 0 takes any free one.
        upstream: Real models behind the router.
        serving: Called once everything answers.
        stop: Set by a caller that runs it inside its own process.

    Raises:
        RefusedError: Another server has this folder.
        UnavailableError: A port is taken, or the driver cannot run machines here.
        BrokenInvariantError: The world's file is damaged.
    """
    places = Places(folder)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(hold(places.lock))
        store = Store(places.database)
        stack.callback(store.close)
        api_socket = listen(_LOOPBACK, port or int(store.remembered("port") or 0))
        stack.callback(api_socket.close)
        api_port = int(api_socket.getsockname()[1])
        store.remember("port", str(api_port))

        faults, model_log, images = Faults(store), ModelLog(store), Images(store, driver)
        fleet = Fleet(store, driver)
        stack.push_async_callback(driver.close, purge=False)
        stack.push_async_callback(fleet.close)
        stack.push_async_callback(images.close)
        await fleet.open()
        images.open()

        router = Router(key_of(places.model_key, "").encode(), model_log, upstream)
        stack.push_async_callback(router.close)
        model_socket = listen(str(driver.gateway), model_port)
        stack.callback(model_socket.close)
        where = Serving(f"http://{_LOOPBACK}:{api_port}", f"http://{driver.gateway}:{model_socket.getsockname()[1]}/v1")
        facts = _facts(places, where, driver)
        app = _app(store, fleet, images, faults, model_log, api_port, key_of(places.api_key, "sk_local_"), facts)
        listeners = [Listener(app, api_socket), Listener(router.app(), model_socket)]

        ended = stop or asyncio.Event()
        _end_on_signals(ended, by_signal=stop is None)
        stack.callback(places.world.unlink, missing_ok=True)
        await _run(listeners, ended, lambda: _announce(places, facts, where, serving))


def _app(
    store: Store,
    fleet: Fleet,
    images: Images,
    faults: Faults,
    model_log: ModelLog,
    port: int,
    api_key: str,
    facts: Mapping[str, object],
) -> Edge:
    machines = Machines(store, fleet, images, faults, port)
    vendor = _starlette(
        [
            *machines.routes(),
            *vendor_api.Toolbox(machines, fleet.broker).routes(),
            *vendor_api.ImagesApi(store, images).routes(),
            *vendor_api.TokensApi(store).routes(),
            *Account(store).routes(),
        ],
    )
    own = _starlette(control.Control(store, fleet, faults, model_log, lambda: facts).routes())
    guarded = _starlette(
        [
            Mount(vendor_api.PREFIX, app=vendor_api.KeyCheck(Misbehaviour(vendor, faults), api_key)),
            Mount(control.PREFIX, app=vendor_api.KeyCheck(own, api_key)),
        ],
    )
    return Edge(Proxy(guarded, store, fleet.broker, faults), faults)


def _starlette(routes: Sequence[BaseRoute]) -> Starlette:
    handlers = {Problem: answer_problem, HTTPException: answer_http_exception}
    return Starlette(routes=routes, exception_handlers=handlers)


def _facts(places: Places, where: Serving, driver: HostDriver) -> dict[str, object]:
    return {
        "api_url": where.api_url,
        "api_key_file": str(places.api_key),
        "pid": os.getpid(),
        "model_base_url": where.model_base_url,
        "model_secret_file": str(places.model_key),
        "subnet": driver.subnet,
        "broker_address": str(driver.gateway),
        "daemon_port": DAEMON_PORT,
    }


def _announce(
    places: Places, facts: Mapping[str, object], where: Serving, serving: Callable[[Serving], None] | None
) -> None:
    write_object(places.world, facts)
    log.info("world_serving", api=where.api_url, model=where.model_base_url)
    if serving:
        serving(where)


async def _run(listeners: list[Listener], ended: asyncio.Event, announce: Callable[[], None]) -> None:
    async with asyncio.TaskGroup() as group:
        for listener in listeners:
            group.create_task(listener.run_until_stopped())
        # The sockets listen already: whoever connects now is answered as soon as the loop gets there.
        announce()
        await ended.wait()
        log.info("world_stopping")
        for listener in listeners:
            listener.stop()


def _end_on_signals(ended: asyncio.Event, *, by_signal: bool) -> None:
    if by_signal:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
