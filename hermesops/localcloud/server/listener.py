"""The HTTP listeners: uvicorn on sockets that are ours before it starts, and connections that can be dropped.

It must not choose addresses; callers say which.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermesops.base.waiting import pause
from hermesops.errors import UnavailableError
from hermesops.localcloud.proxy.upgrade import LARGEST_HEAD, Serve, protocol_for
from hermesops.localcloud.store.database import Store

_BACKLOG = 1024
_KEEP_ALIVE_S = 30
"""Seconds from a connection's begin, or from an answer on it, to the end of the next request's head."""


class _DroppableProtocol(H11Protocol):
    """Lets a request find the connection it came by, as ``scope["state"]["transport"]``; ends one that brings none.

    uvicorn waits for a first request for ever, and for one of which a byte has come.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._await_head()
        super().on_response_complete()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head_timer = asyncio.get_running_loop().call_later(_KEEP_ALIVE_S, self._end_without_request)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()

    def _end_without_request(self) -> None:
        is_ours = self.transport.get_protocol() is self  # otherwise it is a WebSocket's by now
        if is_ours and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()


async def hang_up(scope: Scope) -> None:
    """Drop the connection a request came by, at once and without an answer."""
    transport = scope.get("state", {}).get("transport")
    if transport is not None:
        transport.abort()
        await pause(0)  # so that the loop informs uvicorn, which would otherwise miss an answer


def listen(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        UnavailableError: The port is taken, or the address is not this computer's.
    """
    # The protocol is named because asyncio switches Nagle's delay off only then: 40 ms a request otherwise.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"cannot listen on {address}:{port}: {error.strerror}",
            hint=f"find the process that uses it: ss -ltnp 'sport = {port}'",
        ) from error
    listener.setblocking(False)
    return listener


def listen_again(store: Store, key: str, address: str, port: int) -> socket.socket:
    """A listening socket on ``port``; 0 takes the port that the store has under ``key``, at first any free one."""
    listener = listen(address, port or int(store.remembered(key) or 0))
    store.remember(key, str(port_of(listener)))
    return listener


def port_of(listener: socket.socket) -> int:
    """The port of a listening socket."""
    return int(listener.getsockname()[1])


class Listener(uvicorn.Server):
    """One application on one socket; leaves signals to the process.

    Args:
        upgraded: Serves connections that ask for a WebSocket; without, such requests are served as any other.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket, upgraded: Serve | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_DroppableProtocol,
                ws=protocol_for(upgraded) if upgraded else "none",
                lifespan="off",
                access_log=False,  # request lines hold __proxy_token
                log_config=None,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                h11_max_incomplete_event_size=LARGEST_HEAD,
                timeout_graceful_shutdown=1,  # event streams never end by themselves
            )
        )
        self._listener = listener

    async def run_until_stopped(self) -> None:
        """Serve requests until ``stop`` is called."""
        await self.serve([self._listener])

    def stop(self) -> None:
        """Request the end; open streams are cut after a second."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: they are the process's, and two listeners share one."""
        yield
