"""What of a request reaches a provider, and the most that it can cost."""

from typing import Any

import pytest

from hermesops.model.billing.model_usage import Spent
from hermesops.model.billing.route import ROUTES
from hermesops.programs.model_router.requests.admission import Refused
from hermesops.programs.model_router.requests.completion import Completion, read_completion
from hermesops.programs.model_router.requests.prices import highest_prices

BY_NAME = {route.name: route for route in ROUTES}
ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def read(size: int = 100, longest: int = 8_192, **fields: Any) -> Completion | Refused:  # noqa: ANN401 - as people send
    return read_completion({**ASKED, **fields}, BY_NAME, size, longest)


def passed(**fields: Any) -> Completion:  # noqa: ANN401 - as above
    output = read(**fields)
    assert isinstance(output, Completion), output
    return output


def with_content(*parts: object) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": list(parts)}]}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [FUNCTION, {"type": "web_search_20250305", "name": "web_search", "max_uses": 20}]},
        {"tools": [{"type": "code_execution_20250522", "name": "code_execution"}]},
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"url_context": {}}]},
        {"tools": [{"type": "mcp", "server_url": "https://evil.example", "server_label": "x"}]},
        {"tools": [{"type": "function"}]},
        {"tools": ["web_search"]},
        {"tools": {"type": "web_search"}},
        {"n": 2},
        {"n": "128"},
        {"max_tokens": 0},
        {"max_tokens": "many"},
        {"max_completion_tokens": True},
        {"max_tokens": 1e9},
        {"thinking": "much"},
        {"thinking": {"type": "enabled", "budget_tokens": -1}},
        {"thinking": {"type": "enabled", "budget_tokens": 8_192}},
        {"messages": ["hello"]},
        with_content("hello"),
        with_content({"type": "image_url", "image_url": {"url": "http://127.0.0.1:9090/"}}),
        with_content({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}),
        with_content({"type": "image_url", "image_url": "file:///etc/passwd"}),
        with_content({"type": "image_url", "image_url": {"url": "gs://bucket/a.png"}}),
        with_content({"type": "image_url", "image_url": {"url": " data:x"}}),
        with_content({"type": "image_url"}),
        with_content(IMAGE, {"type": "file", "file": {"file_id": "https://example.org/a.pdf"}}),
        with_content({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        with_content({"type": "video_url", "video_url": {"url": "https://example.org"}}),
        with_content({"type": ["text"]}),
        {"messages": [{"role": "user", "content": {"type": "image_url", "image_url": "https://example.org"}}]},
    ],
)
def test_what_is_paid_apart_or_names_an_address_is_refused(fields: dict[str, Any]) -> None:
    output = read(**fields)
    assert isinstance(output, Refused)
    assert (output.status, output.code) == (400, "bad_request")


def test_an_agents_own_functions_and_images_pass_and_nothing_beside_them() -> None:
    dressed = {**FUNCTION, "googleSearch": {}, "max_uses": 20}
    images = with_content({"type": "text", "text": "see"}, IMAGE)

    completion = passed(
        tools=[dressed], n=1, audio={"voice": "x"}, modalities=["audio"], service_tier="priority", **images
    )

    assert completion.limited(7) == {"model": "gpt-4o", "max_tokens": 7, "tools": [FUNCTION], **images}


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({}, 8_192),
        ({"max_tokens": None}, 8_192),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5, "max_tokens": 9}, 5),
        ({"max_tokens": 100_000}, 8_192),
    ],
)
def test_an_answer_has_a_longest_length_whatever_is_asked_for(fields: dict[str, Any], output: int) -> None:
    completion = passed(**fields)
    assert completion.output_tokens == output
    assert completion.least_output <= output
    assert completion.limited(3)["max_tokens"] == 3
    assert "max_completion_tokens" not in completion.limited(3)


def test_thinking_is_left_room_to_answer() -> None:
    assert passed(thinking={"type": "enabled", "budget_tokens": 4_000}).least_output == 4_001


def test_no_token_is_shorter_than_a_byte_and_no_context_longer_than_the_longest() -> None:
    assert passed(size=50).input_tokens == 50
    assert passed(size=16 << 20).input_tokens == 1_000_000


def test_prices_are_the_highest_of_all_routes_as_any_may_answer() -> None:
    prices = highest_prices(ROUTES)

    assert prices.most(1_000_000, 100) == Spent(1_000_100, 2_501_000)
    assert prices.affordable(Spent(10_000, 10_000), 1_000) == 750
    assert prices.affordable(Spent(1_500, 10**9), 1_000) == 500
    assert prices.affordable(Spent(100, 0), 1_000) < 0
    for route in ROUTES:
        most = prices.most(1_000, 1_000).micros
        assert most >= route.micros(1_000, 1_000, cached_hour=1_000)
        assert most >= route.micros(1_000, 1_000, cached=1_000)


def test_tokens_that_a_provider_keeps_cost_what_it_asks_for_them() -> None:
    haiku = BY_NAME["claude-haiku"]
    assert haiku.micros(1_000, 0) == 1_000
    assert haiku.micros(1_000, 0, cached=400) == 600 + 500
    assert haiku.micros(1_000, 0, cached=400, cached_hour=600) == 500 + 1_200
    assert BY_NAME["gpt-4o"].micros(1_000, 0, cached=400) == 2_500
