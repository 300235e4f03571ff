"""What an agent may answer that somebody else has taken over. Each mood is one way to do so.

Moods are endless where they can be: whoever reads one must end by itself. What they send is bounded by who reads it,
and by ``_MOST`` where nobody stops reading.

It imports the standard library only: ``hostile_hook`` brings it into real agents on real machines.
"""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from functools import cache

Write = Callable[[bytes], Awaitable[None]]
Mood = Callable[[Write], Awaitable[None]]

MOODS: dict[str, Mood] = {}

_MOST = 512 << 20
"""Bytes after which an endless answer ends all the same, for the sake of the computer that runs the tests."""

END = b""
"""Written, it closes the answering half of a connection."""

_DRIP_S = 0.05

ESCAPES = "ok\nhermes-node: all is well\x1b]52;c;Y3VybA==\x07\x1b[1A\x1b[2K\u202egpj.exe\u2066\x9b31m\r\x00\x7f"
"""What rewrites lines of a terminal, fills its clipboard, reorders what is read, or poses as a word of ours."""


@cache
def _zeros() -> bytes:
    """64 MiB that take 64 KiB."""
    return gzip.compress(bytes(64 << 20), 9)


def _mood(function: Mood) -> Mood:
    MOODS[function.__name__.strip("_")] = function
    return function


