"""The proxy for a browser answers nobody but the browser that got its address, and serves one service alone."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from hermesops.base.network.http import blank_context
from hermesops.base.waiting import cancel
from hermesops.errors import RefusedError, UnavailableError
from hermesops.observability.browser import LOOPBACK, BrowserGate, BrowserProxy, require_service
from hermesops.serving.exchange import Head, RefusedRequestError

AUTHORITY = "127.0.0.1:4711"
OWN = {"host": AUTHORITY}


def head(target: str = "/grafana/", method: str = "GET", **headers: str) -> Head:
    given = {**OWN, **headers}
    return Head(method, target, tuple(given.items()), 0)


def opened() -> tuple[BrowserGate, str]:
    """A gate whose token was used, and the cookie that it gave."""
    gate = BrowserGate(AUTHORITY, "/grafana/")
    cookie = gate.admit(head(gate.url.removeprefix(f"http://{AUTHORITY}")))
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    return gate, cookie.partition(";")[0]


def refused(gate: BrowserGate, question: Head) -> str:
    with pytest.raises(RefusedRequestError) as caught:
        gate.admit(question)
    return caught.value.code


def test_the_token_counts_once() -> None:
    gate = BrowserGate(AUTHORITY, "/grafana/")
    target = gate.url.removeprefix(f"http://{AUTHORITY}")
    assert refused(gate, head("/?token=wrong")) == "wrong_token"
    assert refused(gate, head("/?other=x")) == "wrong_token"
    gate.admit(head(target))
    for used in (target, "/?token=", "/?x"):
        assert refused(gate, head(used)) == "wrong_token"


def test_only_the_browser_with_the_cookie_is_served_and_only_by_its_address() -> None:
    gate, cookie = opened()
    assert gate.admit(head("/grafana/d/x?a=..", cookie=f"a=b; {cookie}")) == ""
    name = cookie.partition("=")[0]
    cases = {
        "no_cookie": [head(), head(cookie="x"), head(cookie=f"{name}="), head(cookie=f"{name}=\xff"), head("/")],
        "wrong_host": [head(host="evil.example:4711", cookie=cookie), head(host="127.0.0.1", cookie=cookie)],
        "foreign": [
            head(method="POST", cookie=cookie),
            head(method="POST", cookie=cookie, origin="http://127.0.0.1:1"),
            head(cookie=cookie, origin="null"),
        ],
        "method": [head(method=method, cookie=cookie) for method in ("DELETE", "PUT", "CONNECT")],
        "not_there": [
            head(target, cookie=cookie)
            for target in (
                "/prometheus/api/v1/query",
                "/grafana",
                "/grafana/../loki/x",
                "/grafana/%2e%2e/x",
                "/grafana//x",
            )
        ],
    }
    for code, questions in cases.items():
        for question in questions:
            assert refused(gate, question) == code, question
    assert gate.admit(head(method="POST", cookie=cookie, origin=f"http://{AUTHORITY}")) == ""


@asynccontextmanager
async def monitoring(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers every request so, and the heads that it got."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    async with server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", heads


@asynccontextmanager
async def proxy(base_url: str) -> AsyncIterator[tuple[BrowserGate, httpx.AsyncClient]]:
    listener = socket.create_server((LOOPBACK, 0))
    listener.setblocking(False)
    gate = BrowserGate(f"{LOOPBACK}:{listener.getsockname()[1]}", "/grafana/")
    serving = asyncio.ensure_future(BrowserProxy(base_url, blank_context, gate).serve(listener))
    async with httpx.AsyncClient(base_url=f"http://{gate.authority}", trust_env=False) as browser:
        try:
            yield gate, browser
        finally:
            await cancel(serving)


async def test_a_browser_gets_the_answer_and_nothing_of_it_that_leads_elsewhere() -> None:
    fields = b"Content-Type: text/html\r\nSet-Cookie: a=b\r\nLocation: https://x\r\nContent-Length: 5"
    answer = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\nhello"
    async with monitoring(answer) as (base_url, heads), proxy(base_url) as (gate, browser):
        assert (await browser.get("/grafana/")).status_code == 403
        entered = await browser.get(gate.url)
        assert (entered.status_code, entered.headers["location"]) == (303, "/grafana/")
        shown = await browser.get("/grafana/d/fleet?x=1", headers={"authorization": "secret", "x-grafana-org-id": "1"})
        assert (shown.status_code, shown.text, shown.headers["content-type"]) == (200, "hello", "text/html")
        assert not {"location", "set-cookie"} & set(shown.headers)
        assert (await browser.get(gate.url)).status_code == 403
    [output] = heads
    assert output.startswith(b"GET /grafana/d/fleet?x=1 HTTP/1.1")
    assert b"x-grafana-org-id: 1" in output
    assert not [word for word in (b"secret", b"cookie", b"hermesops-") if word in output.lower()]


async def test_monitoring_that_does_not_answer_is_said() -> None:
    async with proxy(f"http://{LOOPBACK}:9") as (gate, browser):
        await browser.get(gate.url)
        failed = await browser.get("/grafana/")
        assert (failed.status_code, json.loads(failed.text)) == (
            502,
            {"error": "monitoring gives no answer: ConnectError"},
        )


async def test_where_there_is_no_grafana_the_command_says_what_else_there_is() -> None:
    tls = blank_context()
    async with monitoring(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as (base_url, _):
        with pytest.raises(RefusedError, match="serves no grafana"):
            await require_service(base_url, tls, "/grafana/")
    async with monitoring(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n") as (base_url, _):
        await require_service(base_url, tls, "/grafana/")
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9"):
        await require_service(f"http://{LOOPBACK}:9", tls, "/grafana/")
