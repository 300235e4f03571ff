"""Runs the plugin's gRPC server for as long as the engine that started it lives.

Every user and program that can connect to this computer's loopback can call it while an ``up`` runs, Delete included:
Pulumi's protocol has no authentication, and engines connect by TCP and more than once, so callers cannot be told apart.
Run workers, and all other programs that run stacks, on dedicated hosts, without other users and foreign programs.
"""

import asyncio
import functools
import math
import os
import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc.aio
from pulumi.runtime.proto import provider_pb2_grpc

from hermesops.base import waiting
from hermesops.base.waiting import Pending
from hermesops.infra.provider.engine_log import EngineLog
from hermesops.infra.provider.grpc_errors import ErrorInterceptor
from hermesops.infra.provider.images import Images
from hermesops.infra.provider.machines import Machines
from hermesops.infra.provider.servicer import Servicer

if TYPE_CHECKING:
    from hermesops.infra.provider.vendor import JustAvps  # loads the vendor's client

_LARGEST_MESSAGE = 400 * 1024 * 1024
"""Bytes; what the SDK's own servers take, since a state may be large."""

_ORPHAN_CHECK_S = 2.0
_UNANSWERED_CHECKS = 2


def engine_address(arguments: list[str]) -> str:
    """Parse the engine's address from the plugin's arguments; empty if a person started it.

    Engines put flags of their own before it (``--logtostderr -v=9 --tracing URL``).
    """
    last = arguments[-1] if arguments else ""
    return last if re.fullmatch(r"\S+:\d+", last) else ""


async def serve(
    open_vendor: Callable[[], "JustAvps"], *, version: str, engine: str, announce: Callable[[int], None]
) -> None:
    """Answer the engine until it is gone.

    ``engine`` is the engine's address, empty when none is known yet; ``announce`` is called with the port once calls
    are answered there.
    """
    parent = os.getppid()  # before anybody knows the port: the engine that waits for it may be gone right after
    # Ctrl-C reaches the whole process group. The engine decides what it means and says so by Cancel.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)
    log, vendor, stopping = EngineLog(engine), functools.cache(open_vendor), asyncio.Event()
    machines, images = Machines(vendor, stopping=stopping), Images(vendor, stopping=stopping)
    server = grpc.aio.server(
        interceptors=(ErrorInterceptor(log),),
        options=(
            ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
            ("grpc.max_send_message_length", _LARGEST_MESSAGE),
        ),
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(
        Servicer((machines, images), log, stopping, version), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(port)
    await _engine_gone(engine, parent)
    await server.stop(grace=None)


async def _engine_gone(engine: str, parent: int) -> None:
    """Wait until the engine that started this process is gone: a killed engine does not end its plugins.

    Checking the parent is not enough: if the engine dies while this process starts, the first parent seen is another.
    """
    unanswered = 0

    async def is_gone() -> bool | Pending[bool]:
        nonlocal unanswered
        unanswered = 0 if not engine or await _listens(engine) else unanswered + 1
        return os.getppid() != parent or unanswered >= _UNANSWERED_CHECKS or Pending("alive")

    await waiting.until(is_gone, what="the engine to end", timeout_s=math.inf, every_s=_ORPHAN_CHECK_S)


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True
