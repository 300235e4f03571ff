"""The first bytes of a connection: agents' sockets and files come to one port, and the path tells them apart."""

import asyncio
from functools import partial
from typing import Any, cast

from websockets.asyncio.server import ServerConnection

from hermesops.connector.media import MediaDoor
from hermesops.users.messaging.files.references import MEDIA

_BEGINNINGS = tuple(f"{method} {MEDIA}".encode() for method in ("GET", "POST"))
_LONGEST = max(map(len, _BEGINNINGS))
_FIRST_S = 10.0
"""Seconds for the first bytes."""


class Front(ServerConnection):
    """A connection of which nothing is known until its first bytes came.

    Args:
        media: Gets connections that ask for files.
        parts: And ``options``: as ``ServerConnection`` has them.
    """

    def __init__(self, media: MediaDoor, *parts: Any, **options: Any) -> None:  # noqa: ANN401 - as websockets passes them
        super().__init__(*parts, **options)
        self._media = media
        self._head = b""
        self._is_socket = False
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes."""
        self._front = cast("asyncio.Transport", transport)
        self._late = self.loop.call_later(_FIRST_S, self._front.abort)

    def data_received(self, data: bytes) -> None:
        """Decide by the first bytes; pass on what comes after them."""
        if self._is_socket:
            super().data_received(data)
            return
        self._head += data
        if len(self._head) < _LONGEST and any(each.startswith(self._head) for each in _BEGINNINGS):
            return
        self._decide()
        if self._head.startswith(_BEGINNINGS):
            self._hand_over()
        else:
            self._become_socket()

    def eof_received(self) -> None:
        """Pass an end on; before the first bytes it ends the connection."""
        if self._is_socket:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on, where there was a socket."""
        self._decide()
        if self._is_socket:
            super().connection_lost(exc)

    def _decide(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _become_socket(self) -> None:
        head, self._head, self._is_socket = self._head, b"", True
        super().connection_made(self._front)
        super().data_received(head)

    def _hand_over(self) -> None:
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        self._front.set_protocol(protocol)
        protocol.connection_made(self._front)
        protocol.data_received(self._head)
        self._media.begin(reader, asyncio.StreamWriter(self._front, protocol, reader, self.loop))


def connection_class(media: MediaDoor) -> type[ServerConnection]:
    """Makes connections that are sockets, but for those that ask for files: ``media`` gets these."""
    return cast("type[ServerConnection]", partial(Front, media))
