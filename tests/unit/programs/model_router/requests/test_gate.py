"""The gate before LiteLLM: what passes, trimmed how, and what an error becomes."""

import json
from typing import Any

import httpx
import pytest

from hermesops.base.waiting import pause
from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ROUTES, issue_token
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.metrics import Metrics
from hermesops.programs.model_router.requests.admission import Admission
from hermesops.programs.model_router.requests.completion import FIELDS
from hermesops.programs.model_router.requests.gate import (
    CALLER,
    Gate,
    Limits,
    Message,
    Receive,
    Scope,
    Send,
    provider_error,
)
from tests.support.suite.cases import each_case

INSTANCE, SECRET = InstanceId("ada"), b"s" * 32
TOKEN = issue_token(SECRET, INSTANCE, 1, 2**33)
KEY = "sk-key-of-the-platform-0123456789"
ASKED = {"model": ROUTES[0].name, "messages": [{"role": "user", "content": "hello"}]}


class Behind:
    """Stands for LiteLLM."""

    def __init__(self) -> None:
        self.status = 200
        self.pieces = [b'{"said": "hi"}']
        self.headers = [(b"content-type", b"application/json"), (b"x-litellm-key", b"secret")]
        self.bodies: list[dict[str, Any]] = []
        self.scopes: list[Scope] = []
        self.pause_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        message = await receive()
        self.bodies.append(json.loads(message["body"]))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        for piece in self.pieces:
            await pause(self.pause_s)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def gate(behind: Behind, **limits: Any) -> tuple[Gate, list[Usage], Metrics]:  # noqa: ANN401 - of Limits
    used: list[Usage] = []
    metrics = Metrics({})
    admission = Admission([SECRET], None)
    return Gate(behind, admission, metrics, limits=Limits(**limits), keys=[KEY], use=used.append), used, metrics


async def post(app: Gate, body: object = ASKED, *, path: str = "/v1/chat/completions") -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "10.0.0.1", "X-Litellm-Api-Key": "sk-other"}
    async with httpx.AsyncClient(transport=transport, base_url="http://router", headers=headers) as http:
        return await http.post(f"{path}?api_key=sk-query", content=json.dumps(body))


async def test_a_conversation_goes_on_and_nothing_else_does() -> None:
    behind = Behind()
    app, _, _ = gate(behind)
    extra = {
        "api_base": "http://evil",
        "api_key": "sk",
        "mock_response": "x",
        "metadata": {"user_api_key_user_id": "b"},
    }
    answer = await post(app, {**ASKED, "temperature": 0.5, "tools": [], **extra})
    assert (answer.status_code, answer.json()) == (200, {"said": "hi"})
    assert behind.bodies == [{**ASKED, "temperature": 0.5, "tools": [], "max_tokens": 8_192}]
    scope = behind.scopes[0]
    assert scope["state"][CALLER] == INSTANCE
    assert scope["query_string"] == b""
    assert {name for name, _ in scope["headers"]} == {b"content-type", b"content-length", b"authorization"}
    assert "x-litellm-key" not in answer.headers
    assert not {"api_base", "api_key", "base_url", "metadata", "mock_response", "user", "fallbacks"} & FIELDS


async def test_a_stream_is_asked_for_its_cost() -> None:
    behind = Behind()
    await post(gate(behind)[0], {**ASKED, "stream": True, "stream_options": {"include_usage": False}})
    assert behind.bodies[0]["stream_options"] == {"include_usage": True}


async def test_without_a_good_token_the_body_is_not_even_read() -> None:
    behind = Behind()
    app, used, metrics = gate(behind)

    async def never() -> Message:
        raise AssertionError("read")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "query_string": b""}
    await app(scope, never, send)
    assert sent[0]["status"] == 401
    assert (behind.scopes, used) == ([], [])
    assert 'hermes_router_refused_total{code="401",status="401"} 1' in metrics.exposition()


@each_case("path", ["/", "/key/generate", "/v1/embeddings", "/v1/chat/completions/", "/V1/models"])
async def test_other_paths_are_closed(path: str) -> None:
    behind = Behind()
    assert (await post(gate(behind)[0], path=path)).status_code == 404
    assert behind.scopes == []


