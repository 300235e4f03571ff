"""The client of Composio against the local one, and against answers that no vendor of good will gives."""

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.localcloud.vendors.composio.composio import LINK_S, LocalComposio
from hermesops.model.connections.connection import AccountStatus
from hermesops.vendor.composio import client as composio_client
from hermesops.vendor.composio.client import Composio, NoSuchAccountError, NotRevocableError, rest_of
from tests.support.real.relay import HOST
from tests.support.suite.cases import each_case
from tests.support.users.api import served

KEY = "ak_of_this_test"
CALLBACK = "https://pages.test/callback/state"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def vendor(clock: Clock, tmp_path: Path) -> AsyncIterator[LocalComposio]:
    listener = socket.create_server((HOST, 0))
    url = f"http://{HOST}:{listener.getsockname()[1]}/composio"
    vendor = LocalComposio(url, key=KEY, most=20, clock=clock, file=tmp_path / "composio.json")
    async with served(Starlette(routes=[Mount("/composio", routes=vendor.routes())]), listener):
        yield vendor


@pytest.fixture
def composio(vendor: LocalComposio, clock: Clock) -> Composio:
    return Composio(lambda: KEY, vendor.url, clock)


async def test_a_link_becomes_an_account_that_is_revoked_and_deleted(composio: Composio, vendor: LocalComposio) -> None:
    link = await composio.link("i-1", "ac_gmail", CALLBACK)
    assert (await composio.account(link.account)).status is AccountStatus.PENDING
    assert link.expires_at.timestamp() == vendor.clock() + LINK_S
    back = vendor.agree(link.url)
    assert back == f"{CALLBACK}?status=success&connected_account_id={link.account}"
    account = await composio.account(link.account)
    assert (account.status, account.service, account.user) == (AccountStatus.ACTIVE, "gmail", "i-1")
    assert account.scopes == ("gmail.read",)
    assert [each.id for each in await composio.accounts_of("i-1")] == [link.account]
    assert await composio.accounts_of("i-2") == ()
    async with own_client(base_url=vendor.url, headers={"x-api-key": KEY}, timeout=10) as http:
        listed = (await http.get("/api/v3.1/connected_accounts")).json()["items"]
    assert [each["id"] for each in listed] == [link.account], "of all users"
    await composio.revoke(link.account)
    await composio.revoke(link.account)
    assert (await composio.account(link.account)).status is AccountStatus.STOPPED
    await composio.delete(link.account)
    await composio.delete(link.account)
    assert (await composio.account(link.account)).status is AccountStatus.GONE
    with pytest.raises(NoSuchAccountError, match="no such thing"):
        await composio.revoke(link.account)


async def test_no_token_of_a_service_is_read(composio: Composio, vendor: LocalComposio) -> None:
    link = await composio.link("i-1", "ac_gmail", CALLBACK)
    vendor.agree(link.url)
    account = await composio.account(link.account)
    assert vendor.accounts[link.account].token not in str(vars(account))


async def test_an_account_that_is_not_active_and_a_service_that_cannot_are_not_revoked(
    composio: Composio, vendor: LocalComposio
) -> None:
    pending = await composio.link("i-1", "ac_gmail", CALLBACK)
    with pytest.raises(NotRevocableError, match="revokes nothing"):
        await composio.revoke(pending.account)
    other = await composio.link("i-1", "ac_airtable", CALLBACK)
    vendor.agree(other.url)
    with pytest.raises(NotRevocableError, match="revokes nothing"):
        await composio.revoke(other.account)


async def test_a_session_has_the_accounts_of_its_user_alone(composio: Composio, vendor: LocalComposio) -> None:
    link = await composio.link("i-1", "ac_gmail", CALLBACK)
    vendor.agree(link.url)
    session = await composio.open_session("i-1", {"gmail": [link.account]})
    assert session.url == f"{vendor.url}/mcp/{session.id}"
    with pytest.raises(RefusedError, match="Connected account not found"):
        await composio.open_session("i-2", {"gmail": [link.account]})
    await composio.end_session(session.id)
    await composio.end_session(session.id)
    assert not vendor.sessions


async def test_accounts_and_sessions_outlive_the_world_s_server(
    composio: Composio, vendor: LocalComposio, clock: Clock
) -> None:
    link, pending = [await composio.link("i-1", "ac_gmail", CALLBACK) for _ in range(2)]
    vendor.agree(link.url)
    session = await composio.open_session("i-1", {"gmail": [link.account]})
    assert vendor.file
    again = LocalComposio(vendor.url, key=KEY, clock=clock, file=vendor.file)
    assert (again.accounts, set(again.sessions)) == (vendor.accounts, {session.id})
    assert again.sessions[session.id].accounts == {"gmail": (link.account,)}
    assert "status=success" in again.agree(pending.url)
    await composio.end_session(session.id)
    await composio.revoke(link.account)
    later = LocalComposio(vendor.url, key=KEY, clock=clock, file=vendor.file)
    assert (later.accounts[link.account].status, dict(later.sessions)) == ("REVOKED", {})


