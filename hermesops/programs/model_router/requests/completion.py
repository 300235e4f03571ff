"""Selects the fields of a completion request that a provider gets, and computes the highest cost of the request. Pure.

Only features that are paid by tokens pass: a tool that a provider runs itself (web search, code, MCP) is paid
separately and acts in the platform's name. Only content inside the request passes: a provider, or LiteLLM, that fetched
a URL would reach addresses that the agent cannot.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.model.billing.route import ModelRoute
from hermesops.programs.model_router.requests.admission import Refused, bad_request

FIELDS = frozenset(
    {
        "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "messages", "model",
        "parallel_tool_calls", "prediction", "presence_penalty", "reasoning_effort", "response_format", "seed", "stop",
        "stream", "temperature", "thinking", "tool_choice", "tools", "top_logprobs", "top_p", "verbosity",
    }
)  # fmt: skip
"""Fields of a request that go on as they are. Source: OpenAI API reference, chat completions; ``thinking`` is
Anthropic's. Sound has prices of its own, and none of the platform's routes answers with any."""

_ASKED = ("max_completion_tokens", "max_tokens")
_PARTS = frozenset({"image_url", "redacted_thinking", "refusal", "text", "thinking"})
"""Kinds of content. Files, sound and video are none: their tokens have other prices, and they may name URLs."""

_LEAST_OUTPUT = 256
"""Tokens of an answer for which it is not worth while to begin."""


@dataclass(frozen=True)
class Completion:
    """A checked request for a completion.

    Attributes:
        body: The forwarded fields, all but ``max_tokens``.
        input_tokens: Upper limit of a provider's count: no token is shorter than a byte.
        output_tokens: Limit of the answer.
        least_output: Fewest tokens of a useful answer.
    """

    model: str
    body: Mapping[str, object]
    input_tokens: int
    output_tokens: int
    least_output: int

    def limited(self, output_tokens: int) -> dict[str, object]:
        """The body, with the answer limited to so many tokens."""
        return {**self.body, "max_tokens": output_tokens}


def read_completion(
    raw: Mapping[str, Any], routes: Mapping[str, ModelRoute], size: int, longest: int
) -> Completion | Refused:
    """Check a request; return the completion, or the refusal.

    Args:
        size: Bytes of the received body.
        longest: Limit of an answer, in tokens.
    """
    if refused := _wrong(raw):
        return refused
    body = {name: value for name, value in raw.items() if name in FIELDS}
    if raw.get("tools"):
        body["tools"] = [{"type": "function", "function": tool["function"]} for tool in raw["tools"]]
    if raw.get("stream") is True:
        # Without it a provider does not say what a stream cost.
        body["stream_options"] = {"include_usage": True}
    limits = [int(raw[name]) for name in _ASKED if raw.get(name) is not None]
    output = min([longest, *limits])
    thought = int((raw.get("thinking") or {}).get("budget_tokens") or 0)
    if thought >= output:
        return bad_request(f"thinking.budget_tokens has to be below max_tokens, which is {output} here at most")
    route = routes[str(raw["model"])]
    # One that stands in may read more than the one that is asked for.
    context = max(candidate.context_tokens for candidate in routes.values())
    return Completion(route.name, body, min(size, context), output, min(output, max(_LEAST_OUTPUT, thought + 1)))


def _wrong(raw: Mapping[str, Any]) -> Refused | None:
    if raw.get("n") not in (None, 1):
        return bad_request("n has to be 1")
    for name in _ASKED:
        if raw.get(name) is not None and not _is_count(raw[name]):
            return bad_request(f"{name} has to be a number above 0")
    if not _is_thinking(raw.get("thinking")):
        return bad_request("thinking has to be an object with budget_tokens, a number above 0")
    if not all(map(_is_function, _items(raw.get("tools")))):
        return bad_request("tools have to be of type function: providers' own tools are not offered here")
    for message in raw["messages"]:
        if not isinstance(message, dict):
            return bad_request()
        for part in _items(message.get("content")):
            if why := _wrong_part(part):
                return bad_request(why)
    return None


def _items(value: object) -> list[object]:
    """The items of a list; a text, or nothing, has none."""
    if value is None or isinstance(value, str):
        return []
    return value if isinstance(value, list) else [value]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_thinking(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and (value.get("budget_tokens") is None or _is_count(value["budget_tokens"]))


def _is_function(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "function" and isinstance(tool.get("function"), dict)


def _wrong_part(part: object) -> str:
    if not isinstance(part, dict):
        return "content has to be a text or a list of objects"
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in _PARTS:
        return f"content of type {str(kind)[:40]!r} is not forwarded"
    if kind == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if not isinstance(url, str) or not url.startswith("data:"):
            return "images have to be in the request, as data: URLs; nothing is fetched for an agent"
    return ""