def _head(status: str = "200 OK", kind: str = "application/json", **more: str) -> bytes:
    names = {
        "Content-Type": kind,
        "Connection": "close",
        **{name.replace("_", "-"): text for name, text in more.items()},
    }
    lines = "".join(f"{name}: {text}\r\n" for name, text in names.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


async def _say(write: Write, body: bytes, **more: str) -> None:
    await write(_head(Content_Length=str(len(body)), **more) + body)


async def _repeat(write: Write, piece: bytes) -> None:
    for _ in range(_MOST // len(piece)):
        await write(piece)


async def _drip(write: Write, piece: bytes) -> None:
    while True:
        await write(piece)
        await asyncio.sleep(_DRIP_S)  # noqa: TID251 - it runs without hermesops, too


@_mood
async def _silent(_: Write) -> None:
    await asyncio.Event().wait()


@_mood
async def _hangs_up(_: Write) -> None:
    return


@_mood
async def _half_closed(write: Write) -> None:
    await write(_head(Content_Length="100") + b"{")
    await write(END)
    await asyncio.Event().wait()


@_mood
async def _half_closed_at_once(write: Write) -> None:
    await write(END)
    await asyncio.Event().wait()


@_mood
async def _wrong_kind(write: Write) -> None:
    await _say(write, b'{"status": "ok"}', kind="image/png; charset=\x1b[2J")


@_mood
async def _drips_head(write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await _drip(write, b"x")


@_mood
async def _drips_body(write: Write) -> None:
    await write(_head())
    await _drip(write, b" ")


@_mood
async def _drips_promised_body(write: Write) -> None:
    await write(_head(Content_Length="100000"))
    await _drip(write, b"{")


@_mood
async def _drips_chunks(write: Write) -> None:
    await write(_head(Transfer_Encoding="chunked"))
    await _drip(write, b"1\r\n \r\n")


@_mood
async def _drips_events(write: Write) -> None:
    await write(_head(kind="text/event-stream"))
    await _drip(write, b": still thinking\n\n")


@_mood
async def _endless_body(write: Write) -> None:
    await write(_head())
    await _repeat(write, b"[" + b" " * 65535)


@_mood
async def _endless_chunks(write: Write) -> None:
    await write(_head(Transfer_Encoding="chunked"))
    await _repeat(write, b"10000\r\n" + b"0" * 65536 + b"\r\n")


@_mood
async def _endless_line_of_events(write: Write) -> None:
    await write(_head(kind="text/event-stream") + b"data: ")
    await _repeat(write, b"x" * 65536)


@_mood
async def _endless_event(write: Write) -> None:
    await write(_head(kind="text/event-stream"))
    await _repeat(write, b"data: " + b"x" * 1000 + b"\n")


@_mood
async def _endless_events(write: Write) -> None:
    await write(_head(kind="text/event-stream"))
    await _repeat(write, b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n' * 100)


@_mood
async def _bomb(write: Write) -> None:
    await _say(write, _zeros(), Content_Encoding="gzip")


@_mood
async def _unknown_packing(write: Write) -> None:
    await _say(write, b"\x28\xb5\x2f\xfd", Content_Encoding="zstd, br")


@_mood
async def _many_headers(write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        await write(f"X-{number}: x\r\n".encode())
    await write(b"\r\n{}")


@_mood
async def _long_header(write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await _repeat(write, b"x" * 65536)


@_mood
async def _no_http(write: Write) -> None:
    await write(b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(range(256)))


@_mood
async def _lies_about_length(write: Write) -> None:
    await write(_head(Content_Length="10") + b"{}")


@_mood
async def _negative_length(write: Write) -> None:
    await write(_head(Content_Length="-1") + b"{}")


@_mood
async def _huge_length(write: Write) -> None:
    await write(_head(Content_Length="9" * 40) + b"{}")


@_mood
async def _bad_chunk(write: Write) -> None:
    await write(_head(Transfer_Encoding="chunked") + b"FFFFFFFFFFFFFFFFFF\r\nx\r\n")


@_mood
async def _redirect_elsewhere(write: Write) -> None:
    await _say(write, b"", status="307 Temporary Redirect", Location="http://127.0.0.1:9/steal")


@_mood
async def _html(write: Write) -> None:
    await _say(write, b"<html><script>alert(1)</script></html>", kind="text/html")


@_mood
async def _teapot(write: Write) -> None:
    await _say(write, json.dumps({"error": ESCAPES}).encode(), status="418 I'm a teapot\x1b[2J")


@_mood
async def _many_interim_answers(write: Write) -> None:
    for _ in range(100_000):
        await write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")


def _shape(name: str, body: str | bytes) -> None:
    data = body.encode() if isinstance(body, str) else body

    async def say(write: Write) -> None:
        await _say(write, data)

    MOODS[name] = say


SHAPES: dict[str, object] = {
    "null": None,
    "number": 7,
    "text": "ok",
    "list": [{"status": "ok"}],
    "list_in_readiness": {"status": "ok", "readiness": []},
    "text_in_checks": {"status": "ok", "readiness": {"checks": "all"}},
    "numbers_in_checks": {"status": "ok", "readiness": {"checks": {"background_queues": 7, "database": [1]}}},
    "object_in_status": {"status": {"status": "ok"}, "gateway_state": ["running"], "active_agents": {"a": 1}},
    "negative_counts": {"status": "ok", "active_agents": -5, "readiness": {"checks": {"background_queues": {"a": -1}}}},
    "huge_counts": {"status": "ok", "active_agents": 10**18},
    "list_in_platforms": {"status": "ok", "platforms": [1, 2]},
    "texts_in_platforms": {"status": "ok", "platforms": {"telegram": "connected"}},
    "choices_of_texts": {"choices": ["a", None, {"delta": 7}]},
    "escapes": {"status": ESCAPES, "gateway_state": ESCAPES, "error": {"code": ESCAPES}},
    "answer_from_the_future": {"status": "ok", "at": "9999-12-31T23:59:59Z"},
    "answer_from_the_past": {"status": "ok", "at": "0001-01-01T00:00:00Z"},
}
"""Bodies that are JSON, and not what anybody asked for."""

for _name, _value in SHAPES.items():
    _shape(_name, json.dumps(_value))

_shape("empty", b"")
_shape("not_utf8", b'{"status": "\xff\xfe"}')
_shape("surrogate", '{"status": "\\ud800"}')
_shape("deep", "[" * 200_000)
_shape("deep_and_closed", "[" * 500 + "]" * 500)
_shape("not_a_number", '{"status": "ok", "active_agents": NaN}')
_shape("infinite", '{"status": "ok", "active_agents": 1e400}')
_shape("thousand_digits", '{"status": "ok", "active_agents": ' + "9" * 5000 + "}")
_shape("status_twice", '{"status": "ok", "status": "error"}')
_shape("event_of_a_list", b'data: {"choices": [[]]}\n\ndata: [1]\n\ndata: "x"\n\n')
