"""Carries bytes between the broker and a port on the machine's loopback, as long as both ends want."""

import contextlib
import socket
import threading

from .http import HttpError, Request, head

_CONNECT_TIMEOUT_S = 5.0
_PIECE = 128 * 1024
_LOOPBACK = ("127.0.0.1", "localhost")


def serve(request: Request) -> None:
    """Answer ``CONNECT 127.0.0.1:PORT`` and splice until both directions have ended.

    Raises:
        HttpError: 403 for anything but loopback, 502 when nothing listens there.
    """
    host, _, port = request.target.rpartition(":")
    if host not in _LOOPBACK or not port.isdecimal():
        raise HttpError(403, "forbidden", "only ports of 127.0.0.1 can be reached")
    try:
        service = socket.create_connection(("127.0.0.1", int(port)), timeout=_CONNECT_TIMEOUT_S)
    except (OSError, OverflowError) as error:
        raise HttpError(502, "connection_refused", f"nothing answers on port {port}") from error
    with service:
        service.settimeout(None)
        service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request.connection.sendall(head(200, {}))
        early = _already_read(request)
        if early:
            service.sendall(early)
        splice(request.connection, service)


def _already_read(request: Request) -> bytes:
    """Bytes that followed the request so closely that the buffered reader took them too."""
    request.connection.settimeout(0)
    held = request.stream.peek()
    request.connection.settimeout(None)
    return request.stream.read(len(held)) if held else b""


def splice(one: socket.socket, other: socket.socket) -> None:
    """Copy both ways; the end of one direction is passed on, the other goes on.

    A thread per direction: with one for both, two sides that send at once would wait for each other for ever.
    """
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_PIECE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):  # broken in one direction is broken: wake the other one
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
