"""What the relay carries: lists of what may pass, and everything else refused as it came."""

import math
import re
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.relay.routes import ROUTES, UNTIL, Route, headers_from_agent, headers_to_agent, until_in, wanted
from hermesops.serving.exchange import RefusedRequestError
from tests.support.suite.cases import each_case


def line(route: Route, name: str = "x-1") -> str:
    return "/" + "/".join(name if part == "*" else part for part in route.path)


@each_case("route", ROUTES, ids=lambda route_: route_.title)
def test_every_route_is_found_by_its_path_and_method_alone(route: Route) -> None:
    parsed = wanted(route.method, f"/agents/ada{line(route)}", next(iter(route.callers), "message-router"))
    assert (parsed.agent, parsed.route, parsed.target) == ("ada", route, line(route))
    with pytest.raises(RefusedRequestError, match="does not pass"):
        wanted("PUT", f"/agents/ada{line(route)}")


def test_jobs_are_relayed_for_the_users_api_alone() -> None:
    of_api = [route for route in ROUTES if route.callers]
    assert {route.path[:2] for route in of_api} == {("api", "jobs")}
    for route in of_api:
        for caller in ("", "message-router", "apis"):
            with pytest.raises(RefusedRequestError, match="does not pass"):
                wanted(route.method, f"/agents/ada{line(route)}", caller)


@each_case(
    "target",
    [
        "/agents/ada/toolbox/process/execute",
        "/agents/ada/api/jobs",
        "/agents/ada/v1/skills",
        "/agents/ada/p/other/v1/models",
        "/agents/ada/api/platforms/telegram/events",
        "/agents/ada/api/cron/fire",
        "/agents/ada/v1/chat",
        "/agents/ada/health/detailed/more",
    ],
)
@each_case("method", ["GET", "POST", "PATCH", "DELETE"])
def test_nothing_else_of_a_machine_is_carried(target: str, method: str) -> None:
    with pytest.raises(RefusedRequestError, match="does not pass") as refused:
        wanted(method, target)
    assert (refused.value.status, refused.value.code) == (HTTPStatus.NOT_FOUND, "not_carried")


@each_case(
    "target",
    [
        "",
        "/",
        "/agents/ada",
        "/agents/ada/",
        "/agents//health",
        "/agents/ada//health",
        "/agents/ada/health/",
        "/agents/ada/./health",
        "/agents/ada/v1/../health",
        "/agents/../ada/health",
        "/agents/ada/v1/runs/..",
        "/agents/ada/v1/runs/.hidden",
        "/agents/ada/%68ealth",
        "/agents/ada/v1/runs/%2e%2e",
        "/agents/ada/v1%2fmodels",
        "/agents/ada/v1/runs/a%00",
        "/agents/ada/v1\\models",
        "/agents/ada/health;x=1",
        "/agents/ada/health#x",
        "/agents/ada/health\t",
        "/agents/ada/health\n",
        "/agents/ada/h\xe9alth",
        "/agents/ADA/health",
        "/agents/ada:8080/health",
        "/agents/ada@evil/health",
        "http://127.0.0.1:7070/agents/ada/health",
        "//agents/ada/health",
        "/agents/ada/health?\n",
        "/agents/" + "a" * 37 + "/health",
        "/agents/ada/v1/runs/" + "r" * 1024,
    ],
)
def test_a_path_that_somebody_could_read_in_another_way_is_refused(target: str) -> None:
    with pytest.raises(RefusedRequestError, match="the path must be") as refused:
        wanted("GET", target)
    assert refused.value.status == HTTPStatus.BAD_REQUEST


def test_no_name_is_longer_than_one_of_a_session_is() -> None:
    assert wanted("GET", f"/agents/ada/v1/runs/{'r' * 128}").target.endswith("r" * 128)
    with pytest.raises(RefusedRequestError, match="does not pass"):
        wanted("GET", f"/agents/ada/v1/runs/{'r' * 129}")


@pytest.mark.parametrize("query", ["limit=10", "limit=10&offset=20&source=web&include_children=true", "limit="])
def test_a_list_of_sessions_is_asked_for_in_parts(query: str) -> None:
    assert wanted("GET", f"/agents/ada/api/sessions?{query}").target == f"/api/sessions?{query}"


