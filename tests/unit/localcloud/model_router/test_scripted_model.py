"""What the scripted model says, and its shape on the wire."""

import json
from typing import Any

import pytest

from hermesops.localcloud.model_router import scripted_model
from hermesops.localcloud.model_router.scripted_model import Answer, Call, Say, answer_to

TOOLS = frozenset({"terminal", "execute_code"})


def user(content: object) -> list[dict[str, object]]:
    return [{"role": "system", "content": "RUN: never this"}, {"role": "user", "content": content}]


def test_run_asks_for_the_terminal_with_that_very_command() -> None:
    command = """echo "it's" $((6*7)) | tee 'a b'"""
    answer = answer_to(user(f"please\nRUN: {command}\nthanks"), TOOLS)
    assert isinstance(answer.content, Call)
    assert (answer.content.tool, json.loads(answer.content.arguments)) == ("terminal", {"command": command})


def test_python_asks_for_code_execution_with_every_line() -> None:
    answer = answer_to(user("PYTHON: import os\nprint(os.getpid())"), TOOLS)
    assert isinstance(answer.content, Call)
    assert answer.content.tool == "execute_code"
    assert json.loads(answer.content.arguments) == {"code": "import os\nprint(os.getpid())"}


@pytest.mark.parametrize(
    ("text", "arguments"), [("CALL: mcp__x__Y", "{}"), ('CALL: mcp__x__Y {"a": {"b": 1}}', '{"a": {"b": 1}}')]
)
def test_call_asks_for_any_tool_that_is_offered(text: str, arguments: str) -> None:
    assert answer_to(user(text), TOOLS | {"mcp__x__Y"}).content == Call("mcp__x__Y", arguments)


def test_a_tools_result_is_repeated() -> None:
    messages: list[dict[str, object]] = [*user("RUN: id"), {"role": "tool", "content": '{"output": "RUN: id"}'}]
    assert answer_to(messages, TOOLS) == Answer(Say('TOOL SAID: {"output": "RUN: id"}'))


@pytest.mark.parametrize("text", ["RUN: id", "PYTHON: 1", "CALL: mcp__x__Y"])
def test_a_tool_that_is_not_offered_is_not_called(text: str) -> None:
    assert answer_to(user(text), frozenset()) == Answer(Say(f"YOU SAID: {text}"))


def test_sleep_stalls_for_so_long() -> None:
    assert answer_to(user("SLEEP 2.5"), TOOLS) == Answer(Say("SLEPT"), 2.5)
    assert answer_to(user("SLEEP 100000"), TOOLS) == Answer(Say("SLEPT"), 600)


@pytest.mark.parametrize(
    ("content", "message"),
    [("hello", "hello"), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"), (None, "")],
)
def test_anything_else_is_echoed(content: object, message: str) -> None:
    assert answer_to(user(content), TOOLS) == Answer(Say(f"YOU SAID: {message}"))


def test_an_empty_conversation_gets_an_answer() -> None:
    assert answer_to([], TOOLS) == Answer(Say("YOU SAID: "))


LONG = Say("word ü " * 40)
CALL = Call("terminal", '{"command": "id"}')


def chunks(content: Say | Call) -> list[Any]:
    events = list(scripted_model.stream("chatcmpl-0123456789ab", 1, "m", content, 400))
    assert events[-1] == "data: [DONE]\n\n"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def test_a_stream_says_what_the_whole_answer_says() -> None:
    whole: Any = scripted_model.whole("chatcmpl-0123456789ab", 1, "m", LONG, 400)
    answer_chunks = chunks(LONG)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in answer_chunks if chunk["choices"])
    assert text == whole["choices"][0]["message"]["content"] == LONG.text
    assert len(answer_chunks) > 5
    assert answer_chunks[-1]["usage"] == whole["usage"]


@pytest.mark.parametrize(("content", "reason"), [(LONG, "stop"), (CALL, "tool_calls")])
def test_the_reason_comes_last_and_once(content: Say | Call, reason: str) -> None:
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks(content) if chunk["choices"]]
    assert [text for text in reasons if text] == [reason] == reasons[-1:]


def test_a_tool_call_is_the_same_in_both_forms() -> None:
    whole: Any = scripted_model.whole("chatcmpl-0123456789ab", 1, "m", CALL, 400)
    (called,) = [
        call
        for chunk in chunks(CALL)
        if chunk["choices"]
        for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert called.pop("index") == 0
    assert [called] == whole["choices"][0]["message"]["tool_calls"]
    assert called["function"] == {"name": "terminal", "arguments": '{"command": "id"}'}
