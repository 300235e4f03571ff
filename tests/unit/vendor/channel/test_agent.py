"""What the agent's answers mean."""

import json

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.vendor.channel.agent import Piece, health_of, piece_of, refusal_of
from hermesops.vendor.justavps.proxy import ProxyAnswer
from tests.support.suite.cases import each_case


def answer(status: int, body: object = None) -> ProxyAnswer:
    return ProxyAnswer(status, {}, b"" if body is None else json.dumps(body).encode())


@each_case(
    ("given", "health"),
    [
        (answer(200, {"status": "ok", "gateway_state": "running"}), GatewayHealth.OK),
        (answer(200, {"status": "degraded", "gateway_state": "running"}), GatewayHealth.DEGRADED),
        (answer(200, {"status": "ok", "gateway_state": "draining"}), GatewayHealth.DRAINING),
        (answer(401, {"error": {"code": "invalid_api_key"}}), GatewayHealth.REFUSED),
        (answer(403), GatewayHealth.REFUSED),
        (answer(502), GatewayHealth.SILENT),
        (answer(200), GatewayHealth.SILENT),
        (answer(200, ["not", "an", "object"]), GatewayHealth.SILENT),
    ],
)
def test_health(given: ProxyAnswer, health: GatewayHealth) -> None:
    assert health_of(given) is health


def test_words_tools_and_silence_in_a_stream() -> None:
    assert piece_of("message", json.dumps({"choices": [{"delta": {"content": "pong"}}]})) == Piece("pong")
    running = json.dumps({"tool": "terminal", "status": "running"})
    assert piece_of("hermes.tool.progress", running) == Piece("terminal", is_tool=True)
    assert piece_of("hermes.tool.progress", json.dumps({"tool": "terminal", "status": "completed"})) is None
    assert piece_of("message", json.dumps({"choices": [{"delta": {"role": "assistant"}}]})) is None
    assert piece_of("message", "[DONE]") is None
    assert piece_of("message", "not json") is None


@each_case("choices", [None, 1, "text", {"a": 1}, [1], [None], [{}], [{"delta": "text"}], [{"delta": [1]}]])
def test_nonsense_in_a_stream_says_nothing(choices: object) -> None:
    assert piece_of("message", json.dumps({"choices": choices})) is None
    assert piece_of("message", "[" * 100_000) is None


def test_a_turn_that_fails_on_the_agents_side_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="could not finish its turn"):
        piece_of("message", json.dumps({"choices": [{"delta": {}, "finish_reason": "error"}]}))


@each_case(
    ("more", "cause"),
    [
        ({}, ""),
        (
            {
                "error": {
                    "message": "Error code: 401 - {'error': {'type': 'authentication_error'}}",
                    "type": "agent_error",
                }
            },
            " (HTTP 401, authentication_error)",
        ),
        (
            {"error": {"message": "No inference provider configured. Run", "type": "RuntimeError"}},
            " (RuntimeError, No inference provider configured)",
        ),
        ({"hermes": {"error": "HTTP 429: slow down", "error_code": "agent_error"}}, " (HTTP 429)"),
        ({"error": {"message": "something", "type": "agent_error"}}, " (agent_error)"),
        ({"error": {"message": "x", "type": "\x1b[2Jsk_secret and what ada said"}}, ""),
        ({"error": {"message": "x", "type": "sk_live_abcdef"}}, ""),
        ({"error": ["not an object"], "hermes": 7}, ""),
    ],
)
def test_a_failed_turn_names_status_and_class_of_the_error(more: dict[str, object], cause: str) -> None:
    event = {"choices": [{"delta": {}, "finish_reason": "error"}], **more}
    with pytest.raises(UnavailableError) as failed:
        piece_of("message", json.dumps(event))
    assert failed.value.message == f"the agent could not finish its turn{cause}"


def test_a_failed_turn_repeats_neither_the_users_words_nor_a_key() -> None:
    text = "{'error': {'message': 'ada said: my cat is ill; key sk_abc \x1b[2J', 'code': 'budget_exceeded'}}"
    output = f"Error code: 400 - {text}"
    event = {
        "choices": [{"delta": {}, "finish_reason": "error"}],
        "error": {"message": output * 500, "type": "T" * 500},
    }
    with pytest.raises(UnavailableError) as failed:
        piece_of("message", json.dumps(event))
    assert failed.value.message == "the agent could not finish its turn (HTTP 400, budget_exceeded)"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(401), RefusedError),
        (answer(503, {"error": {"code": "gateway_draining"}}), UnavailableError),
        (answer(502), UnavailableError),
        (answer(400, {"error": {"code": "model_not_found", "message": "the user said: secret"}}), RefusedError),
        (answer(400, {"error": {"code": "the user said: secret"}}), RefusedError),
        (answer(400, {"error": {"type": ["secret"] * 10_000}}), RefusedError),
        (answer(503, {"error": {"code": "secret" * 10_000}}), UnavailableError),
    ],
)
def test_a_refused_turn_never_repeats_what_was_said(given: ProxyAnswer, error: type[Exception]) -> None:
    refusal = refusal_of(given)
    assert type(refusal) is error
    assert "secret" not in refusal.message
