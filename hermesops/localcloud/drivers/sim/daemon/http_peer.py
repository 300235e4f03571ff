"""One HTTP/1.1 connection from its server's side, on h11: a request whole, an answer whole or in pieces."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

_PIECE = 64 * 1024
_LONGEST_BODY = 64 * 1024 * 1024
_IDLE_S = 300.0


class HangupError(Exception):
    """The peer closed the connection, or did not speak HTTP."""


@dataclass(frozen=True)
class Request:
    """One request; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def path(self) -> str:
        """The path of the target, without the query."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        """The query; the last value of a repeated name counts."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def bearer(self, header: str = "authorization") -> str:
        """The bearer in a header; empty without one."""
        kind, _, token = self.headers.get(header, "").partition(" ")
        return token if kind.lower() == "bearer" else ""


class Peer:
    """A connection, which the caller closes; ``early`` are bytes of it that were read before."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, early: bytes = b"") -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        if early:
            self._http.receive_data(early)

    @property
    def early(self) -> bytes:
        """The bytes that followed a request after which the connection has another protocol."""
        return bytes(self._http.trailing_data[0])

    async def request(self) -> Request:
        """The next request.

        Raises:
            HangupError: There is none.
        """
        try:
            if self._http.our_state is h11.DONE:
                self._http.start_next_cycle()
            head = await self._event()
            if not isinstance(head, h11.Request):
                raise HangupError
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
            body = bytearray()
            if head.method != b"CONNECT":
                while isinstance(event := await self._event(), h11.Data):
                    body += event.data
                    if len(body) > _LONGEST_BODY:
                        raise HangupError
        except (h11.ProtocolError, OSError, TimeoutError) as error:
            raise HangupError from error
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return Request(head.method.decode(), head.target.decode("latin-1"), headers, bytes(body))

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await asyncio.wait_for(self._reader.read(_PIECE), _IDLE_S))
        return event

    async def accept(self) -> None:
        """Say that a ``CONNECT`` is granted."""
        await self._send(h11.Response(status_code=HTTPStatus.OK, headers=[]))

    async def answer(self, status: int, content: object) -> bool:
        """Answer with JSON, or with bytes as they are; whether another request may follow."""
        is_raw = isinstance(content, bytes)
        body = content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode()
        kind = b"application/octet-stream" if is_raw else b"application/json"
        await self._send(
            h11.Response(
                status_code=status, headers=[(b"content-type", kind), (b"content-length", str(len(body)).encode())]
            ),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        return self._http.our_state is h11.DONE

    async def stream(self, pieces: AsyncIterator[bytes], content_type: str = "text/event-stream") -> bool:
        """Answer 200 with pieces as they come; whether another request may follow."""
        headers = [("content-type", content_type), ("cache-control", "no-store")]
        await self._send(h11.Response(status_code=HTTPStatus.OK, headers=headers))
        async for piece in pieces:
            if piece:
                await self._send(h11.Data(data=piece))
        await self._send(h11.EndOfMessage())
        return self._http.our_state is h11.DONE

    async def _send(self, *events: h11.Event) -> None:
        try:
            self._writer.write(b"".join(filter(None, map(self._http.send, events))))
            await self._writer.drain()
        except (h11.ProtocolError, OSError) as error:
            raise HangupError from error
