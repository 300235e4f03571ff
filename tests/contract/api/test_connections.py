"""A user connects services over HTTP: the link, the browser that comes back, expiry, and the end."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.base.network.http import own_client
from hermesops.errors import UnavailableError
from hermesops.model.connections.connection import ConnectionState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.store.registry.schema.user_tables import mcp_access, user_connections
from hermesops.store.user_rows.connections import MOST_UNCLEANED, UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.vendor.composio.client import Link
from tests.support.suite.cases import each_case
from tests.support.users.api import Client, UsersApi
from tests.support.users.browser import Browser

SECTION = "/hermes-max/chat#/connections"


@pytest.fixture
async def browser(api: UsersApi) -> AsyncIterator[Browser]:
    async with own_client(timeout=30) as http:
        browser = Browser(http, api.process.parts.origin)
        await browser.sign_in()
        yield browser


async def shown(client: Client, service: str = "gmail") -> dict[str, Any]:
    answer = await client.ask("GET", "/connections")
    assert answer.status_code == 200, answer.text
    listed: list[dict[str, Any]] = answer.json()
    assert len(listed) == 14
    return next(each for each in listed if each["service"] == service)


async def connected(api: UsersApi, browser: Browser, service: str = "gmail") -> None:
    response = await browser.change("POST", f"/connections/{service}")
    assert response.status_code == 200, response.text
    back = await browser.ask("GET", api.composio.agree(response.json()["auth_url"]))
    assert (back.status_code, back.headers["location"]) == (303, SECTION)


def states(api: UsersApi) -> list[str]:
    with api.all_rows.reading() as connection:
        return sorted(connection.scalars(sa.select(user_connections.c.state)))


async def test_a_user_connects_a_service_and_disconnects_it(api: UsersApi, ada: Client, browser: Browser) -> None:
    assert await shown(ada) == {
        "service": "gmail",
        "title": "Gmail",
        "purpose": "read and send mail",
        "offered": True,
        "state": "none",
        "since": None,
        "detail": "",
    }
    response = await browser.change("POST", "/connections/gmail")
    assert (await shown(ada))["state"] == "pending"
    back = await browser.ask("GET", api.composio.agree(response.json()["auth_url"]))
    assert (back.status_code, back.headers["location"]) == (303, SECTION)
    assert (await shown(ada))["state"] == "active"
    [account] = api.composio.accounts.values()
    assert (account.user, account.toolkit) == (api.ada.id, "gmail")
    assert (await browser.change("DELETE", "/connections/gmail")).status_code == 204
    assert api.composio.revoked == [account.id]
    assert not api.composio.accounts
    assert (await shown(ada))["state"] == "none"
    assert states(api) == []
    assert (await browser.change("DELETE", "/connections/gmail")).status_code == 204


async def test_a_link_works_once(api: UsersApi, browser: Browser) -> None:
    response = await browser.change("POST", "/connections/gmail")
    back = api.composio.agree(response.json()["auth_url"])
    for _ in range(3):
        assert (await browser.ask("GET", back)).headers["location"] == SECTION
    assert states(api) == ["linked"]
    [account] = api.composio.accounts.values()
    assert account.status == "ACTIVE"
    assert not api.composio.revoked


async def test_a_link_that_another_user_goes_through_gives_their_account_to_nobody(
    api: UsersApi, ada: Client, browser: Browser
) -> None:
    response = await browser.change("POST", "/connections/gmail")
    back = api.composio.agree(response.json()["auth_url"])
    api.relay.agent("grace", "http://127.0.0.1:9")
    async with own_client(timeout=30) as http:
        grace = Browser(http, browser.origin)
        await grace.sign_in("grace")
        assert (await grace.ask("GET", back)).headers["location"] == SECTION
    assert not api.composio.accounts
    assert len(api.composio.revoked) == 1
    await browser.ask("GET", back)
    assert (await shown(ada))["state"] == "none"


async def test_another_session_of_the_same_user_is_another_browser(api: UsersApi, browser: Browser) -> None:
    response = await browser.change("POST", "/connections/gmail")
    async with own_client(timeout=30) as http:
        other = Browser(http, browser.origin)
        await other.sign_in()
        await other.ask("GET", api.composio.agree(response.json()["auth_url"]))
    assert states(api) == []
    assert not api.composio.accounts


async def test_a_browser_that_is_signed_out_uses_nothing_up(api: UsersApi, browser: Browser) -> None:
    response = await browser.change("POST", "/connections/gmail")
    back = api.composio.agree(response.json()["auth_url"])
    async with own_client(timeout=30) as http:
        assert (await Browser(http, browser.origin).ask("GET", back)).headers["location"] == SECTION
    assert states(api) == ["requested"]
    await browser.ask("GET", back)
    assert states(api) == ["linked"]


async def test_an_account_that_nobody_confirms_is_never_linked_and_goes_away(api: UsersApi, browser: Browser) -> None:
    response = await browser.change("POST", "/connections/gmail")
    api.composio.agree(response.json()["auth_url"])
    assert await api.upkeep.run() == {}
    api.relay.clock.turn(601)
    assert list((await api.upkeep.run()).values()) == [""]
    assert states(api) == []
    assert not api.composio.accounts
    assert len(api.composio.revoked) == 1


async def test_a_refusal_is_shown_and_can_be_tried_again(api: UsersApi, ada: Client, browser: Browser) -> None:
    response = await browser.change("POST", "/connections/gmail")
    await browser.ask("GET", api.composio.agree(response.json()["auth_url"], is_agreed=False))
    answer = await shown(ada)
    assert (answer["state"], answer["detail"]) == ("failed", "the service did not agree; connect it again")
    assert not api.composio.accounts
    await connected(api, browser)
    assert (await shown(ada))["state"] == "active"


async def test_an_expired_account_is_seen_and_seen_again_when_it_is_well(
    api: UsersApi, ada: Client, browser: Browser
) -> None:
    await connected(api, browser)
    [account] = api.composio.accounts.values()
    assert await api.upkeep.run() == {}
    account.status = "EXPIRED"
    api.relay.clock.turn(601)
    await api.upkeep.run()
    answer = await shown(ada)
    assert (answer["state"], answer["detail"]) == (
        "expired",
        "the service no longer takes the sign-in; connect it again",
    )
    account.status = "ACTIVE"
    api.relay.clock.turn(601)
    await api.upkeep.run()
    assert (await shown(ada))["state"] == "active"


async def test_connecting_again_replaces_the_account_before(api: UsersApi, browser: Browser) -> None:
    await connected(api, browser)
    [before] = api.composio.accounts
    api.composio.expire(before)
    api.relay.clock.turn(601)
    await api.upkeep.run()
    await connected(api, browser)
    api.relay.clock.turn(11)
    await api.upkeep.run()
    assert states(api) == ["linked"]
    assert before not in api.composio.accounts
    assert len(api.composio.accounts) == 1


async def test_the_agents_access_ends_though_the_vendor_is_away_and_the_rest_follows(
    api: UsersApi, ada: Client, browser: Browser
) -> None:
    await connected(api, browser)
    accounts = dict(api.composio.accounts)
    most, api.composio.most = api.composio.most, 0
    assert (await browser.change("DELETE", "/connections/gmail")).status_code == 204
    assert (await shown(ada))["state"] == "none"
    assert states(api) == ["revoking"]
    assert api.composio.accounts == accounts
    api.composio.most = most
    api.relay.clock.turn(61)
    await api.upkeep.run()
    assert states(api) == []
    assert not api.composio.accounts


async def test_a_terminated_agents_connections_go_away(api: UsersApi, browser: Browser) -> None:
    await connected(api, browser)
    await browser.change("POST", "/connections/slack")
    api.relay.registry.terminations.terminate(api.ada.id)
    api.relay.clock.turn(11)
    for _ in range(2):
        await api.upkeep.run()
    assert states(api) == []
    assert not api.composio.accounts


async def test_a_link_that_nobody_got_leaves_nothing(api: UsersApi, browser: Browser) -> None:
    """The answer with the account's id is lost: the vendor has an account that no row names."""
    rows = UserConnections(api.all_rows)
    await connected(api, browser)
    [linked] = api.composio.accounts
    with pytest.raises(UnavailableError, match="gave no link"):
        await lost_link(api)
    assert len(api.composio.accounts) == 2
    assert sorted(row.account for row in rows.of_user(api.ada.user_id)) == ["", linked]
    api.relay.clock.turn(601)
    await api.upkeep.run()
    assert list(api.composio.accounts) == [linked]
    assert states(api) == ["linked"]


