"""Just enough HTTP/1.1 for one trusted peer: keep-alive, bodies streamed both ways, multipart uploads, CONNECT.

The library's server is not used because it parses headers with the e-mail package and cannot hand over the raw
connection; the daemon must start in milliseconds and stay small.
"""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from urllib.parse import parse_qs, unquote, urlsplit

CHUNK = 256 * 1024
_MAX_HEAD_LINE = 64 * 1024
_MAX_HEADERS = 100
_WORTH_SKIPPING = 64
"""Pieces of an unread body that are skipped to keep a connection; beyond, closing it is cheaper."""
MAX_JSON_BODY = 32 * 1024 * 1024
_GONE = "the peer went away"
_NO_HTTP = "the peer speaks no HTTP"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    507: "Insufficient Storage",
}


class HttpError(Exception):
    """An answer other than 200, in the toolbox's shape ``{error, code}``."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Hangup(Exception):  # noqa: N818 - the peer going away is an event, not a mistake
    """The peer closed the connection, or did not speak HTTP."""


def object_in(body: bytes) -> dict[str, object]:
    """A JSON object; an empty body is an empty one."""
    try:
        value = json.loads(body or b"{}")
    except ValueError as error:
        raise HttpError(400, "bad_json", f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise HttpError(400, "bad_json", "the body must be a JSON object")
    return value


@dataclass
class Request:
    """One request; its body is read by its handler."""

    method: str
    target: str
    headers: dict[str, str]
    stream: BufferedReader
    connection: socket.socket
    length: int | None
    chunked: bool
    path: str = ""
    query: dict[str, str] = field(default_factory=dict)
    _left: int = 0
    _ended: bool = False
    _continue_pending: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.target) if self.target.startswith("/") else None
        self.path = unquote(parts.path) if parts else self.target
        fields = parse_qs(parts.query, keep_blank_values=True) if parts else {}
        self.query = {key: values[-1] for key, values in fields.items()}
        self._left = self.length or 0
        self._ended = not self.chunked and self._left == 0
        self._continue_pending = self.headers.get("expect", "").lower() == "100-continue"

    @property
    def keep_alive(self) -> bool:
        """Whether the peer will send another request on this connection."""
        return self.headers.get("connection", "").lower() != "close"

    def body(self) -> Iterator[bytes]:
        """The body in pieces, never whole."""
        if self._continue_pending and not self._ended:
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._continue_pending = False
        while not self._ended:
            piece = self._next_chunk() if self.chunked else self._take(min(CHUNK, self._left))
            if piece:
                yield piece

    def discard_body(self) -> bool:
        """Skip the rest of the body; False when the connection cannot be used again."""
        if self._ended:
            return True
        if self._continue_pending:
            return False
        return all(skipped < _WORTH_SKIPPING for skipped, _ in enumerate(self.body()))

    def json(self) -> dict[str, object]:
        """The body as a JSON object; empty when there is none."""
        whole = bytearray()
        for piece in self.body():
            whole += piece
            if len(whole) > MAX_JSON_BODY:
                raise HttpError(413, "too_large", f"a JSON body may have {MAX_JSON_BODY} bytes")
        return object_in(bytes(whole))

    def asked(self) -> dict[str, object]:
        """Parameters that may be in the query, as the vendor's own client sends them, or in the body."""
        return {**self.json(), **self.query}

    def _take(self, count: int) -> bytes:
        piece = self.stream.read1(count)
        if not piece:
            raise Hangup(_GONE)
        self._left -= len(piece)
        self._ended = not self.chunked and self._left == 0
        return piece

    def _next_chunk(self) -> bytes:
        if self._left:
            piece = self._take(min(CHUNK, self._left))
            if not self._left:
                _line(self.stream)
            return piece
        try:
            self._left = int(_line(self.stream).split(b";", 1)[0], 16)
        except ValueError as error:
            raise Hangup(_NO_HTTP) from error
        if self._left == 0:
            while _line(self.stream):
                pass
            self._ended = True
        return b""


def _line(stream: BufferedReader) -> bytes:
    line = stream.readline(_MAX_HEAD_LINE)
    if not line.endswith(b"\n"):
        raise Hangup(_GONE)
    return line.rstrip(b"\r\n")


def read_request(stream: BufferedReader, connection: socket.socket) -> Request:
    """Read one request's head.

    Raises:
        Hangup: The peer is gone or spoke something else.
    """
    words = _line(stream).split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):  # noqa: PLR2004 - method, target, version
        raise Hangup(_NO_HTTP)
    headers: dict[str, str] = {}
    while line := _line(stream):
        name, _, value = line.partition(b":")
        headers[name.decode("latin-1").strip().lower()] = value.decode("latin-1").strip()
        if len(headers) > _MAX_HEADERS:
            raise Hangup(_NO_HTTP)
    length = headers.get("content-length")
    if length is not None and not length.isdecimal():
        raise Hangup(_NO_HTTP)
    return Request(
        method=words[0].decode("latin-1"),
        target=words[1].decode("latin-1"),
        headers=headers,
        stream=stream,
        connection=connection,
        length=int(length) if length is not None else None,
        chunked=headers.get("transfer-encoding", "").lower() == "chunked",
    )


def head(status: int, headers: dict[str, str]) -> bytes:
    """The head of an answer, as bytes."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Answer')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def send_json(connection: socket.socket, status: int, value: object) -> None:
    """Send a whole answer with a JSON body."""
    body = json.dumps(value, separators=(",", ":")).encode()
    connection.sendall(head(status, {"Content-Type": "application/json", "Content-Length": str(len(body))}) + body)


class ChunkedAnswer:
    """An answer of unknown length; ``close`` ends it."""

    def __init__(self, connection: socket.socket, content_type: str) -> None:
        self._connection = connection
        fields = {"Content-Type": content_type, "Transfer-Encoding": "chunked", "Cache-Control": "no-store"}
        connection.sendall(head(200, fields))

    def send(self, data: bytes) -> None:
        """Send one piece of the answer now."""
        if data:
            self._connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def close(self) -> None:
        """End the answer with its last chunk."""
        self._connection.sendall(b"0\r\n\r\n")


_HEAD_LIMIT = 16 * 1024


def boundary_of(content_type: str) -> bytes:
    """The boundary line of a multipart body; empty for other bodies."""
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        return b""
    for parameter in rest.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "boundary" and value:
            return b"--" + value.strip('"').encode("latin-1")
    raise HttpError(400, "bad_request", "multipart without a boundary")


def first_part(pieces: Iterator[bytes], boundary: bytes) -> Iterator[bytes]:
    """The content of the first part; the rest is read and dropped.

    Raises:
        HttpError: 400, the body ends before the part does.
    """
    buffer = b""
    for piece in pieces:
        buffer += piece
        if b"\r\n\r\n" in buffer or len(buffer) > _HEAD_LIMIT:
            break
    part_head, _, buffer = buffer.partition(b"\r\n\r\n")
    if not part_head.startswith(boundary):
        raise HttpError(400, "bad_request", "the body does not begin with its boundary")
    end = b"\r\n" + boundary
    while end not in buffer:
        # The boundary may lie across two pieces: as much as could be its beginning is held back.
        sure, buffer = buffer[: -len(end)], buffer[-len(end) :]
        if sure:
            yield sure
        piece = next(pieces, b"")
        if not piece:
            raise HttpError(400, "bad_request", "the body ends within a part")
        buffer += piece
    yield buffer.partition(end)[0]
    for _ in pieces:
        pass
