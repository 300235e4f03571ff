"""Runs the plugin's gRPC server for as long as the engine that started it lives.

Whoever may connect to this computer's loopback may call it while an ``up`` runs, Delete included: Pulumi's protocol
knows no authentication, and engines connect by TCP and more than once, so there is nothing to tell callers apart by.
Run workers, and whatever else runs stacks, on hosts of their own, where no other user and no foreign program is.
"""

import asyncio
import functools
import math
import os
import re
import signal
from collections.abc import Callable
from typing import Protocol

import grpc.aio
from pulumi.runtime.proto import provider_pb2_grpc

from hermesops import waiting
from hermesops.provider.actions import Machines
from hermesops.provider.engine_log import EngineLog
from hermesops.provider.grpc_boundary import Edge
from hermesops.provider.image_actions import Images
from hermesops.provider.ports import ImageVendor, Vendor
from hermesops.provider.resources import ImageKeeper, MachineKeeper
from hermesops.provider.servicer import Servicer
from hermesops.waiting import Pending

_LARGEST_MESSAGE = 400 * 1024 * 1024
"""Bytes; what the SDK's own servers take, since a state may be large."""

_ORPHAN_CHECK_S = 2.0
_UNANSWERED_LOOKS = 2


def engine_address(arguments: list[str]) -> str:
    """Where the engine listens, from the plugin's arguments; empty when a person started it.

    Engines put flags of their own before it (``--logtostderr -v=9 --tracing URL``).
    """
    last = arguments[-1] if arguments else ""
    return last if re.fullmatch(r"\S+:\d+", last) else ""


class AnyVendor(Vendor, ImageVendor, Protocol):
    """Where machines and images come from."""


async def serve(
    open_vendor: Callable[[], AnyVendor], *, version: str, engine: str, announce: Callable[[int], None]
) -> None:
    """Answer the engine until it is gone.

    Args:
        open_vendor: Opens where machines and images come from; called when the first of them is asked for.
        version: Of the plugin.
        engine: The engine's address; empty when none is known yet.
        announce: Told the port once calls are answered there.
    """
    parent = os.getppid()  # before anybody knows the port: whoever waits for that may be gone right after
    # Ctrl-C reaches the whole process group. The engine decides what it means and says so by Cancel.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)
    log, vendor, stopping = EngineLog(engine), functools.cache(open_vendor), asyncio.Event()
    keepers = (MachineKeeper(Machines(vendor, stopping=stopping)), ImageKeeper(Images(vendor, stopping=stopping)))
    server = grpc.aio.server(
        interceptors=(Edge(log),),
        options=(
            ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
            ("grpc.max_send_message_length", _LARGEST_MESSAGE),
        ),
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(keepers, log, stopping, version), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(port)
    await _engine_gone(engine, parent)
    await server.stop(grace=None)


async def _engine_gone(engine: str, parent: int) -> None:
    """Wait until whoever started this process is gone: a killed engine takes no plugin with it.

    The parent alone does not tell: an engine that dies while this process starts leaves it with another one already.
    """
    unanswered = 0

    async def look() -> bool | Pending[bool]:
        nonlocal unanswered
        unanswered = 0 if not engine or await _listens(engine) else unanswered + 1
        return os.getppid() != parent or unanswered >= _UNANSWERED_LOOKS or Pending("alive")

    await waiting.until(look, what="the engine to end", timeout_s=math.inf, every_s=_ORPHAN_CHECK_S)


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True