async def lost_link(api: UsersApi) -> None:
    service = api.process.parts.connections
    assert service is not None
    link = service.vendor.link

    async def lost(user: str, auth_config: str, callback_url: str) -> Link:
        await link(user, auth_config, callback_url)
        raise UnavailableError("lost")

    service.vendor.link = lost  # type: ignore[method-assign]
    try:
        await service.begin(api.ada.user_id, "slack", "")
    finally:
        service.vendor.link = link  # type: ignore[method-assign]


async def test_ended_connections_are_bounded(api: UsersApi, browser: Browser) -> None:
    api.process.parts.limits._monotonic = count(step=100).__next__
    answers = [await browser.change("POST", "/connections/gmail") for _ in range(MOST_UNCLEANED + 2)]
    assert [answer.status_code for answer in answers[-2:]] == [200, 409]
    assert answers[-1].json()["code"] == "too-many-connections"
    api.relay.clock.turn(11)
    await api.upkeep.run()
    assert len(api.composio.accounts) == 1
    assert (await browser.change("POST", "/connections/gmail")).status_code == 200


@each_case("service", ["hubspot", "myspace", "x" * 65, "../gmail"], ids=lambda service: service[:12])
async def test_a_service_that_is_not_offered_is_refused(api: UsersApi, service: str) -> None:
    async with api.client() as client:
        answer = await client.ask("POST", f"/connections/{service}")
        assert answer.status_code in {404, 422}, answer.text
    assert not api.composio.accounts


