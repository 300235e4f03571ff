"""Answers in the shape of OpenAI's chat completions, whole or as a stream. Pure.

Source: OpenAI API reference, chat completions, as hermes-agent 0.19.0 reads it.
"""

import json
from collections.abc import Iterator

from hermesops.localcloud.model_router.script import Call, Say

_PIECE = 24


def whole(request_id: str, created: int, model: str, content: Say | Call, prompt_length: int) -> dict[str, object]:
    """The answer to a request that did not ask for a stream."""
    message: dict[str, object] = {"role": "assistant", "content": None}
    if isinstance(content, Say):
        message["content"] = content.text
    else:
        message["tool_calls"] = [_tool_call(request_id, content)]
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _reason(content)}],
        "usage": _usage(content, prompt_length),
    }


def stream(request_id: str, created: int, model: str, content: Say | Call, prompt_length: int) -> Iterator[str]:
    """The same as server-sent events: the role, the content in pieces, the reason, the usage, the end."""

    def event(choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> str:
        chunk: dict[str, object] = {
            "id": request_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": choices,
        }
        if usage:
            chunk["usage"] = usage
        return f"data: {json.dumps(chunk)}\n\n"

    def delta(fields: dict[str, object], reason: str | None = None) -> str:
        return event([{"index": 0, "delta": fields, "finish_reason": reason}])

    yield delta({"role": "assistant", "content": ""})
    if isinstance(content, Say):
        for start in range(0, len(content.text), _PIECE):
            yield delta({"content": content.text[start : start + _PIECE]})
    else:
        yield delta({"tool_calls": [{"index": 0, **_tool_call(request_id, content)}]})
    yield delta({}, _reason(content))
    yield event([], _usage(content, prompt_length))
    yield "data: [DONE]\n\n"


def error(message: str, *, code: str, param: str | None = None) -> dict[str, object]:
    """An error in OpenAI's shape."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _tool_call(request_id: str, call: Call) -> dict[str, object]:
    return {
        "id": f"call_{request_id[-12:]}",
        "type": "function",
        "function": {"name": call.tool, "arguments": call.arguments},
    }


def _reason(content: Say | Call) -> str:
    return "stop" if isinstance(content, Say) else "tool_calls"


def _usage(content: Say | Call, prompt_length: int) -> dict[str, int]:
    # Four characters are about a token: enough for callers that add them up.
    said = len(content.text if isinstance(content, Say) else content.arguments)
    prompt, completion = prompt_length // 4, max(1, said // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