async def test_web_sockets_are_closed_at_once() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("read")

    await gate(Behind())[0]({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@each_case(
    ("status", "becomes", "code"),
    [
        (400, 400, "bad_request"),
        (401, 502, "provider_refuses"),
        (403, 502, "provider_refuses"),
        (404, 502, "provider_refuses"),
        (408, 504, "upstream_timeout"),
        (429, 429, "rate_limit_exceeded"),
        (500, 502, "upstream_unavailable"),
        (503, 503, "upstream_unavailable"),
        (504, 504, "upstream_timeout"),
    ],
)
async def test_errors_are_told_in_our_words(status: int, becomes: int, code: str) -> None:
    behind = Behind()
    behind.status = status
    behind.pieces = [json.dumps({"error": {"message": f"the key {KEY} of hello is bad"}}).encode()]
    answer = await post(gate(behind)[0])
    assert (answer.status_code, answer.json()["error"]["code"]) == (becomes, code)
    assert KEY not in answer.text
    if status != 400:
        assert "hello" not in answer.text


def test_a_route_that_rests_after_failures_is_no_rate_limit() -> None:
    refused = provider_error(429, "No deployments available for selected model, Try again in 10 seconds.", 10)
    assert (refused.status, refused.code, refused.retry_after_s) == (502, "upstream_unavailable", 10)


def test_a_conversation_that_is_too_long_is_told_as_openai_does() -> None:
    output = "This model's maximum context length is 128000 tokens"
    assert provider_error(400, output).code == "context_length_exceeded"
    assert provider_error(400, output).message == output


async def test_how_long_to_wait_is_passed_back() -> None:
    behind = Behind()
    behind.status = 429
    behind.headers = [(b"retry-after", b"17")]
    assert (await post(gate(behind)[0])).headers["retry-after"] == "17"
    behind.headers = [(b"retry-after", b"soon")]
    assert "retry-after" not in (await post(gate(behind)[0])).headers


async def test_a_key_in_a_stream_and_an_error_in_its_middle_are_hidden() -> None:
    behind = Behind()
    behind.pieces = [
        f"data: {KEY}\n\n".encode(),
        f'data: {{"error": {{"message": "{KEY}", "code": 401}}}}\n\n'.encode(),
    ]
    answer = await post(gate(behind)[0])
    assert KEY not in answer.text
    assert "provider_refuses" in answer.text


async def test_an_answer_that_takes_too_long_is_504_or_breaks_off() -> None:
    behind = Behind()
    behind.pause_s = 5
    with pytest.raises(TimeoutError):  # the server cuts the connection
        await post(gate(behind, answer_s=0.1)[0])


async def test_refusals_are_counted_for_the_agent_and_unknown_names_are_not_kept() -> None:
    app, used, metrics = gate(Behind())
    assert (await post(app, {**ASKED, "model": "canary"})).status_code == 400
    assert [(usage.instance_id, usage.model, usage.outcome) for usage in used] == [(INSTANCE, "", "400")]
    assert "canary" not in metrics.exposition()


@each_case("body", [[], 1, None, {}, {"model": "x"}, {"messages": []}, {**ASKED, "messages": "x"}])
async def test_what_is_no_conversation_is_400(body: object) -> None:
    assert (await post(gate(Behind())[0], body)).status_code == 400


async def test_too_much_is_413_and_too_deep_is_400() -> None:
    app, _, _ = gate(Behind(), body_bytes=1000)
    assert (await post(app, {**ASKED, "stop": "a" * 2000})).status_code == 413
    deep: object = []
    for _ in range(400):
        deep = [deep]
    assert (await post(gate(Behind())[0], {"model": "x", "messages": {"deep": deep}})).status_code == 400


def test_figures_are_readable_by_prometheus() -> None:
    metrics = Metrics({"hermes_router_age_seconds": lambda: float("inf")})
    metrics.count("hermes_router_x_total", model='a"b\\c\nd')
    metrics.took("gpt-4o", 0.3)
    text = metrics.exposition()
    assert r'hermes_router_x_total{model="a\"b\\c\nd"} 1' in text
    assert 'hermes_router_seconds_bucket{le="0.5",model="gpt-4o"} 1' in text
    assert 'hermes_router_seconds_bucket{le="+Inf",model="gpt-4o"} 1' in text
    assert 'le="0.25"' not in text
    assert 'hermes_router_seconds_sum{model="gpt-4o"} 0.300000' in text
    assert "hermes_router_age_seconds +Inf" in text
