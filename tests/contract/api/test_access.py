"""Who gets in: each endpoint with each kind of token, and what other sites can make a browser send."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, APIWebSocketRoute

from hermesops.api.application import PREFIX, ROUTERS
from hermesops.api.parts import current_user
from hermesops.base.network.http import own_client
from hermesops.users.user_requests import service
from tests.support.suite.cases import each_case
from tests.support.users.api import Client, UsersApi

TURN = str(uuid4())
BODIES: Mapping[str, Any] = {
    "POST /chat": {"message": "hello", "conversation": "main", "client_key": "k"},
    "POST /chat/turns/{turn_id}/approval": {"id": "1", "choice": "once"},
    "POST /cron": {"cron": "every 2h", "prompt": "look"},
    "PATCH /settings": {"personality": "brief"},
    "POST /subscribe": {"plan": "light", "client_key": "k1"},
    "POST /callers": {"name": "grace's agent", "client_key": "k"},
    "POST /plan/cancel": {"client_key": "k2"},
    "POST /plan/portal": {"client_key": "k3"},
}


LISTING = frozenset({"GET /messengers", "GET /callers"})
BUYING = frozenset({"GET /plan", "POST /subscribe", "POST /plan/cancel", "POST /plan/portal"})


def routes() -> list[APIRoute]:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) >= 16
    return routes


def line(route: APIRoute) -> str:
    return f"{next(iter(route.methods or ()))} {route.path}"


async def ask(client: Client, route: APIRoute) -> Any:  # noqa: ANN401 - httpx's answer
    method, path = line(route).split(" ", 1)
    options: dict[str, Any] = {"json": BODIES[line(route)]} if line(route) in BODIES else {}
    if path == "/chat/files":
        options = {"files": {"file": ("a.txt", b"text")}}
    if path == "/settings":
        options["headers"] = {"if-match": f'"{"0" * 32}"'}
    path = path.format(
        turn_id=TURN,
        conversation="main",
        job_id="abc123",
        request_id=TURN,
        service="gmail",
        messenger="telegram",
        caller_id=TURN,
    )
    return await client.ask(method, path, **options)


def dependencies_of(dependant: Dependant) -> set[Callable[..., Any] | None]:
    return {dependant.call} | {call for each in dependant.dependencies for call in dependencies_of(each)}


def test_every_route_of_a_user_takes_the_one_way_to_a_user() -> None:
    sockets = [route for router in ROUTERS for route in router.routes if isinstance(route, APIWebSocketRoute)]
    assert sockets
    of_users: list[APIRoute | APIWebSocketRoute] = [*routes(), *sockets]
    for route in of_users:
        assert current_user in dependencies_of(route.dependant), route.path


@pytest.fixture
def tokens(api: UsersApi) -> Mapping[str, str]:
    """A token of each kind that is refused."""
    denied = api.user("mallory")
    api.denied.add(denied)
    return {
        "none": "",
        "expired": api.token(exp=1),
        "of a denied user": api.token(denied),
        "of a wrong use": api.token(token_use="id"),
        "of another issuer": api.token(iss="https://other.test"),
        "of another client": api.token(client_id="other"),
        "of nobody": api.token(sub="ada"),
        "cut": api.token()[:-4],
    }


async def test_every_endpoint_refuses_every_other_token(api: UsersApi, tokens: Mapping[str, str]) -> None:
    async with own_client(base_url=api.process.url, timeout=30) as http:
        for kind, token in tokens.items():
            client = Client(http, {"authorization": f"Bearer {token}"} if token else {})
            for route in routes():
                answer = await ask(client, route)
                assert (answer.status_code, answer.json()["code"]) == (401, "invalid-token"), (kind, line(route))
                assert answer.headers["content-type"] == "application/problem+json"
                assert not token or token not in answer.text
    assert not api.agent.posts


async def test_a_user_without_an_agent_gets_nobody_elses(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "DECIDED_WITHIN_S", 0.0)
    await ada.whole("a secret")
    async with api.client(api.user("grace")) as grace:
        for route in routes():
            answer = await ask(grace, route)
            if line(route) == "GET /me":
                assert answer.json() == {"user": api.user("grace"), "display_name": "grace"}
                continue
            # Who has no agent may buy one, and sees which messengers there are: none here.
            expected = {200, 202} if line(route) in BUYING | LISTING else {404, 409, 422}
            assert answer.status_code in expected, (line(route), answer.text)
            assert "secret" not in answer.text
    assert api.agent.posts == 1


async def test_a_limit_answers_with_the_seconds_to_wait(api: UsersApi, ada: Client) -> None:
    api.process.parts.limits._monotonic = lambda: 0.0
    answers = [await ada.ask("POST", f"/chat/turns/{TURN}/stop") for _ in range(31)]
    assert {answer.status_code for answer in answers[:30]} == {404}
    assert (answers[30].status_code, answers[30].json()["code"]) == (429, "too-many-requests")
    assert answers[30].headers["retry-after"] == "1"
    assert (await ada.ask("GET", "/me")).status_code == 200


@each_case(
    "body",
    [
        {},
        {"message": "x"},
        {"message": "", "conversation": "c", "client_key": "k"},
        {"message": "  ", "conversation": "c", "client_key": "k"},
        {"message": 1, "conversation": "c", "client_key": "k"},
        {"message": "x", "conversation": "../c", "client_key": "k"},
        {"message": "x", "conversation": "c", "client_key": "k" * 65},
        {"message": "x", "conversation": "c", "client_key": "k", "user": "grace"},
        {"message": "x", "conversation": "c", "client_key": "k", "files": ["../x"]},
        {"message": "x" * 100_001, "conversation": "c", "client_key": "k"},
        {"message": "a\0b", "conversation": "c", "client_key": "k"},
    ],
    ids=lambda body: str(body)[:60],
)
async def test_a_malformed_request_is_refused_with_the_names_of_fields_alone(api: UsersApi, body: object) -> None:
    async with api.client() as client:
        answer = await client.ask("POST", "/chat", json=body)
    assert (answer.status_code, answer.json()["code"]) in {(422, "malformed"), (429, "too-many-requests")}
    assert "grace" not in answer.text
    assert not api.agent.posts


async def test_half_of_a_character_and_no_json_are_refused(ada: Client) -> None:
    for content in (b'{"message": "\\ud800", "conversation": "c", "client_key": "k"}', b"{", b"[]", b"\xff"):
        answer = await ada.ask("POST", "/chat", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in {400, 422}, content
        assert answer.headers["content-type"] == "application/problem+json"


async def test_bodies_are_bounded_whether_or_not_they_say_their_size(ada: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    for content in (b"x" * (2 << 20), pieces()):
        answer = await ada.ask("POST", "/chat", content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    large = {"file": ("a.txt", b"x" * 10_500_000)}
    answer = await ada.ask("POST", "/chat/files", files=large)
    assert (answer.status_code, answer.json()["detail"]) == (422, "a.txt: a file has at most 10 MB")


async def test_another_host_is_refused(api: UsersApi, ada: Client) -> None:
    answer = await ada.ask("GET", "/me", headers={"host": "rebound.test"})
    assert (answer.status_code, answer.json()["code"]) == (421, "another-host")
    assert api.ada


async def test_every_answer_names_its_request_and_is_kept_by_nobody(api: UsersApi, ada: Client) -> None:
    answers = [
        await ada.ask("GET", "/me"),
        await ada.ask("GET", "/nothing"),
        await ada.ask("PUT", "/me"),
        await ada.http.get("/health"),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 405, 200]
    for answer in answers:
        assert len(answer.headers["x-request-id"]) == 16
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
    assert (await ada.ask("PUT", "/settings")).headers["allow"] == "GET, PATCH"
    assert answers[1].json()["request_id"] == answers[1].headers["x-request-id"]
    assert PREFIX in str(answers[0].url)
    assert api.ada
