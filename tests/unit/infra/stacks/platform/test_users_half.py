"""The users' half of a platform on AWS, as its settings name it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hermesops.api.routes.sign_in import CALLBACK
from hermesops.errors import UsageError
from hermesops.infra.stacks.platform.spec import PlatformSpec
from hermesops.infra.stacks.platform.users_half import SIGNED_IN, TABLES, UsersHalf, tables_of, users_half
from hermesops.platform.parts.control import _OF_USERS
from tests.support.platform.environments import spec_of
from tests.support.suite.cases import each_case

HOST = "app.staging.hermes.example"
ORIGIN = f"https://{HOST}"
ISSUER = {
    name: f"the {name}" for name in ("issuer", "issuer_kind", "client_id", "keys_url", "authorize_url", "token_url")
}


def spec(settings: Mapping[str, Any]) -> PlatformSpec:
    """Staging with these settings; its domain is staging.hermes.example."""
    return replace(spec_of("staging"), settings=settings)


def half(settings: Mapping[str, Any]) -> UsersHalf:
    """The users' half, which is there."""
    users = users_half(spec(settings))
    assert users
    return users


def test_a_platform_serves_users_where_its_settings_name_the_address_of_pages() -> None:
    assert users_half(spec({})) is None
    assert users_half(spec({"web": {"denied": "x"}, "connections": {"services": "gmail=ac_1"}})) is None
    users = half({"web": {"origin": ORIGIN}})
    assert (users.host, users.agents_url, users.has_issuer) == (HOST, "", False)
    assert users.links == {"chat_page": f"{ORIGIN}/hermes-max/chat", "api": f"{ORIGIN}/api/hermes"}


def test_agents_call_the_same_name_once_a_service_is_offered() -> None:
    offered = {"services": "gmail=ac_1"}
    users = half({"web": {"origin": ORIGIN}, "connections": offered})
    assert users.links["agents"] == f"{ORIGIN}/mcp"
    own = half({"web": {"origin": ORIGIN}, "connections": {**offered, "agents_url": f"{ORIGIN}/mcp"}})
    assert own == users


def test_agents_open_sockets_at_the_same_name_once_there_is_a_bot() -> None:
    users = half({"web": {"origin": ORIGIN}, "messengers": {"telegram_bot": "our_bot"}})
    assert users.links["sockets"] == f"{ORIGIN}/relay"
    assert "sockets" not in half({"web": {"origin": ORIGIN}, "messengers": {"agents_url": ORIGIN}}).links
    elsewhere = {"telegram_bot": "our_bot", "agents_url": "https://other.example"}
    with pytest.raises(UsageError, match=r"messengers\.agents_url is https://other\.example, and the load balancer"):
        half({"web": {"origin": ORIGIN}, "messengers": elsewhere})


@each_case(
    ("web", "connections", "expected"),
    [
        ({"origin": "https://app.example"}, {}, "web.origin is https://app.example, and users"),
        ({"origin": "https://staging.hermes.example"}, {}, "under a name below staging.hermes.example"),
        ({"origin": "https://auth.staging.hermes.example"}, {}, "that is not auth.staging.hermes.example"),
        ({"origin": f"{ORIGIN}:8449"}, {}, "a load balancer on port 443"),
        ({"origin": "https://evilstaging.hermes.example"}, {}, "web.origin is"),
        ({"origin": ORIGIN}, {"services": "a=b", "agents_url": "https://mcp.example/mcp"}, "a certificate for app"),
        ({"origin": ORIGIN}, {"services": "a=b", "agents_url": f"{ORIGIN}:8449/mcp"}, "connections.agents_url is"),
    ],
)
def test_names_that_no_load_balancer_of_the_platform_has_are_refused(
    web: Mapping[str, Any], connections: Mapping[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        users_half(spec({"web": web, "connections": connections}))


def test_users_sign_in_at_the_platforms_issuer_unless_the_settings_name_one() -> None:
    settings = {"web": {"origin": ORIGIN, "denied": "x"}, "billing": {"product": "p"}, "rollout": {"stages": "5%"}}
    tables = tables_of(spec(settings), half(settings), ISSUER)
    assert tables == {"web": {"origin": ORIGIN, "denied": "x", **ISSUER}, "billing": {"product": "p"}}
    own = {"web": {"origin": ORIGIN, "issuer": "https://issuer.example", "client_id": "c"}}
    assert tables_of(spec(own), half(own), {}) == own


def test_what_both_halves_of_hermesops_know_is_the_same() -> None:
    assert SIGNED_IN == CALLBACK
    assert {f"{table}." for table in TABLES} == set(_OF_USERS)