@each_case(
    "target",
    [
        "/health?",
        "/health?limit=1",
        "/api/sessions?",
        "/api/sessions?__proxy_token=x",
        "/api/sessions?limit=1&__proxy_token=x",
        "/api/sessions?limit=%31",
        "/api/sessions?limit=1#x",
        "/api/sessions?limit=1?offset=2",
        "/api/sessions?limit",
    ],
)
def test_no_other_query_is_carried(target: str) -> None:
    with pytest.raises(RefusedRequestError, match="does not pass this query"):
        wanted("GET", f"/agents/ada{target}")


@given(st.text(max_size=80), st.sampled_from(["GET", "POST", "DELETE", "PATCH", "get", "CONNECT", ""]))
def test_whatever_is_asked_is_carried_as_it_stands_or_refused(text: str, method: str) -> None:
    for target in (text, f"/agents/ada/{text}", f"/agents/ada/v1/runs/{text}", f"/agents/{text}/health"):
        try:
            parsed = wanted(method, target)
        except RefusedRequestError:
            continue
        assert target == f"/agents/{parsed.agent}{parsed.target}"
        assert re.fullmatch(r"(/[A-Za-z0-9][A-Za-z0-9._:-]*)+(\?[A-Za-z0-9_=&-]*)?", parsed.target)


def test_an_agent_learns_of_no_key_or_place_of_the_caller() -> None:
    sent = [
        ("host", "relay"),
        ("authorization", "Bearer theirs"),
        ("x-proxy-token", "theirs"),
        ("cookie", "a=b"),
        ("connection", "x-hermes-session-id"),
        ("x-forwarded-for", "10.0.0.1"),
        ("transfer-encoding", "chunked"),
        ("accept-encoding", "gzip"),
        ("accept", "text/event-stream"),
        ("x-hermes-session-id", "s-1"),
    ]
    assert headers_to_agent(sent) == {"accept": "text/event-stream", "x-hermes-session-id": "s-1"}


def test_a_lost_stream_of_a_run_is_read_on_and_a_repeated_request_says_so() -> None:
    assert headers_to_agent([("last-event-id", "17"), ("idempotency-key", "k-1")]) == {
        "last-event-id": "17",
        "idempotency-key": "k-1",
    }
    answer = headers_from_agent({"content-type": "application/json", "idempotency-replayed": "true"})
    assert answer["idempotency-replayed"] == "true"


@each_case("value", ["", "a\x1b[2J", "a\xe9", "a" * 257, " a"])
def test_a_header_that_is_carried_is_plain(value: str) -> None:
    with pytest.raises(RefusedRequestError, match="header accept is repeated or malformed"):
        headers_to_agent([("accept", value)])
    with pytest.raises(RefusedRequestError, match="header accept is repeated or malformed"):
        headers_to_agent([("accept", "a"), ("accept", "b")])


def test_a_request_is_given_up_at_a_time_or_never() -> None:
    assert until_in([("host", "x")]) == math.inf
    assert until_in([("host", "x"), (UNTIL, "1767268800.125")]) == 1767268800.125


@each_case("times", [["soon"], ["-1"], ["inf"], ["nan"], ["1e3"], ["9" * 13], ["1", "2"], [""], [" 1"]])
def test_a_time_that_is_none_is_refused(times: list[str]) -> None:
    with pytest.raises(RefusedRequestError, match="repeated or malformed"):
        until_in([(UNTIL, time) for time in times])


def test_a_caller_gets_the_type_and_the_session_and_nothing_that_acts_on_it() -> None:
    headers = {
        "content-type": "application/json; charset=utf-8",
        "set-cookie": "a=b",
        "location": "http://evil",
        "server": "x",
        "x-relay-from": "relay",
        "retry-after": "99999",
        "access-control-allow-origin": "*",
        "x-hermes-session-id": "s-1",
        "x-hermes-partial": "a\x1b[2J",
    }
    assert headers_from_agent(headers) == {
        "content-type": "application/json",
        "x-content-type-options": "nosniff",
        "x-hermes-session-id": "s-1",
    }


@each_case("kind", ["", "text/html", "application/javascript", "image/svg+xml", "application/json, text/html"])
def test_an_answer_of_another_type_is_not_carried(kind: str) -> None:
    with pytest.raises(RefusedRequestError, match="type that the relay does not pass on"):
        headers_from_agent({"content-type": kind})
