"""Listening sockets of the commands that serve, and their end by a signal."""

import asyncio
import signal
import socket
from collections.abc import Coroutine
from typing import Any

from hermesops.base.blocking import give_threads
from hermesops.cli.console import say
from hermesops.errors import Hint, UnavailableError, UsageError

_BACKLOG = 256


def listen(where: str, *command: str) -> socket.socket:
    """Listen on ``ADDRESS:PORT``; ``command`` is its words, for the hint.

    Raises:
        UsageError: ``where`` is not of that form.
        UnavailableError: Another process has the port, or the address is not this computer's.
    """
    address, _, port = where.rpartition(":")
    if not address or not port.isdecimal():
        raise UsageError("missing --listen ADDRESS:PORT", hint=Hint((*command, "--listen", "10.0.0.5:8443")))
    host = address.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise UnavailableError(f"cannot listen on {where}: {error}", hint=f"ss -ltnp 'sport = {port}'") from error
    listener.setblocking(False)
    return listener


def inherited(descriptor: int) -> socket.socket:
    """A listening socket that this process was started with."""
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    return listener


def _shown(listener: socket.socket) -> str:
    """The address of a listener: a path, or a host and its port."""
    name = listener.getsockname()
    return str(name) if listener.family == socket.AF_UNIX else f"{name[0]}:{name[1]}"


async def serve_until_signal(listener: socket.socket, serving: Coroutine[Any, Any, None], what: str) -> None:
    """Run ``serving`` until SIGTERM or SIGINT cancels it, then close the listener; a second signal does not wait."""
    give_threads()
    with listener:
        task = asyncio.ensure_future(serving)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        say(f"{what} on {_shown(listener)}")
        await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled() and (failure := task.exception()):
        raise failure
