"""Chat completions in OpenAI's shape."""

import json
from typing import Any

import pytest

from hermesops.localcloud.model_router import completion
from hermesops.localcloud.model_router.script import Call, Say

LONG = Say("word ü " * 40)
CALL = Call("terminal", '{"command": "id"}')


def chunks(content: Say | Call) -> list[Any]:
    events = list(completion.stream("chatcmpl-0123456789ab", 1, "m", content, 400))
    assert events[-1] == "data: [DONE]\n\n"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def test_a_stream_says_what_the_whole_answer_says() -> None:
    whole: Any = completion.whole("chatcmpl-0123456789ab", 1, "m", LONG, 400)
    seen = chunks(LONG)
    said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in seen if chunk["choices"])
    assert said == whole["choices"][0]["message"]["content"] == LONG.text
    assert len(seen) > 5
    assert seen[-1]["usage"] == whole["usage"]


@pytest.mark.parametrize(("content", "reason"), [(LONG, "stop"), (CALL, "tool_calls")])
def test_the_reason_comes_last_and_once(content: Say | Call, reason: str) -> None:
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks(content) if chunk["choices"]]
    assert [found for found in reasons if found] == [reason] == reasons[-1:]


def test_a_tool_call_is_the_same_in_both_forms() -> None:
    whole: Any = completion.whole("chatcmpl-0123456789ab", 1, "m", CALL, 400)
    (called,) = [
        call
        for chunk in chunks(CALL)
        if chunk["choices"]
        for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert called.pop("index") == 0
    assert [called] == whole["choices"][0]["message"]["tool_calls"]
    assert called["function"] == {"name": "terminal", "arguments": '{"command": "id"}'}
