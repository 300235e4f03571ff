"""Pages sign in at the issuer, keep a cookie and no token, and are safe from other sites."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from hermesops.api.pages_served import CONTENT_SECURITY_POLICY
from hermesops.api.sign_in.page_sessions import COOKIE
from hermesops.base.network.http import own_client
from hermesops.store.registry.schema.user_tables import web_sessions
from tests.support.real.stores.registries import KEYS
from tests.support.suite.cases import each_case
from tests.support.users.api import UsersApi
from tests.support.users.browser import Browser


@pytest.fixture
async def browser(api: UsersApi) -> AsyncIterator[Browser]:
    async with own_client(timeout=30) as http:
        yield Browser(http, api.process.parts.origin)


async def test_a_page_signs_in_with_one_click_and_holds_no_token(api: UsersApi, browser: Browser) -> None:
    first = await browser.ask("GET", f"{browser.origin}/hermes-max/chat")
    assert (first.status_code, first.headers["location"]) == (303, "/hermes-max/sign-in")
    await browser.sign_in()
    assert set(browser.cookies) == {COOKIE}
    assert (await browser.me()).json() == {"user": api.ada.user_id, "display_name": "ada"}
    page = await browser.ask("GET", f"{browser.origin}/hermes-max/chat")
    assert page.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert page.headers["cache-control"] == "no-cache"
    with api.all_rows.reading() as connection:
        [row] = connection.execute(web_sessions.select()).all()
    assert browser.cookies[COOKIE] not in str(row)
    assert "eyJ" not in str(row)  # no token in clear


async def test_a_page_of_another_site_changes_nothing(browser: Browser) -> None:
    await browser.sign_in()
    right = {"origin": browser.origin, "x_hermes_request": "1"}
    assert (await browser.stop(**right)).status_code == 404
    for wrong in (
        {},
        {**right, "origin": "https://evil.test"},
        {**right, "origin": "null"},
        {**right, "x_hermes_request": "0"},
        {"origin": browser.origin},
        {"x_hermes_request": "1"},
        {**right, "sec_fetch_site": "cross-site"},
        {**right, "sec_fetch_site": "same-site"},
    ):
        answer = await browser.stop(**wrong)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign-request"), wrong
    assert (await browser.me(**{"sec-fetch-site": "cross-site"})).status_code == 403
    assert (await browser.me(**{"sec-fetch-site": "same-origin"})).status_code == 200


async def test_a_sign_in_belongs_to_the_browser_that_began_it(api: UsersApi, browser: Browser) -> None:
    url = await browser.authorize()
    async with own_client(timeout=30) as http:
        victim = Browser(http, browser.origin)
        assert (await victim.ask("GET", url)).status_code == 401
        await victim.ask("GET", f"{browser.origin}/hermes-max/sign-in")  # a sign-in of its own
        assert (await victim.ask("GET", url)).status_code == 401
        assert COOKIE not in victim.cookies
    wrong = url.replace("state=", "state=x")
    assert (await browser.ask("GET", wrong)).status_code == 401
    assert (await browser.ask("GET", url)).status_code == 303
    browser.cookies.pop(COOKIE)
    assert (await browser.ask("GET", url)).status_code == 401  # its sign-in has ended
    assert api.ada


async def test_a_code_counts_once_and_needs_its_verifier(api: UsersApi, browser: Browser) -> None:
    url = await browser.authorize()
    code = parse_qs(urlsplit(url).query)["code"][0]
    form = {
        "grant_type": "authorization_code",
        "client_id": "hermes-web",
        "code": code,
        "code_verifier": "x" * 43,
        "redirect_uri": f"{browser.origin}/hermes-max/sign-in/callback",
    }
    answer = await browser.http.post(f"{api.issuer.url}/token", data=form)
    assert (answer.status_code, answer.json()) == (400, {"error": "invalid_grant"})
    refused = await browser.ask("GET", url)
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")


async def test_an_expired_token_is_renewed_and_a_lost_refresh_ends_the_session(api: UsersApi, browser: Browser) -> None:
    await browser.sign_in()
    before = _tokens(api)
    api.process.parts.sessions._rows.renew(_session(api, browser), {**before, "access": api.token(exp=1)})
    assert (await browser.me()).status_code == 200
    after = _tokens(api)
    assert after["access"] not in {before["access"], ""}
    assert after["refresh"] != before["refresh"]
    stale = {**before, "access": api.token(exp=1)}  # its refresh token was used already
    api.process.parts.sessions._rows.renew(_session(api, browser), stale)
    assert (await browser.me()).status_code == 401
    assert (await browser.me()).json()["detail"] == "this session has ended; sign in again"


async def test_signing_out_ends_the_session_and_not_only_the_cookie(browser: Browser) -> None:
    await browser.sign_in()
    cookies = dict(browser.cookies)
    assert (await browser.ask("POST", f"{browser.origin}/hermes-max/sign-out")).status_code == 403
    right = {"origin": browser.origin, "x-hermes-request": "1"}
    assert (await browser.ask("POST", f"{browser.origin}/hermes-max/sign-out", headers=right)).status_code == 204
    assert browser.cookies == {}
    browser.cookies = cookies
    assert (await browser.me()).status_code == 401


async def test_a_bearer_counts_before_a_cookie(api: UsersApi, browser: Browser) -> None:
    await browser.sign_in()
    assert (await browser.me(authorization="Bearer nonsense")).status_code == 401
    mine = await browser.me(authorization=f"Bearer {api.token(api.user('grace'))}")
    assert mine.json()["display_name"] == "grace"


@each_case(
    "change",
    [
        {"redirect_uri": "https://evil.test/callback"},
        {"redirect_uri": "http://localhost.evil.test/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"client_id": "other"},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge": ""},
        {"state": ""},
        {"state": "x" * 4096},
    ],
    ids=str,
)
async def test_the_local_issuer_sends_nobody_elsewhere(api: UsersApi, browser: Browser, change: dict[str, str]) -> None:
    query = {
        "response_type": "code",
        "client_id": "hermes-web",
        "redirect_uri": f"{browser.origin}/hermes-max/sign-in/callback",
        "state": "s",
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
    }
    good = await browser.http.get(f"{api.issuer.url}/authorize", params=query)
    assert good.status_code == 200
    for method in ("GET", "POST"):
        options: dict[str, Any] = {"params": {**query, **change}} if method == "GET" else {"data": {**query, **change}}
        answer = await browser.http.request(method, f"{api.issuer.url}/authorize", **options)
        assert answer.status_code == 400, (method, change)


async def test_the_page_comes_only_from_its_folder(browser: Browser) -> None:
    for name in ("..%2fparts.py", "%2e%2e/parts.py", "nothing.js", ".."):
        answer = await browser.http.get(f"{browser.origin}/hermes-max/assets/{name}")
        assert answer.status_code == 404, name


def _tokens(api: UsersApi) -> dict[str, str]:
    with api.all_rows.reading() as connection:
        [id_] = connection.scalars(sa.select(web_sessions.c.id)).all()
        sealed = connection.execute(sa.select(web_sessions.c.tokens)).scalar_one()
    tokens: dict[str, str] = json.loads(KEYS.unseal(sealed, place=f"web_sessions/tokens/{id_}"))
    return tokens


def _session(api: UsersApi, browser: Browser) -> Any:  # noqa: ANN401 - a row
    return api.process.parts.sessions._rows.find(browser.cookies[COOKIE])
