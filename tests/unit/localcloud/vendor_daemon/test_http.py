"""The daemon's HTTP, fed from one end of a socket pair."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hermesops.localcloud.vendor_daemon.http import Hangup, HttpError, Request, read_request, send_json
from tests.support.suite.cases import each_case


@contextmanager
def received(*data: bytes) -> Iterator[Request]:
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as stream:
        ours.sendall(b"".join(data))
        ours.shutdown(socket.SHUT_WR)
        yield read_request(stream, theirs)


def test_path_and_query_are_decoded() -> None:
    with received(b"GET /toolbox/files?path=%2Fsrv%2Fa%20b&depth=2 HTTP/1.1\r\nHost: x\r\n\r\n") as request:
        assert (request.method, request.path) == ("GET", "/toolbox/files")
        assert request.query == {"path": "/srv/a b", "depth": "2"}
        assert list(request.body()) == []


def test_a_body_of_known_length_ends_there() -> None:
    with received(b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\n\r\n") as request:
        assert b"".join(request.body()) == b"hello"
        assert read_request(request.stream, request.connection).path == "/next"


def test_a_chunked_body_is_put_together_and_its_trailer_skipped() -> None:
    chunks = b"3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nTrailer: x\r\n\r\nGET /next HTTP/1.1\r\n\r\n"
    with received(b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", chunks) as request:
        assert b"".join(request.body()) == b"abcdefg"
        assert read_request(request.stream, request.connection).path == "/next"


@each_case(
    ("data", "reason"),
    [
        (b"", "went away"),
        (b"nonsense\r\n\r\n", "no HTTP"),
        (b"GET / HTTP/1.1\r\nHost", "went away"),
        (b"GET / HTTP/2\r\n\r\n", "no HTTP"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "no HTTP"),
    ],
)
def test_a_peer_that_speaks_no_http_is_hung_up_on(data: bytes, reason: str) -> None:
    with pytest.raises(Hangup, match=reason), received(data):
        pass


@pytest.mark.parametrize("framing", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
def test_a_body_that_breaks_off_is_not_mistaken_for_a_whole_one(framing: bytes) -> None:
    with (
        received(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n9\r\nhalf") as request,
        pytest.raises(Hangup, match="went away"),
    ):
        list(request.body())


@pytest.mark.parametrize(
    ("body", "reason"), [(b"{", "Expecting property"), (b"[1]", "must be a JSON object"), (b"\xff", "can't decode")]
)
def test_a_body_that_is_no_object_is_refused(body: bytes, reason: str) -> None:
    head = f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with received(head, body) as request, pytest.raises(HttpError, match=reason) as caught:
        request.json()
    assert (caught.value.status, caught.value.code) == (400, "bad_json")


def test_an_answer_is_framed_by_its_length() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_json(theirs, 409, {"error": "ü", "code": "exists"})
        head, _, body = ours.recv(4096).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 409 Conflict\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body) == {"error": "ü", "code": "exists"}