async def test_a_wrong_key_and_a_wrong_configuration_are_refused_with_what_to_do(vendor: LocalComposio) -> None:
    wrong = Composio(lambda: "ak_wrong", vendor.url)
    with pytest.raises(RefusedError, match=r"connections\.key") as refused:
        await wrong.account("ca_1")
    assert "ak_wrong" not in f"{refused.value}{refused.value.hint}"
    with pytest.raises(RefusedError, match="Auth config not found"):
        await Composio(lambda: KEY, vendor.url).link("i-1", "ac_other", CALLBACK)


async def test_a_limit_is_kept_without_another_request(composio: Composio, vendor: LocalComposio, clock: Clock) -> None:
    for _ in range(vendor.most):
        await composio.account("ca_1")
    for _ in range(5):
        with pytest.raises(UnavailableError, match="no more requests"):
            await composio.account("ca_1")
    assert vendor.requests.total() == vendor.most + 1
    clock.now += 61
    await composio.account("ca_1")


@each_case(
    "header, seconds", [("7", 7), ("0", 1), ("99999", 600), ("-1", 60), ("soon", 60), ("9" * 40, 60), ("", 60)], ids=str
)
def test_a_wait_is_bounded(header: str, seconds: int) -> None:
    assert rest_of(header) == seconds


LINK = {"connected_account_id": "ca_1", "redirect_url": "https://service.test/", "expires_at": "2026-01-01T00:00:00Z"}
SESSION = {"session_id": "s", "mcp": {"url": "SELF/mcp/s"}}


@asynccontextmanager
async def answering(answer: Callable[[Request], Response]) -> AsyncIterator[Composio]:
    async def any_answer(request: Request) -> Response:
        return answer(request)

    routes = [Route("/{path:path}", any_answer, methods=["GET", "POST", "DELETE"])]
    async with served(Starlette(routes=routes)) as url:
        yield Composio(lambda: KEY, url)


@each_case(
    "changes",
    [
        {"connected_account_id": "../../x"},
        {"connected_account_id": ["ca_1"]},
        {"connected_account_id": ""},
        {"redirect_url": "javascript:alert(1)"},
        {"redirect_url": "http://service.test/"},
        {"redirect_url": "https://service.test/\nx"},
        {"redirect_url": f"https://service.test/{'x' * 5000}"},
        {"redirect_url": None},
        {"expires_at": "soon"},
        {"expires_at": 7},
    ],
    ids=lambda changes: str(changes)[:60],
)
async def test_a_link_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    async with answering(lambda _: Response(json.dumps({**LINK, **changes}))) as composio:
        with pytest.raises(UnavailableError, match="no usable"):
            await composio.link("i-1", "ac_1", CALLBACK)


@each_case("url", ["https://elsewhere.test/mcp", "http://127.0.0.1:1/mcp", "//x", "", None, "SELF@evil.test/"], ids=str)
async def test_the_key_goes_to_no_other_origin(url: str | None) -> None:
    def answer(request: Request) -> Response:
        own = f"http://{request.headers['host']}"
        mcp = {"url": url.replace("SELF", own) if url else url}
        return Response(json.dumps({**SESSION, "mcp": mcp}))

    async with answering(answer) as composio:
        with pytest.raises(UnavailableError, match="no usable address"):
            await composio.open_session("i-1", {})


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 65536
        await pause(0)


async def silent() -> AsyncIterator[bytes]:
    yield b"{"
    await pause(30)


@each_case(
    "answer",
    [
        lambda _: RedirectResponse("https://elsewhere.test/"),
        lambda _: StreamingResponse(endless()),
        lambda _: StreamingResponse(silent()),
        lambda _: Response(b"{}", headers={"content-encoding": "gzip"}),
        lambda _: Response(b"<html>"),
        lambda _: Response(b"[]"),
        lambda _: Response(b'{"a": 1, "a": 2}'),
        lambda _: Response(b"{}", 500),
    ],
    ids=["redirect", "endless", "silent", "packed", "html", "list", "twice", "500"],
)
async def test_a_read_is_safe_to_repeat_and_a_change_may_have_happened(
    answer: Callable[[Request], Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composio_client, "_TIME_S", 0.5)
    async with answering(answer) as composio:
        with pytest.raises(UnavailableError, match="Composio does not answer: "):
            await composio.account("ca_1")
        with pytest.raises(UnknownOutcomeError, match="Composio's answer was lost: "):
            await composio.revoke("ca_1")


async def test_words_of_a_refusal_are_one_line_without_the_key() -> None:
    def answer(_request: Request) -> Response:
        return Response(json.dumps({"error": {"message": f"a\x1b[31m\nb{'x' * 9999}"}}), 422)

    async with answering(answer) as composio:
        with pytest.raises(HermesError) as refused:
            await composio.link("i-1", "ac_1", CALLBACK)
    assert len(refused.value.message) < 200
    assert "\n" not in refused.value.message
    assert "\x1b" not in refused.value.message


async def test_nobody_there_is_nothing_sent() -> None:
    with socket.create_server((HOST, 0)) as listener:
        url = f"http://{HOST}:{listener.getsockname()[1]}"
    with pytest.raises(UnavailableError, match="ConnectError"):
        await Composio(lambda: KEY, url).revoke("ca_1")