async def test_another_sites_page_can_neither_connect_nor_disconnect(api: UsersApi, browser: Browser) -> None:
    await connected(api, browser)
    for method in ("POST", "DELETE"):
        answer = await browser.ask(
            method, f"{browser.origin}/api/hermes/connections/gmail", headers={"origin": "https://evil.test"}
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign-request")
    assert states(api) == ["linked"]


async def test_a_state_that_is_none_changes_nothing(api: UsersApi, browser: Browser) -> None:
    await browser.change("POST", "/connections/gmail")
    for state in ("x" * 43, "A" * 43):
        answer = await browser.ask("GET", f"{browser.origin}/hermes-max/connections/callback/{state}")
        assert answer.headers["location"] == SECTION
    for state in ("x", "x" * 44, "%2e%2e"):
        answer = await browser.ask("GET", f"{browser.origin}/hermes-max/connections/callback/{state}")
        assert answer.status_code in {404, 422}
    assert states(api) == ["requested"]
    assert api.composio


async def test_rows_have_neither_the_state_nor_a_token(api: UsersApi, ada: Client) -> None:
    response = await ada.ask("POST", "/connections/gmail")
    [account] = api.composio.accounts.values()
    state = account.callback_url.rpartition("/")[2]
    api.composio.agree(response.json()["auth_url"])
    token = McpAccesses(api.all_rows).grant(api.ada.id)
    with api.all_rows.reading() as connection:
        rows = [*connection.execute(sa.select(user_connections)), *connection.execute(sa.select(mcp_access))]
    assert len(rows) == 2
    for secret in (state, token, account.token, api.composio.key):
        assert secret not in str(rows)


async def test_a_suspended_agents_connections_are_kept(api: UsersApi, ada: Client, browser: Browser) -> None:
    await connected(api, browser)
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.SUSPENDED)
    api.relay.clock.turn(601)
    await api.upkeep.run()
    assert (await shown(ada))["state"] == "active"
    rows = UserConnections(api.all_rows)
    assert rows.counts() == {ConnectionState.LINKED: 1}


async def test_without_a_project_at_the_vendor_there_is_no_such_thing(api: UsersApi, ada: Client) -> None:
    object.__setattr__(api.process.parts, "connections", None)
    answer = await ada.ask("GET", "/connections")
    assert answer.status_code == 501
