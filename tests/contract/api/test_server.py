"""The listener: bytes that are no HTTP request are refused as everything else is, and the process serves others."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from hermesops.api.problems import MEDIA_TYPE
from tests.support.users.api import Client, UsersApi

_WITH = "POST /api/hermes/chat HTTP/1.1\r\nhost: {host}\r\n"
MALFORMED = {
    "a transfer coding without a name": _WITH + "transfer-encoding:\r\n\r\n",
    "an unknown transfer coding": _WITH + "transfer-encoding: gzip\r\n\r\n",
    "two lengths": _WITH + "content-length: 1\r\ncontent-length: 2\r\n\r\n",
    "a chunk without a length": _WITH + "transfer-encoding: chunked\r\n\r\nxyz\r\n",
    "a header without a name": _WITH + ": x\r\n\r\n",
    "no request": "\x16\x03\x01\r\n\r\n",
}


async def _answer(api: UsersApi, sent: str) -> tuple[str, dict[str, str], bytes]:
    """The status line, the headers and the body of the answer, after which the connection is closed."""
    address = urlsplit(api.process.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(sent.format(host=address.netloc).encode("latin-1"))
        async with asyncio.timeout(20):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status, *lines = head.decode("latin-1").split("\r\n")
    return status, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_is_refused_as_a_problem(api: UsersApi, ada: Client, sent: str) -> None:
    status, headers, body = await _answer(api, sent)
    problem = json.loads(body)
    assert status == "HTTP/1.1 400 Bad Request"
    assert (headers["content-type"], headers["connection"]) == (MEDIA_TYPE, "close")
    assert (problem["status"], problem["code"]) == (400, "bad-request")
    assert problem["request_id"] == headers["x-request-id"]
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert (await ada.ask("GET", "/me")).status_code == 200


async def test_a_body_that_is_malformed_behind_its_refusal_gets_no_second_one(
    api: UsersApi, caplog: pytest.LogCaptureFixture
) -> None:
    body = f"transfer-encoding: chunked\r\n\r\n200000\r\n{'x' * (1 << 21)}\r\nno length\r\n"
    status, _, rest = await _answer(api, _WITH + body)
    assert status == "HTTP/1.1 413 Request Entity Too Large"
    assert b"HTTP/1.1" not in rest
    assert not [record for record in caplog.records if record.exc_info]
