"""One HTTP request and its answer over a pair of streams; each connection carries one request.

It must not know what is asked. What is not exactly one request is refused: no smuggling of a second one.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import h11

_HEAD_BYTES = 16 * 1024
_PIECE = 64 * 1024
_HEAD_PIECE = 4096
"""Bytes of a head that are read at once; h11 bounds an incomplete one."""

_ASKING_S = 10.0
"""Seconds for the head of a request, and as many more for each MiB of its body."""

_LINGER_S = 2.0
_STALLED_S = 30.0
"""Seconds for which a caller may read no byte of an answer."""


class RefusedRequestError(Exception):
    """A request that is not answered as it asks; the server answers this instead.

    Args:
        code: For programs.
        words: For people; nothing that somebody else said.
        retry_after_s: Seconds after which the same request may succeed; 0 when that is not known.
    """

    def __init__(self, status: HTTPStatus, code: str, words: str, *, retry_after_s: int = 0) -> None:
        super().__init__(words)
        self.status = status
        self.code = code
        self.words = words
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Head:
    """The head of a request.

    Attributes:
        headers: Names in lower case.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    size: int


class Exchange:
    """One request and its answer.

    Args:
        writer: To the caller; its owner closes it.
        largest_body: Bytes of a request's body.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, largest_body: int) -> None:
        self._reader = reader
        self._writer = writer
        self._largest_body = largest_body
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    @property
    def has_begun(self) -> bool:
        """Whether the head of an answer was sent already."""
        return self._http.our_state is not h11.IDLE and self._http.our_state is not h11.SEND_RESPONSE

    async def head(self) -> Head:
        """Read the head.

        Raises:
            RefusedRequestError: It is not plain HTTP/1.1, too long, too slow, or lacks the length of its body.
        """
        try:
            async with asyncio.timeout(_ASKING_S):
                event = await self._next(_HEAD_PIECE)
        except TimeoutError:
            raise RefusedRequestError(HTTPStatus.REQUEST_TIMEOUT, "too_slow", "no whole request came") from None
        if not isinstance(event, h11.Request) or event.http_version != b"1.1":
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "not_http", "this is no HTTP/1.1 request")
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        return Head(
            event.method.decode(), event.target.decode("latin-1"), headers, _size_in(headers, self._largest_body)
        )

    async def body(self, size: int) -> bytes:
        """Read the body.

        Raises:
            RefusedRequestError: It is too slow, or incomplete.
        """
        data = bytearray()
        try:
            async with asyncio.timeout(_ASKING_S * (1 + size / (1 << 20))):
                while not isinstance(event := await self._next(_PIECE), h11.EndOfMessage):
                    if not isinstance(event, h11.Data):
                        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "not_http", "the body is not whole")
                    data += event.data
        except TimeoutError:
            raise RefusedRequestError(HTTPStatus.REQUEST_TIMEOUT, "too_slow", "no whole body came") from None
        return bytes(data)

    async def gone(self) -> None:
        """Return when the caller hung up, or sends more than its request: either way it waits for nothing more."""
        await self._reader.read(1)

    async def linger(self) -> None:
        """Read the caller's remaining bytes for a moment: closing on unread bytes may lose the answer."""
        if self._http.their_state is not h11.SEND_BODY:
            return
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(_PIECE):
                    pass

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a complete answer: head, body and end."""
        both = {**headers, "content-length": str(len(body)), "connection": "close", "cache-control": "no-store"}
        await self._send(h11.Response(status_code=status, headers=list(both.items())))
        await self.go_on(body)
        await self.end()

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer of unknown length; ``go_on`` sends its body, ``end`` ends it."""
        both = {**headers, "transfer-encoding": "chunked", "connection": "close", "cache-control": "no-store"}
        await self._send(h11.Response(status_code=status, headers=list(both.items())))

    async def go_on(self, data: bytes) -> None:
        """Send a piece of the answer's body.

        Raises:
            TimeoutError: The caller takes none.
        """
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        """End an answer that ``begin`` began."""
        await self._send(h11.EndOfMessage())

    async def _next(self, most: int) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(most))
        except h11.RemoteProtocolError:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "not_http", "this is no HTTP/1.1 request") from None
        return event

    async def _send(self, event: h11.Event) -> None:
        self._writer.write(self._http.send(event) or b"")
        async with asyncio.timeout(_STALLED_S):
            await self._writer.drain()


def _size_in(headers: tuple[tuple[str, str], ...], largest: int) -> int:
    names = [name for name, _ in headers]
    if "transfer-encoding" in names or "upgrade" in names or "expect" in names:
        raise RefusedRequestError(
            HTTPStatus.LENGTH_REQUIRED, "no_length", "a request says how long its body is, and sends it"
        )
    size = next((value for name, value in headers if name == "content-length"), "0")
    if len(size) > len(str(largest)) or int(size) > largest:  # h11 has seen that these are digits
        raise RefusedRequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"a body has at most {largest} bytes"
        )
    return int(size)
